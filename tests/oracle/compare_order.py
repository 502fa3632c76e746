"""Several objectives in order, against every plan of a problem that has few."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from solver import solve
from solver.cost.ticks import MIB, TICK_S
from solver.job.job import AIMS, Aim, Objective, PlanningProblem

from .compare import Comparison, Mismatch, read_plan
from .enumerator import Plan, all_plans, blocks
from .models import Dice
from .problems import question, random_problem

MOST_GPUS, MOST_SHAPES, MOST_PLANS = 16, 300, 20_000
FEWEST = 10
"""Shapes and plans of a problem that is worth the name."""
ORDERS: list[tuple[Aim, ...]] = [
    order
    for length in (2, 3, 4)
    for order in itertools.permutations(AIMS, length)
    if order[0] in ("time", "cost")
]


def ordered_problem(seed: int, number: int) -> tuple[PlanningProblem, list[Plan]]:
    """Draw a problem with objectives in order, and all of its plans."""
    problem, plans = _small(seed, number)
    dice = Dice(f"order {seed}/{number}")
    first, *then = dice.pick(ORDERS)
    tolerance = dice.pick((None, 0.0, 0.01, 0.1, 0.5))
    given = {"minimise": first, "then": tuple(then), "tolerance": tolerance, "top": 2}
    return replace(problem, objective=Objective.model_validate(given)), plans


def _small(seed: int, number: int) -> tuple[PlanningProblem, list[Plan]]:
    """Draw until few enough plans are legal to write them all out."""
    for attempt in itertools.count():
        problem = random_problem(seed, 1000 * number + attempt)
        if problem.cluster.gpus > MOST_GPUS:
            continue
        priced = blocks(question(problem))
        if not FEWEST < sum(len(block.tables.shapes) for block in priced) < MOST_SHAPES:
            continue
        plans = list(itertools.islice(all_plans(priced), MOST_PLANS))
        if FEWEST < len(plans) < MOST_PLANS:
            return problem, plans
    raise AssertionError


def compare_order(
    problem: PlanningProblem, plans: list[Plan], time_limit_s: float = 60.0
) -> Comparison:
    """List where the product's plan, or what it says of the objectives, is another."""
    goal = problem.objective
    aims = (goal.minimise, *goal.then)
    best, least = _chosen(plans, aims, goal.tolerance or 0.0)
    result = solve(problem, time_limit_s=time_limit_s)
    found = []
    if result.status != "optimal":
        found.append(Mismatch("status", result.status, "optimal"))
    have = read_plan(result.plans[0], question(problem).cost.kinds) if result.plans else None
    if have != best:
        found.append(Mismatch(f"plan in order of {aims}", have, best))
    price = problem.cluster.group.price_usd_per_gpu_hour or 0.0
    units = {"time": TICK_S, "cost": TICK_S / 3600 * price, "gpus": 1, "memory": MIB}
    said = [(one.objective, one.least) for one in result.preferences]
    true = [(aim, value * units[aim]) for aim, value in zip(aims, least, strict=True)]
    names = [name for name, _ in said] == list(aims)
    if not names or not all(
        math.isclose(a, b, rel_tol=1e-9) for (_, a), (_, b) in zip(said, true, strict=True)
    ):
        found.append(Mismatch("what each objective reached", said, true))
    return Comparison(tuple(found), best, None)


def _aim_of(plan: Plan, aim: Aim) -> int:
    cost = plan.wall * plan.held
    return {"time": plan.wall, "cost": cost, "gpus": plan.gpus, "memory": plan.mebibytes}[aim]


def _chosen(plans: list[Plan], aims: tuple[Aim, ...], tolerance: float) -> tuple[Plan, list[int]]:
    """Go through the objectives one by one; the last one's usual rules break what ties are left."""
    least = []
    for place, aim in enumerate(aims):
        least.append(min(_aim_of(plan, aim) for plan in plans))
        slack = 0 if place == len(aims) - 1 else int(least[-1] * tolerance)
        plans = [plan for plan in plans if _aim_of(plan, aim) <= least[-1] + slack]
    goal = next(aim for aim in reversed(aims) if aim != "gpus")
    if goal in ("time", "cost"):
        return min(plans, key=lambda plan: plan.key(goal)), least
    return min(plans, key=lambda plan: (plan.mebibytes, plan.wall, *plan.key("time")[2:])), least
