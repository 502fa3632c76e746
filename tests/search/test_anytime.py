"""Stopped at any moment, the search returns the best so far with a bound that holds."""

from __future__ import annotations

import itertools
import signal

import click
import pytest

import cli
from solver import solve
from solver.job.search import Search
from tests.search.helpers import problem


@pytest.mark.parametrize("models", [0, 1, 2, 4, 8])
def test_stopped_after_some_models(models: int) -> None:
    asked = problem(nodes=4, batch=64, search=Search(tp=(4, 8), stages="free"))
    best = solve(asked, top=1).plans[0].estimate.time.step_s
    calls = itertools.count()
    result = solve(asked, top=1, stop=lambda: next(calls) >= models)
    assert result.status in ("unknown", "feasible")
    if result.plans:
        assert result.plans[0].estimate.time.step_s >= best
        assert result.certificate.bound is not None
        assert result.certificate.bound <= best * (1 + 1e-9)
        assert result.certificate.gap is not None


def test_progress_tells_bound_and_best() -> None:
    told: list[tuple[float | None, float | None]] = []
    result = solve(problem(), top=1, progress=lambda bound, best: told.append((bound, best)))
    step = result.plans[0].estimate.time.step_s
    assert told
    assert all(bound is None or bound <= step * (1 + 1e-9) for bound, _ in told)
    assert any(best == step for _, best in told)


def test_the_first_interrupt_stops_the_search_and_the_second_everything() -> None:
    out = cli.Out("json", None, "never", quiet=True, verbose=0)
    before = signal.getsignal(signal.SIGINT)
    with cli.Watched(out, None) as watched:
        assert not watched.stopped()
        signal.raise_signal(signal.SIGINT)
        assert watched.stopped()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert isinstance(cli.main, click.Group)
