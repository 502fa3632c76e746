"""``solve`` on a cluster of several node groups: each group alone, and pipelines across groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from topology.cluster import Cluster

from ..cost.goodput import longest_within
from ..cost.ticks import IntArray
from ..job.job import PlanningProblem
from ..plan import Plan
from ..result import Certificate, Result, Status
from .best_first import Clock, Tally
from .cpsat.factory import SolverSettings
from .instance import LONGEST_STEP, Instance
from .mixed_space import mixed_candidates
from .pricing import NEVER
from .ranking import USD_UNITS, Ranking, charged, joined, ranked
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

    @property
    def order(self) -> Ranking:
        """How plans are compared."""
        return Ranking(self.problem)

    def run(self, top: int, tolerance: float) -> Result:
        """Search across the groups and put everything in order."""
        instances = [part.instance for part in self.parts]
        tally = Tally()
        known = [plan for part in self.parts for plan in part.result.plans]
        value = min((self.order.value(plan) for plan in known), default=UNKNOWN_VALUE)
        candidates = list(mixed_candidates(instances, value))
        best = best_of(
            candidates, value, self.settings, self.clock, tally, self.problem.objective.gap
        )
        plans = known if best.split is None else [split_plan(best.split, 1), *known]
        plans = sorted(plans, key=self.order.key)
        front, front_proved = self._front(instances)
        every = all(part.result.status in ("optimal", "infeasible") for part in self.parts)
        proved = every and best.proved and front_proved
        shown = ranked(plans[:top])
        return Result(
            status=self._status(proved, shown),
            objective=self.problem.objective.minimise,
            plans=shown,
            recommended=self.order.recommended(shown, tolerance),
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

    def _fastest(self, instances: Sequence[Instance], plans: Sequence[Plan]) -> Plan | None:
        """Return the fastest plan of any kind, beside the cheapest."""
        if self.problem.objective.minimise != "cost" or not plans:
            return None
        known = [part.result.fastest for part in self.parts if part.result.fastest]
        fast = min(known, key=charged, default=plans[0])
        below = charged(fast)
        timed_instances = [replace(instance, goal="time") for instance in instances]
        found = list(mixed_candidates(timed_instances, below))
        best = best_of(found, below, self.settings, self.clock, Tally())
        return fast if best.split is None else split_plan(best.split, 1)

    def _front(self, instances: Sequence[Instance]) -> tuple[tuple[Plan, ...], bool]:
        """Return every plan that no other equals or beats in time, cost and GPUs at once."""
        if not self.problem.objective.pareto:
            return (), True
        points = [plan for part in self.parts for plan in part.result.front]
        known = [self.order.point(plan) for plan in points]
        proved = True
        priced = self.order.priced
        goals = [replace(i, goal="cost" if priced else "time") for i in instances]
        for candidate in sorted(mixed_candidates(goals, UNKNOWN_VALUE), key=lambda c: c.bound):
            if self.clock.over():
                return ranked(self.order.not_dominated(points), on_front=True), False
            rate = candidate.weight if priced else candidate.gpus
            most = _not_dominated_under(candidate.gpus, rate, np.array(known))
            most = longest_within(most, candidate.slowdown)
            pipeline = candidate.build() if candidate.bound <= most else None
            if pipeline is None:
                continue
            most = min(most, longest(pipeline))
            attempt = best_split(pipeline, most, timed(self.settings, self.clock))
            proved &= attempt.proved
            if attempt.split is not None:
                points.append(split_plan(attempt.split, 1))
                known.append(self.order.point(points[-1]))
        return ranked(self.order.not_dominated(points), on_front=True), proved

    def _counts(self, candidates: Sequence[Candidate]) -> tuple[int, ...]:
        single = {n for part in self.parts for n in part.result.gpu_counts_considered}
        return tuple(sorted(single | {c.gpus for c in candidates}))

    def _certificate(self, best: Best, tally: Tally, shapes: int) -> Certificate:
        known = best.value < UNKNOWN_VALUE
        across = Certificate(
            shapes=shapes,
            dropped={},
            opened=tally.opened,
            models=tally.models,
            closed=tally.closed,
            incumbent=self.order.unit(best.value) if known else None,
            next_bound=None,
            bound=self.order.unit(best.bound) if known else None,
            gap=None,
        )
        return joined([across, *(part.result.certificate for part in self.parts)])

    def _reasons(self) -> tuple[str, ...]:
        """Say of each group by itself why nothing fits."""
        return tuple(
            f"{part.instance.group.gpu.id} alone: {reason}"
            for part in self.parts
            for reason in why_nothing_fits(part.instance, self.settings, self.clock).reasons
        )


def _not_dominated_under(gpus: int, rate: int, known: IntArray) -> int:
    """Return the most wall-clock ticks with which none of the known plans dominates a layout.

    ``rate`` is what a tick of it costs, ``known`` their ticks, costs and GPUs, (plans, 3).
    """
    if not len(known):
        return LONGEST_STEP
    step, cost, fewer = known.T
    limit = np.where(fewer <= gpus, np.maximum(step, -(-cost // rate)) - 1, LONGEST_STEP)
    return int(limit.min(initial=LONGEST_STEP))
