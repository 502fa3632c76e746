"""``capacity``: which systems, how many nodes, when, at what price, for one job or several."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from topology.units import DAY, GB, HOUR

from ..job.job import PlanningProblem
from ..report.cells import figures
from ..report.plan_rows import plan_record
from ..search.cpsat.factory import SolverSettings
from ..search.cpsat.portfolio import solve_portfolio
from ..search.portfolio import Choice, NoSchedule, Pool, Portfolio, Schedule
from ..search.search import solve
from .capacity_file import OfferSpec, Study

CENTS = 100
MONTH_S = 365 * DAY / 12
FRONT_POINTS = 12
"""Points of the front of cost and makespan, the two ends among them."""
MOST_NAMED = 8
"""Jobs whose deadlines are lifted one by one, each a search; of more all are lifted at once."""
ALL = "all deadlines"
"""Named where it brings more than lifting one of them does."""
TIME_LIMIT_S = 60.0
"""Of one model of the portfolio; jobs by tens on shared nodes can take longer than that."""

Point = dict[str, Any]
"""A plan of a front as a flat record, see `plan_record`."""


@dataclass(frozen=True)
class Recommendation:
    """What a study comes to.

    Attributes
    ----------
    study, portfolio
        What was asked, in words and in integers.
    points
        The plan of each choice of the portfolio.
    best
        The answer.
    front
        Cost in cents and makespan in hours of the schedules that no other beats in both.
    binding
        What stands in the way of better, each with what lifting it would bring.
    warnings
        Stale prices and the like.
    """

    study: Study
    portfolio: Portfolio
    points: tuple[Point, ...]
    best: Schedule | NoSchedule
    front: tuple[tuple[int, int], ...]
    binding: tuple[str, ...]
    warnings: tuple[str, ...]


def front_of(problem: PlanningProblem) -> list[Point]:
    """Return every plan of a job on an offer that no other beats in time, cost and GPUs.

    Nodes, time and with them every bill grow together, so no plan off this front can be part of a
    best schedule.
    """
    return [plan_record(plan) for plan in solve(problem, top=1, explain=False).front]


def recommend(
    study: Study, today: datetime.date, fronts: Callable[[Sequence[Any]], list[list[Point]]]
) -> Recommendation:
    """Choose offers, nodes and starts.

    Parameters
    ----------
    study
        The study.
    today
        What ages of prices are counted to.
    fronts
        Maps `front_of` over problems, in this process or in several.
    """
    flat = [problem for row in study.problems for problem in row]
    found = iter(fronts(flat))
    choices, points = [], []
    for job, row in enumerate(study.problems):
        for pool, problem in enumerate(row):
            for point in next(found):
                choices.append(_choice(study, job, pool, point, problem))
                points.append(point)
    asked = _portfolio(study, choices)
    settings = SolverSettings(time_limit_s=TIME_LIMIT_S)
    best = solve_portfolio(asked, settings)
    front, binding = [], []
    if isinstance(best, Schedule):
        front = _front(asked, settings)
        binding = _binding(asked, best, study, settings)
    else:
        binding = _obstacles(asked, study, settings)
    return Recommendation(study, asked, tuple(points), best, tuple(front), tuple(binding),
                          tuple(_stale(study, today)))  # fmt: skip


def _portfolio(study: Study, choices: Sequence[Choice]) -> Portfolio:
    spec = study.spec
    pools = [_pool(offer, study.problems[0][n]) for n, offer in enumerate(spec.offers)]
    return Portfolio(
        pools=tuple(pools),
        due=tuple(None if j.deadline is None else int(j.deadline // HOUR) for j in spec.jobs),
        choices=tuple(choices),
        aim="cost" if spec.objective == "cost" else "makespan",
        most_cents=None if spec.budget is None else int(spec.budget * CENTS),
        last_hour=None if spec.deadline is None else int(spec.deadline // HOUR),
    )


def _pool(offer: OfferSpec, problem: PlanningProblem) -> Pool:
    group, opens = problem.cluster.group, math.ceil(offer.lead_time / HOUR)
    if offer.contract is None:
        return Pool(group.nodes, opens)
    hours = int(offer.contract // HOUR)
    price = (group.price_usd_per_gpu_hour or 0.0) * group.gpus_per_node
    return Pool(group.nodes, opens, opens + hours, math.ceil(price * hours * CENTS))


def _choice(study: Study, job: int, pool: int, point: Point, problem: PlanningProblem) -> Choice:
    """Return a plan as a choice: whole hours and whole cents, rounded up."""
    offer, spec, group = study.spec.offers[pool], study.spec.jobs[job], problem.cluster.group
    seconds = point["wall_clock_s"]
    usd = spec.stored / GB * offer.storage_usd_per_gb_month * seconds / MONTH_S
    usd += spec.taken_out / GB * offer.egress_usd_per_gb
    if offer.contract is None:
        paid = max(seconds, offer.min_rental) / HOUR
        usd += paid * point["gpus_held"] * (group.price_usd_per_gpu_hour or 0.0)
    nodes = point["gpus_held"] // group.gpus_per_node
    return Choice(job, pool, nodes, max(math.ceil(seconds / HOUR), 1), math.ceil(usd * CENTS))


def _front(asked: Portfolio, settings: SolverSettings) -> list[tuple[int, int]]:
    """Return cost against makespan, from the cheapest to the fastest, evenly spaced between."""
    cheap = solve_portfolio(replace(asked, aim="cost"), settings, unique=False)
    fast = solve_portfolio(replace(asked, aim="makespan"), settings, unique=False)
    if isinstance(cheap, NoSchedule) or isinstance(fast, NoSchedule):
        return []
    span = cheap.makespan - fast.makespan
    ends = {fast.makespan + span * n // (FRONT_POINTS - 1) for n in range(1, FRONT_POINTS - 1)}
    points = {(cheap.cents, cheap.makespan), (fast.cents, fast.makespan)}
    for end in sorted(ends - {cheap.makespan, fast.makespan}):
        one = solve_portfolio(replace(asked, aim="cost", last_hour=end), settings, unique=False)
        if isinstance(one, Schedule):
            points.add((one.cents, one.makespan))
    kept = [p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)]
    return sorted(kept)


def _binding(asked: Portfolio, best: Schedule, study: Study, settings: SolverSettings) -> list[str]:
    """Say what lifting each limit would bring, and which offers are used to the last node."""
    found, reached = [], set[int]()
    for name, twin in _lifted(asked, study).items():
        other = solve_portfolio(twin, settings, unique=False)
        if isinstance(other, Schedule) and not (name == ALL and _goal(asked, other) in reached):
            reached.add(_goal(asked, other))
            saved, sooner = best.cents - other.cents, best.makespan - other.makespan
            if (saved if asked.aim == "cost" else sooner) > 0:
                money = f"{abs(saved) / CENTS:,.2f} USD {'less' if saved >= 0 else 'more'}"
                when = f"{days(abs(sooner))} {'sooner' if sooner >= 0 else 'later'}"
                found.append(f"{name}: without it {money}, {when}")
    for number, (offer, pool) in enumerate(zip(study.spec.offers, asked.pools, strict=True)):
        if _peak(asked, best, number) == pool.nodes:
            whole = "the only node is" if pool.nodes == 1 else f"all {pool.nodes} nodes are"
            found.append(f"{offer.name}: {whole} taken at some time")
    return found


def _lifted(asked: Portfolio, study: Study) -> dict[str, Portfolio]:
    """Return the portfolio without each limit that there is, by the limit's name."""
    found = {}
    if asked.most_cents is not None:
        found["budget"] = replace(asked, most_cents=None)
    if asked.last_hour is not None:
        found["deadline"] = replace(asked, last_hour=None)
    due = [n for n, hour in enumerate(asked.due) if hour is not None]
    for n in due if len(due) <= MOST_NAMED else ():
        free = tuple(None if m == n else hour for m, hour in enumerate(asked.due))
        found[f"deadline of {study.spec.jobs[n].name}"] = replace(asked, due=free)
    if len(due) + (asked.last_hour is not None) > 1:
        found[ALL] = replace(asked, last_hour=None, due=(None,) * len(asked.due))
    return found


def _goal(asked: Portfolio, schedule: Schedule) -> int:
    return schedule.cents if asked.aim == "cost" else schedule.makespan


def days(hours: int) -> str:
    """Show whole hours as the tables do."""
    return f"{figures(hours * HOUR / DAY)} days"


def _peak(asked: Portfolio, best: Schedule, pool: int) -> int:
    runs = [(start, asked.choices[n]) for n, start in zip(best.taken, best.starts, strict=True)]
    mine = [(start, c) for start, c in runs if c.pool == pool]
    return max(
        (sum(c.nodes for s, c in mine if s <= at < s + c.hours) for at, _ in mine), default=0
    )


def _obstacles(asked: Portfolio, study: Study, settings: SolverSettings) -> list[str]:
    """Say which single limit, lifted, lets a schedule appear."""
    for job, spec in enumerate(study.spec.jobs):
        if not any(choice.job == job for choice in asked.choices):
            return [f"{spec.name}: no offer holds a plan within its limits"]
    more = tuple(replace(pool, nodes=10 * pool.nodes) for pool in asked.pools)
    lifted = {**_lifted(asked, study), "nodes": replace(asked, pools=more)}
    found, reached = [], set[int]()
    for name, twin in lifted.items():
        other = solve_portfolio(twin, settings)
        if isinstance(other, Schedule) and not (name == ALL and _goal(asked, other) in reached):
            reached.add(_goal(asked, other))
            needs = f"{other.cents / CENTS:,.2f} USD and {days(other.makespan)}"
            found.append(f"{name}: without it a schedule takes {needs}")
    return found or ["no single one of budget, deadlines and nodes is to blame"]


def _stale(study: Study, today: datetime.date) -> list[str]:
    """Warn of prices whose date is old or unknown."""
    warned = []
    for number, offer in enumerate(study.spec.offers):
        group = study.problems[0][number].cluster.group
        try:
            dated = datetime.date.fromisoformat(group.price_date or "")
        except ValueError:
            written = f" ({group.price_date})" if group.price_date else ""
            warned.append(f"{offer.name}: the price has no date{written}; prices change")
            continue
        days = (today - dated).days
        if days * DAY > study.spec.prices_stale_after:
            warned.append(f"{offer.name}: the price is {days} days old ({group.price_date})")
    return warned


def break_evens(study: Study) -> list[tuple[str, str, float]]:
    """Return the use of each contract from which it is cheaper than an offer without one.

    Contract, other offer on the same GPU, and the share of the contract's hours in which its
    nodes must be busy.
    """
    found = []
    groups = [problem.cluster.group for problem in study.problems[0]]
    for one, first in zip(study.spec.offers, groups, strict=True):
        for other, second in zip(study.spec.offers, groups, strict=True):
            alike = first.gpu.id == second.gpu.id
            if one.contract is not None and other.contract is None and alike:
                prices = first.price_usd_per_gpu_hour, second.price_usd_per_gpu_hour
                if prices[0] and prices[1]:
                    found.append((one.name, other.name, prices[0] / prices[1]))
    return found
