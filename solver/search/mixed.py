"""``solve`` on a cluster of several node groups: each group alone, and pipelines across groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from topology.cluster import Cluster

from ..cost.ticks import TICK_S
from ..job.job import PlanningProblem
from ..plan import Certificate, Plan, Result, Status
from .best_first import Clock, Tally
from .cpsat.factory import SolverSettings
from .instance import LONGEST_STEP, SECONDS_PER_HOUR, Instance
from .mixed_space import USD_UNITS, mixed_candidates
from .pricing import NEVER
from .reasons import why_nothing_fits
from .split_plan import split_plan
from .stagewise import best_split
from .uneven import Best, Candidate, best_of, longest, timed

UNKNOWN_VALUE = NEVER * USD_UNITS
"""Above every objective, also in millionths of USD."""


@dataclass(frozen=True)
class Part:
    """One node group by itself: its search instance, and its result."""

    instance: Instance
    result: Result


def alone(problem: PlanningProblem, number: int) -> PlanningProblem:
    """Return the problem on one of its node groups."""
    group = problem.cluster.groups[number]
    return replace(problem, cluster=Cluster(group.gpu.id, (group,)))


@dataclass(frozen=True)
class Mixed:
    """One mixed search, after each group was searched alone."""

    problem: PlanningProblem
    parts: Sequence[Part]
    settings: SolverSettings
    clock: Clock

    def run(self, top: int, tolerance: float) -> Result:
        """Search across the groups and put everything in order."""
        instances = [part.instance for part in self.parts]
        tally = Tally()
        known = [plan for part in self.parts for plan in part.result.plans]
        value = min((self._value(plan) for plan in known), default=UNKNOWN_VALUE)
        candidates = list(mixed_candidates(instances, value))
        best = best_of(candidates, value, self.settings, self.clock, tally)
        plans = known if best.split is None else [split_plan(best.split, 1), *known]
        plans = sorted(plans, key=lambda plan: (self._value(plan), self._cost(plan), plan.axes))
        front, front_proved = self._front(instances)
        every = all(part.result.status in ("optimal", "infeasible") for part in self.parts)
        proved = every and best.proved and front_proved
        shown = _ranked(plans[:top])
        return Result(
            status=self._status(proved, shown),
            objective=self.problem.objective.minimise,
            plans=shown,
            recommended=self._recommended(shown, tolerance),
            fastest=self._fastest(instances, plans),
            front=front,
            profile=" + ".join(dict.fromkeys(part.result.profile for part in self.parts)),
            expected_error=max(part.result.expected_error for part in self.parts),
            tolerance=tolerance,
            measured=all(part.result.measured for part in self.parts),
            gpu_counts_considered=self._counts(candidates),
            certificate=self._certificate(best, tally, len(candidates)),
            reasons=() if shown else self._reasons(),
            notes=("stages of one kind of node follow each other; no stage spans two kinds",),
        )

    @staticmethod
    def _status(proved: bool, plans: Sequence[Plan]) -> Status:
        if plans:
            return "optimal" if proved else "feasible"
        return "infeasible" if proved else "unknown"

    def _value(self, plan: Plan) -> int:
        """Return the objective of a plan in the integers of the search."""
        ticks = round(plan.estimate.time.step_s / TICK_S)
        return ticks if self.problem.objective.minimise == "time" else ticks * self._rate(plan)

    def _rate(self, plan: Plan) -> int:
        """Return millionths of USD an hour of all GPUs held; GPUs used where a price is missing."""
        if any(group.price_usd_per_gpu_hour is None for group in self.problem.cluster.groups):
            return plan.gpus
        if plan.blocks:
            pairs = [(b.gpus_held, b.usd_per_gpu_hour or 0.0) for b in plan.blocks]
        else:
            gpu = plan.estimate.stages[0].gpu
            groups = self.problem.cluster.groups
            price = next(g.price_usd_per_gpu_hour for g in groups if g.gpu.id == gpu)
            pairs = [(plan.gpus_held, price or 0.0)]
        return sum(gpus * round(price * USD_UNITS) for gpus, price in pairs)

    def _cost(self, plan: Plan) -> int:
        return round(plan.estimate.time.step_s / TICK_S) * self._rate(plan)

    def _recommended(self, plans: Sequence[Plan], tolerance: float) -> int | None:
        if not plans:
            return None
        most = self._value(plans[0]) * (1 + tolerance)
        near = [plan for plan in plans if self._value(plan) <= most]
        return min(near, key=lambda plan: (plan.axes + len(plan.blocks), plan.rank)).rank

    def _fastest(self, instances: Sequence[Instance], plans: Sequence[Plan]) -> Plan | None:
        """Return the fastest plan of any kind, beside the cheapest."""
        if self.problem.objective.minimise != "cost" or not plans:
            return None
        known = [part.result.fastest for part in self.parts if part.result.fastest]
        fast = min(known, key=lambda plan: plan.estimate.time.step_s, default=plans[0])
        below = round(fast.estimate.time.step_s / TICK_S)
        timed_instances = [replace(instance, goal="time") for instance in instances]
        found = list(mixed_candidates(timed_instances, below))
        best = best_of(found, below, self.settings, self.clock, Tally())
        return fast if best.split is None else split_plan(best.split, 1)

    def _front(self, instances: Sequence[Instance]) -> tuple[tuple[Plan, ...], bool]:
        """Return every plan that no other equals or beats in time, cost and GPUs at once."""
        if not self.problem.objective.pareto:
            return (), True
        points = [plan for part in self.parts for plan in part.result.front]
        proved = True
        priced = all(g.price_usd_per_gpu_hour is not None for g in self.problem.cluster.groups)
        goals = [replace(i, goal="cost" if priced else "time") for i in instances]
        for candidate in sorted(mixed_candidates(goals, UNKNOWN_VALUE), key=lambda c: c.bound):
            if self.clock.over():
                return _ranked(_not_dominated(points, self._point)), False
            rate = candidate.weight if priced else candidate.gpus
            most = self._not_dominated_under(candidate.gpus, rate, points)
            pipeline = candidate.build() if candidate.bound <= most else None
            if pipeline is None:
                continue
            most = min(most, longest(pipeline))
            attempt = best_split(pipeline, most, timed(self.settings, self.clock))
            proved &= attempt.proved
            if attempt.split is not None:
                points.append(split_plan(attempt.split, 1))
        kept = _not_dominated(points, self._point)
        kept.sort(key=lambda plan: (plan.gpus, plan.estimate.time.step_s))
        return tuple(p.model_copy(update={"on_front": True}) for p in _ranked(kept)), proved

    def _point(self, plan: Plan) -> tuple[int, int, int]:
        return round(plan.estimate.time.step_s / TICK_S), self._cost(plan), plan.gpus

    def _not_dominated_under(self, gpus: int, rate: int, points: Sequence[Plan]) -> int:
        """Return the most ticks with which a layout is dominated by none of the points.

        ``rate`` is what a tick of it costs.
        """
        most = LONGEST_STEP
        for plan in points:
            ticks, cost, fewer = self._point(plan)
            if fewer <= gpus:
                most = min(most, max(ticks, -(-cost // rate)) - 1)
        return most

    def _counts(self, candidates: Sequence[Candidate]) -> tuple[int, ...]:
        single = {n for part in self.parts for n in part.result.gpu_counts_considered}
        return tuple(sorted(single | {c.gpus for c in candidates}))

    def _certificate(self, best: Best, tally: Tally, shapes: int) -> Certificate:
        parts = [part.result.certificate for part in self.parts]
        dropped: dict[str, int] = {}
        for part in parts:
            for name, count in part.dropped.items():
                dropped[name] = dropped.get(name, 0) + count
        known = best.value < UNKNOWN_VALUE
        bounds = [self._unit(best.bound), *(p.bound for p in parts if p.bound is not None)]
        value = self._unit(best.value) if known else None
        bound = min(bounds) if known else None
        return Certificate(
            shapes=shapes + sum(p.shapes for p in parts),
            dropped=dict(sorted(dropped.items())),
            opened=tally.opened + sum(p.opened for p in parts),
            models=tally.models + sum(p.models for p in parts),
            closed=tally.closed + sum(p.closed for p in parts),
            incumbent=value,
            next_bound=None,
            bound=bound,
            gap=None if value is None or bound is None else max(0.0, (value - bound) / value),
        )

    def _unit(self, value: int) -> float:
        if self.problem.objective.minimise == "time":
            return value * TICK_S
        return value * TICK_S / SECONDS_PER_HOUR / USD_UNITS

    def _reasons(self) -> tuple[str, ...]:
        """Say of each group by itself why nothing fits."""
        return tuple(
            f"{part.instance.group.gpu.id} alone: {reason}"
            for part in self.parts
            for reason in why_nothing_fits(part.instance, self.settings, self.clock)
        )


def _ranked(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    return tuple(p.model_copy(update={"rank": i + 1}) for i, p in enumerate(plans))


def _not_dominated(
    plans: Sequence[Plan], point: Callable[[Plan], tuple[int, int, int]]
) -> list[Plan]:
    """Return one plan for each point that no other is at least as good as in everything."""
    by_point: dict[tuple[int, int, int], Plan] = {}
    for plan in plans:
        by_point.setdefault(point(plan), plan)
    return [
        plan
        for one, plan in by_point.items()
        if not any(
            other != one and all(a <= b for a, b in zip(other, one, strict=True))
            for other in by_point
        )
    ]
