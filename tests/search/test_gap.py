"""Searches that end once the certified gap is small enough."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import solve
from solver.job.job import PlanningProblem
from solver.job.read import example_path, parse_problem, read_problem
from solver.job.search import Search
from solver.plan import Plan
from topology import InputError

from ..oracle.problems import random_problem
from .test_mixed import A100, H100, mixed

SEED = 78
FREE = (5, 10, 15, 18)
"""Problems whose layers are spread freely and whose proof takes more than the first plan."""


def with_gap(problem: PlanningProblem, gap: float) -> PlanningProblem:
    update = {"gap": gap, "pareto": False, "top": 3}
    return replace(problem, objective=problem.objective.model_copy(update=update))


def value(problem: PlanningProblem, plan: Plan) -> float:
    cost = problem.objective.minimise == "cost"
    return plan.cost.gpu_hours if cost else plan.cost.wall_clock_s


@pytest.mark.parametrize("number", FREE)
@pytest.mark.parametrize("gap", [0.02, 0.2])
def test_the_answer_is_within_the_gap_and_the_certificate_says_so(number: int, gap: float) -> None:
    drawn = random_problem(SEED, number)
    problem = replace(drawn, search=Search(gpus=drawn.search.gpus, stages="free"))
    best = solve(with_gap(problem, 0.0))
    near = solve(with_gap(problem, gap))
    assert best.status == "optimal"
    assert near.certificate.gap is not None
    assert 0 <= near.certificate.gap <= gap
    least, have = (value(problem, r.plans[0]) for r in (best, near))
    assert least <= have * (1 + 1e-12)
    assert least >= have * (1 - near.certificate.gap) * (1 - 1e-6)
    assert near.certificate.models <= best.certificate.models
    said = any("stopped within the gap" in note for note in near.notes)
    assert said == (near.status == "feasible")
    assert (near.status == "optimal") == (near.certificate.gap == 0)


def test_some_of_them_stop_early() -> None:
    drawn = random_problem(SEED, FREE[0])
    problem = replace(drawn, search=Search(gpus=drawn.search.gpus, stages="free"))
    assert solve(with_gap(problem, 0.2)).status == "feasible"


def test_without_a_gap_nothing_changes() -> None:
    asked = read_problem(example_path())
    assert solve(with_gap(asked, 0.0)).plans == solve(with_gap(asked, 0.01)).plans


def test_a_front_is_complete_whatever_the_gap() -> None:
    asked = read_problem(example_path(), {"objective": {"pareto": True, "top": 1}})
    wide = replace(asked, objective=asked.objective.model_copy(update={"gap": 0.5}))
    assert solve(wide).front == solve(asked).front


def test_several_kinds_of_nodes() -> None:
    exact, near = (solve(with_gap(mixed(H100, A100), gap)) for gap in (0.0, 0.3))
    assert near.certificate.gap is not None
    assert near.certificate.gap <= 0.3
    have, least = (r.plans[0].cost.wall_clock_s for r in (near, exact))
    assert least <= have <= least / (1 - 0.3)


@pytest.mark.parametrize("written", ["100%", "-1%", "2"])
def test_gaps_that_cannot_be(written: str) -> None:
    text = """
model: llama3-8b
cluster: {gpu: h100-80gb-sxm, nodes: 1}
training: {seq_len: 4096, global_batch: 8seq}
"""
    with pytest.raises(InputError, match="gap"):
        parse_problem(f"{text}objective: {{gap: {written}}}\n")
