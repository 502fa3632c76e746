"""Plans of several searches put in one order, and their proofs in one certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..cost.goodput import PARTS
from ..cost.ticks import TICK_S
from ..job.job import PlanningProblem
from ..plan import Plan
from ..result import Certificate
from .instance import SECONDS_PER_HOUR

USD_UNITS = 10**6
"""Prices count in millionths of a dollar an hour."""

Point = tuple[int, int, int]
"""Ticks of a step, what they cost, GPUs."""


@dataclass(frozen=True)
class Ranking:
    """The order of a problem's plans, whatever search they come from."""

    problem: PlanningProblem

    @property
    def priced(self) -> bool:
        """Whether every node group has a price."""
        groups = self.problem.cluster.groups
        return all(group.price_usd_per_gpu_hour is not None for group in groups)

    def value(self, plan: Plan) -> int:
        """Return the objective in the integers of a search over several groups."""
        return charged(plan) if self.problem.objective.minimise == "time" else self.cost(plan)

    def cost(self, plan: Plan) -> int:
        """Return ticks times millionths of USD an hour; times GPUs where a price is missing."""
        return charged(plan) * self._rate(plan)

    def point(self, plan: Plan) -> Point:
        """Return what a front compares."""
        return charged(plan), self.cost(plan), plan.gpus

    def key(self, plan: Plan) -> tuple[int, int, int]:
        """Return what plans are sorted by: objective, the other one, axes."""
        by_time = self.problem.objective.minimise == "time"
        second = self.cost(plan) if by_time else charged(plan)
        return self.value(plan), second, plan.axes

    def unit(self, value: int) -> float:
        """Return an objective in seconds or USD a step."""
        if self.problem.objective.minimise == "time":
            return value * TICK_S
        return value * TICK_S / SECONDS_PER_HOUR / USD_UNITS

    def _rate(self, plan: Plan) -> int:
        if not self.priced:
            return plan.gpus
        if plan.blocks:
            pairs = [(b.gpus_held, b.usd_per_gpu_hour or 0.0) for b in plan.blocks]
        else:
            pairs = [(plan.gpus_held, self._price(plan))]
        return sum(gpus * round(price * USD_UNITS) for gpus, price in pairs)

    def _price(self, plan: Plan) -> float:
        """Return what a plan was priced at: of groups with its GPU the price that fits its cost."""
        gpu, cost = plan.estimate.stages[0].gpu, plan.cost
        prices = []
        for group in self.problem.cluster.groups:
            if group.gpu.id == gpu:
                offers = {offer.kind: offer.usd_per_gpu_hour for offer in group.priced}
                prices.append(offers.get(plan.price_kind, group.price_usd_per_gpu_hour or 0.0))
        paid = (cost.usd or 0.0) / cost.gpu_hours
        return min(prices, key=lambda price: abs(price - paid), default=0.0)

    def not_dominated(self, plans: Sequence[Plan]) -> list[Plan]:
        """Return one plan for each point that no other equals or beats in everything, by GPUs."""
        by_point: dict[Point, Plan] = {}
        for plan in plans:
            by_point.setdefault(self.point(plan), plan)
        kept = [
            plan
            for one, plan in by_point.items()
            if not any(
                other != one and all(a <= b for a, b in zip(other, one, strict=True))
                for other in by_point
            )
        ]
        return sorted(kept, key=lambda plan: (plan.gpus, charged(plan)))

    def recommended(self, plans: Sequence[Plan], tolerance: float) -> int | None:
        """Return the rank of the plan of fewest axes and blocks within the tolerance."""
        if not plans:
            return None
        most = self.value(plans[0]) * (1 + tolerance)
        near = [plan for plan in plans if self.value(plan) <= most]
        return min(near, key=lambda plan: (plan.axes + len(plan.blocks), plan.rank)).rank


def ticks(plan: Plan) -> int:
    """Return the step in the unit of the search."""
    return round(plan.estimate.time.step_s / TICK_S)


def charged(plan: Plan) -> int:
    """Return the wall-clock time of a step in the unit of the search, failures included."""
    goodput = plan.cost.goodput
    slowdown = PARTS if goodput is None else round(goodput.slowdown * PARTS)
    return -(-ticks(plan) * slowdown // PARTS)


def ranked(plans: Sequence[Plan], on_front: bool = False) -> tuple[Plan, ...]:
    """Return the plans numbered in their order."""
    update = {"on_front": True} if on_front else {}
    return tuple(p.model_copy(update={"rank": i + 1, **update}) for i, p in enumerate(plans))


def joined(certificates: Sequence[Certificate]) -> Certificate:
    """Add up what several searches proved; the least value and the least bound are the whole's."""
    dropped: dict[str, int] = {}
    for part in certificates:
        for name, count in part.dropped.items():
            dropped[name] = dropped.get(name, 0) + count
    values = [c.incumbent for c in certificates if c.incumbent is not None]
    bounds = [c.bound for c in certificates if c.bound is not None]
    value, bound = min(values, default=None), min(bounds, default=None)
    certain = None if value is None or bound is None else max(0.0, (value - bound) / value)
    return Certificate(
        shapes=sum(c.shapes for c in certificates),
        dropped=dict(sorted(dropped.items())),
        opened=sum(c.opened for c in certificates),
        models=sum(c.models for c in certificates),
        closed=sum(c.closed for c in certificates),
        incumbent=value,
        next_bound=None,
        bound=bound,
        gap=certain,
    )
