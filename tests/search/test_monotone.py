"""More freedom in the stages never worsens the optimum."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver import solve
from solver.job.job import PlanningProblem, Search
from tests.oracle.problems import random_problem

SEVERAL = settings(deadline=None, max_examples=max(2, settings().max_examples // 20))
"""A solve takes a thousand times as long as what other properties look at."""


def value(problem: PlanningProblem) -> float:
    """The objective's value; infinite where nothing fits."""
    result = solve(problem, top=1)
    assert result.status in ("optimal", "infeasible")
    if not result.plans:
        return float("inf")
    plan = result.plans[0]
    return plan.cost.gpu_hours if result.objective == "cost" else plan.cost.wall_clock_s


@pytest.mark.nightly
@SEVERAL
@given(st.integers(0, 10**6))
def test_layers_chosen_freely(seed: int) -> None:
    drawn = random_problem(seed, 0)
    if drawn.account.cost_model == "textbook" or drawn.job.finetune is not None:
        return
    even, free = (
        replace(drawn, search=Search(gpus=drawn.search.gpus, stages=stages))
        for stages in ("even", "free")
    )
    assert value(free) <= value(even)
