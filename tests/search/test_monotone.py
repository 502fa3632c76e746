"""Looser limits and more choices never worsen the optimum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from solver import solve
from solver.job.job import Limits, PlanningProblem, Search
from tests.oracle.problems import random_problem

LOOSER: dict[str, Any] = {
    "mem_headroom": st.floats(0, 0.1),
    "max_bubble": st.floats(0.15, 1),
    "max_comm": st.floats(0.2, 10),
    "tp_within_node": st.just(False),
    "max_stages": st.integers(32, 64),
}
TIGHT = Limits()
SEVERAL = settings(deadline=None, max_examples=max(2, settings().max_examples // 20))
"""A solve takes a thousand times as long as what other properties look at."""


def value(problem: PlanningProblem) -> float:
    """The objective's value; infinite where nothing fits."""
    result = solve(problem, top=1)
    assert result.status in ("optimal", "infeasible")
    if not result.plans:
        return float("inf")
    plan = result.plans[0]
    return plan.cost.gpu_hours if result.objective == "cost" else plan.estimate.time.step_s


@st.composite
def problems(draw: st.DrawFn) -> PlanningProblem:
    drawn = random_problem(draw(st.integers(0, 10**6)), 0)
    limits = TIGHT.model_copy(update={"comm_metric": drawn.limits.comm_metric})
    return replace(drawn, limits=limits, search=Search(gpus=drawn.search.gpus, stages="even"))


@SEVERAL
@given(problems(), st.data())
def test_a_looser_limit(problem: PlanningProblem, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(LOOSER)))
    looser = problem.limits.model_copy(update={name: data.draw(LOOSER[name])})
    assert value(replace(problem, limits=looser)) <= value(problem)


@SEVERAL
@given(problems(), st.data())
def test_more_values_of_an_axis(problem: PlanningProblem, data: st.DataObject) -> None:
    axis = data.draw(st.sampled_from(("tp", "pp", "cp", "ep", "zero", "micro_batch")))
    top = 4 if axis == "zero" else 9
    values = data.draw(st.sets(st.integers(0 if axis == "zero" else 1, top - 1), min_size=1))
    more = values | data.draw(st.sets(st.integers(0 if axis == "zero" else 1, top - 1)))
    few, many = (
        replace(problem, search=problem.search.model_copy(update={axis: tuple(sorted(v))}))
        for v in (values, more)
    )
    assert value(many) <= value(few)


@SEVERAL
@given(problems())
def test_layers_chosen_freely(problem: PlanningProblem) -> None:
    if problem.account.cost_model == "textbook" or problem.job.finetune is not None:
        return
    free = replace(problem, search=problem.search.model_copy(update={"stages": "free"}))
    assert value(free) <= value(problem)
