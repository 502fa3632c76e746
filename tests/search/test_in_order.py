"""Several objectives in order, against every plan of small problems."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from solver import solve
from solver.cost.ticks import MIB, TICK_S
from solver.job.job import AIMS, Aim, Objective, PlanningProblem
from solver.job.read import example_path, parse_problem, read_problem
from solver.job.search import Search, Variants
from topology import InputError, UnsupportedError

from ..oracle.coarse import coarse_costs
from ..oracle.compare import read_plan
from ..oracle.enumerator import Plan, all_plans, blocks
from ..oracle.models import Dice
from ..oracle.problems import question, random_problem

SEED = 52
MOST_PLANS = 20_000
ORDERS: list[tuple[Aim, ...]] = [
    order
    for length in (2, 3, 4)
    for order in itertools.permutations(AIMS, length)
    if order[0] in ("time", "cost")
]


def aim_of(plan: Plan, aim: Aim) -> int:
    cost = plan.wall * plan.held
    return {"time": plan.wall, "cost": cost, "gpus": plan.gpus, "memory": plan.mebibytes}[aim]


def chosen(plans: list[Plan], aims: tuple[Aim, ...], tolerance: float) -> tuple[Plan, list[int]]:
    """Go through the objectives one by one; the last one's usual rules break what ties are left."""
    least = []
    for place, aim in enumerate(aims):
        least.append(min(aim_of(plan, aim) for plan in plans))
        slack = 0 if place == len(aims) - 1 else int(least[-1] * tolerance)
        plans = [plan for plan in plans if aim_of(plan, aim) <= least[-1] + slack]
    goal = next(aim for aim in reversed(aims) if aim != "gpus")
    if goal in ("time", "cost"):
        return min(plans, key=lambda plan: plan.key(goal)), least
    return min(plans, key=lambda plan: (plan.mebibytes, plan.wall, *plan.key("time")[2:])), least


def drawn(number: int) -> tuple[PlanningProblem, list[Plan]]:
    """A problem few enough of whose plans are legal to write them all out, and these."""
    for attempt in itertools.count():
        problem = random_problem(SEED, 1000 * number + attempt)
        if problem.cluster.gpus > 16:
            continue
        priced = blocks(question(problem))
        shapes = sum(len(block.tables.shapes) for block in priced)
        if not 10 < shapes < 300:
            continue
        plans = list(itertools.islice(all_plans(priced), MOST_PLANS))
        if 10 < len(plans) < MOST_PLANS:
            return problem, plans
    raise AssertionError


def compare(number: int) -> None:
    problem, plans = drawn(number)
    dice = Dice(f"order {number}")
    aims, tolerance = dice.pick(ORDERS), dice.pick((None, 0.0, 0.01, 0.1, 0.5))
    best, least = chosen(plans, aims, tolerance or 0.0)
    first, *then = aims
    objective = Objective.model_validate(
        {"minimise": first, "then": tuple(then), "tolerance": tolerance, "top": 2}
    )
    result = solve(replace(problem, objective=objective), time_limit_s=60)
    assert result.status == "optimal"
    assert read_plan(result.plans[0], question(problem).cost.kinds) == best, (aims, tolerance)
    price = problem.cluster.group.price_usd_per_gpu_hour or 0.0
    units = {"time": TICK_S, "cost": TICK_S / 3600 * price, "gpus": 1, "memory": MIB}
    assert [p.objective for p in result.preferences] == list(aims)
    expected = [value * units[aim] for aim, value in zip(aims, least, strict=True)]
    assert [p.least for p in result.preferences] == pytest.approx(expected)


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=() if n < 12 else pytest.mark.nightly) for n in range(100)]
)
def test_the_plan_is_the_one_that_the_objectives_leave(number: int) -> None:
    compare(number)


@pytest.mark.parametrize("number", range(200, 206))
def test_ties_are_left_to_the_next_objective(number: int) -> None:
    """On a coarse grid many plans take equally long, so that the second objective decides."""
    with coarse_costs():
        compare(number)


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
