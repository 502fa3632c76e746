"""Several objectives in order, against every plan of small problems."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import solve
from solver.job.read import example_path, parse_problem, read_problem
from solver.job.search import Search, Variants
from topology import InputError, UnsupportedError

from ..oracle.coarse import coarse_costs
from ..oracle.compare_order import compare_order, ordered_problem

SEED = 52


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=() if n < 12 else pytest.mark.nightly) for n in range(100)]
)
def test_the_plan_is_the_one_that_the_objectives_leave(number: int) -> None:
    assert compare_order(*ordered_problem(SEED, number)).mismatches == ()


@pytest.mark.parametrize("number", range(200, 206))
def test_ties_are_left_to_the_next_objective(number: int) -> None:
    """On a coarse grid many plans take equally long, so that the second objective decides."""
    with coarse_costs():
        assert compare_order(*ordered_problem(SEED, number)).mismatches == ()


def test_a_tolerance_trades_time_for_memory() -> None:
    given = {"objective": {"minimise": "time,memory", "tolerance": "5%", "top": 1}}
    result = solve(read_problem(example_path(), given))
    fast = solve(read_problem(example_path(), {"objective": {"top": 1}})).plans[0]
    time, memory = result.preferences
    plan = result.plans[0]
    assert time.least == pytest.approx(fast.estimate.time.step_s)
    assert time.allowed == pytest.approx(1.05 * time.least)
    assert plan.estimate.time.step_s <= time.allowed
    assert plan.estimate.peak_bytes <= memory.least < 0.8 * fast.estimate.peak_bytes
    assert result.recommended == 1


TEXT = """
model: llama3-8b
cluster: {gpu: h100-80gb-sxm, nodes: 1}
training: {seq_len: 4096, global_batch: 8seq}
"""


def test_what_a_file_may_say() -> None:
    written = ("time,gpus,memory", "[time, gpus, memory]", "{minimise: time, then: [gpus, memory]}")
    for text in written:
        goal = parse_problem(f"{TEXT}objective: {text}\n").objective
        assert (goal.minimise, goal.then) == ("time", ("gpus", "memory"))
    for text, said in (
        ("time,time", "names time twice"),
        ("cost,gpus,gpus", "names gpus twice"),
        ("gpus,time", "'gpus' cannot come first"),
        ("time,speed", "'speed' unknown"),
        ("time,cost", "cost needs a price"),
    ):
        with pytest.raises(InputError, match=said):
            parse_problem(f"{TEXT}objective: {text}\n")


@pytest.mark.parametrize(
    "search", [Search(stages="free"), Search(variants=Variants(offload=("none", "optimizer")))]
)
def test_what_does_not_go_with_it(search: Search) -> None:
    problem = parse_problem(f"{TEXT}objective: time,memory\n")
    with pytest.raises(UnsupportedError, match="several objectives in order"):
        solve(replace(problem, search=search))
