"""``sweep``: solve every point that is not yet solved, and store each as it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .engines import Engine
from .points import SweepSpec
from .store import Store
from .worker import FAILED, Outcome


@dataclass(frozen=True)
class Tally:
    """How far a sweep is.

    Attributes
    ----------
    points, known
        Points in all, and those that were there before.
    counts
        Points of this run by status.
    """

    points: int
    known: int
    counts: Counter[str]

    @property
    def done(self) -> int:
        """Points that need no further work."""
        return self.known + sum(self.counts.values())


Told = Callable[[Tally], None]


@dataclass(frozen=True)
class SweepResult:
    """A sweep's points in order, solved or not.

    Attributes
    ----------
    spec
        What it is of.
    rows
        One a point: labels, status, reason, plan.
    tally
        What this run did.
    """

    spec: SweepSpec
    rows: tuple[dict[str, Any], ...]
    tally: Tally

    @property
    def failed(self) -> int:
        """Points without an answer: an error, or out of time."""
        return sum(row["status"] in (FAILED, "unknown", "open") for row in self.rows)


def run_sweep(
    spec: SweepSpec, store: Store, engine: Engine, told: Told | None = None
) -> SweepResult:
    """Solve the points of a sweep that the store lacks.

    Parameters
    ----------
    spec
        Base problem and what is varied.
    store
        Where points are looked up and kept; whoever writes the same file shares them.
    engine
        What solves them.
    told
        Called after each point.

    Raises
    ------
    InputError
        Where the store cannot be written, or the engine is not installed.
    """
    points = list(spec.points())
    store.add_sweep(spec, points)
    known = store.done(point.key for point in points)
    tally = Tally(len(points), sum(p.key in known for p in points), Counter())
    counted = Counter(point.key for point in points)
    todo: dict[str, Any] = {}
    for point in points:
        if point.key in known or point.key in todo:
            continue
        if point.problem is None:
            known.add(point.key)
            _keep(store, Outcome(point.key, FAILED, None, point.error, 0.0), tally, counted, told)
        else:
            todo[point.key] = point.problem
    waiting: Sequence[tuple[str, Any]] = list(todo.items())
    for outcome in engine.outcomes(waiting) if waiting else ():
        _keep(store, outcome, tally, counted, told)
    return SweepResult(spec, tuple(store.results(spec.key)), tally)


def stored_sweep(store: Store) -> SweepResult:
    """Return the last sweep of a file as far as it is solved."""
    spec = store.last_sweep()
    rows = tuple(store.results(spec.key))
    known = sum(row["status"] != "open" for row in rows)
    return SweepResult(spec, rows, Tally(len(rows), known, Counter()))


def _keep(
    store: Store, outcome: Outcome, tally: Tally, counted: Counter[str], told: Told | None
) -> None:
    store.put(outcome)
    tally.counts[outcome.status] += counted[outcome.key]
    if told is not None:
        told(tally)
