"""Where another plan becomes best: just below and just above."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import solve
from solver.answers.flips import flips, layout_key, parameters
from solver.job.job import PlanningProblem
from tests.oracle.problems import random_problem
from tests.search.helpers import TEXTBOOK, problem
from topology.errors import InputError


def best(asked: PlanningProblem) -> str:
    even = asked.search.model_copy(update={"stages": "even"})
    try:
        plans = solve(replace(asked, search=even), top=1, explain=False).plans
    except InputError:  # such a problem cannot be, so nothing fits it
        return ""
    return layout_key(plans[0]) if plans else ""


def check(asked: PlanningProblem) -> int:
    """Solve again on both sides of every flip."""
    by_name = {one.name: one for one in parameters(asked)}
    found = flips(asked)
    for flip in found:
        one = by_name[flip.parameter]
        for value, layout in ((flip.last, flip.before), (flip.first, flip.after)):
            changed = one.change(asked, value)
            assert best(changed) == layout
        gap = abs(flip.first - flip.last)
        assert gap <= (one.step or 1e-3 * flip.last) * 1.01
        assert min(flip.first, flip.last) >= 0
    return len(found)


def test_seed_003_names_its_three_conditions_on_the_right_side() -> None:
    found = {
        (flip.parameter, flip.first > flip.now): flip
        for flip in flips(problem("seed-70b", account=TEXTBOOK))
    }
    batch = found["global batch", False]
    assert 256 <= batch.first < 1024
    assert "tp=2" in batch.after
    network = found["network bandwidth", False]
    assert 25e9 < network.first < 50e9
    assert "tp=2" in network.after
    gpus = found["GPUs", True]
    assert 64 < gpus.first <= 512


@pytest.mark.parametrize("number", [3, 8])
def test_both_sides_of_every_flip(number: int) -> None:
    check(drawn(number))


@pytest.mark.nightly
def test_both_sides_of_every_flip_of_fifty_problems() -> None:
    assert sum(check(drawn(number)) for number in range(50)) > 50


def drawn(number: int) -> PlanningProblem:
    return random_problem(77, number)
