"""Problems whose nodes have several kinds of price, and the answer against each kind's front."""

from __future__ import annotations

from dataclasses import replace

from solver import solve
from solver.job.job import Objective, PlanningProblem
from solver.job.price_kinds import common_kinds, under
from solver.job.reliability import Reliability
from solver.plan import Plan
from solver.search.ranking import USD_UNITS
from topology import Cluster, Offer

from .compare import Comparison, Mismatch, Truth, wall_of
from .enumerator import not_dominated
from .models import Dice
from .problems import random_problem

Point = tuple[int, int, int]
"""Wall-clock ticks of a step, these times millionths of USD an hour, GPUs."""


def with_kinds(seed: int, number: int) -> PlanningProblem:
    """Draw a problem whose nodes are offered under two or three kinds of price."""
    drawn, dice = random_problem(seed, number), Dice(f"kinds {seed}/{number}")
    kinds = ("on-demand", "reserved", "spot") if dice.chance(0.5) else ("on-demand", "spot")
    offers = tuple(
        Offer(kind, dice.pick((0.5, 1.6, 2.5, 2.99)), interruptions=dice.pick((0.0, 50.0, 5000.0)))
        for kind in kinds
    )
    group = replace(drawn.cluster.group, offers=offers).under("on-demand")
    failing = Reliability(failures=dice.pick((0.0, 3.79, 100.0))) if dice.chance(0.7) else None
    return replace(
        drawn,
        cluster=Cluster(drawn.cluster.name, (group,)),
        reliability=failing,
        objective=Objective(minimise=dice.pick(("time", "cost")), pareto=True),
    )


def compare_kinds(problem: PlanningProblem, time_limit_s: float = 60.0) -> Comparison:
    """Enumerate every kind by itself, put the points together, and list the differences."""
    every: list[Point] = []
    bests: list[tuple[int, int]] = []
    time, truth = problem.objective.minimise == "time", None
    for kind in common_kinds(problem.cluster.groups):
        truth, price = Truth.of(under(problem, kind)), _price(problem, kind)
        every += [(wall, spent * price, gpus) for gpus, wall, spent in truth.front or ()]
        if truth.best is not None:
            wall, cost = truth.best.wall, truth.best.wall * truth.best.held * price
            bests.append((wall, cost) if time else (cost, wall))
    result = solve(problem, time_limit_s=time_limit_s)
    front = tuple(not_dominated(every))
    have, found = sorted(_point(problem, plan) for plan in result.front), []
    if tuple(have) != front:
        missing, extra = sorted(set(front) - set(have)), sorted(set(have) - set(front))
        found.append(Mismatch("front over kinds (extra; missing)", extra, missing))
    status = "optimal" if bests else "infeasible"
    if result.status != status:
        found.append(Mismatch("status", result.status, status))
    if bests and result.plans:
        wall, cost, _ = _point(problem, result.plans[0])
        best = (wall, cost) if time else (cost, wall)
        if best != min(bests):
            found.append(Mismatch("best over kinds", best, min(bests)))
    return Comparison(tuple(found), None if truth is None else truth.best, front)


def _price(problem: PlanningProblem, kind: str) -> int:
    offers = problem.cluster.group.offers
    return round(next(o.usd_per_gpu_hour for o in offers if o.kind == kind) * USD_UNITS)


def _point(problem: PlanningProblem, plan: Plan) -> Point:
    wall = wall_of(plan)
    return wall, wall * plan.gpus_held * _price(problem, plan.price_kind), plan.gpus
