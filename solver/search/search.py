"""``solve``: the proven-best plan of a problem, its runners-up, its front, its certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from topology.errors import InputError

from ..cost.calibrated import Calibrated
from ..cost.own_profile import find_profile
from ..cost.profile import FRAMEWORK_STACK, Profile
from ..cost.tables import CostModel
from ..cost.textbook_model import Textbook, textbook_search
from ..cost.ticks import TICK_S
from ..job.job import PlanningProblem, Search
from ..plan import Certificate, Plan, Result, Status
from .assemble import plan_of
from .best_first import Clock, Found, Searcher, Tally
from .cpsat.factory import SolverSettings
from .decision import Decision
from .front import complete_front
from .instance import LONGEST_STEP, SECONDS_PER_HOUR, Goal, Instance
from .pricing import NEVER, Priced
from .reasons import fewest_gpus, why_nothing_fits
from .runners_up import recommended, runners_up
from .space import Space, build_space
from .validate import too_long, validate

Progress = Callable[[float | None, float | None], None]
"""Called with the certified bound and the best value so far, in seconds or USD."""

LEAST_TOLERANCE = 0.02
"""Plans closer than 2 % are never told apart: the spread of repeated runs of one configuration."""

BETWEEN_PLANS = 1 / 3
"""Error between plans of one cluster over the error of a step: most of it is common to them."""

TEXTBOOK_ERROR = 0.25
"""Expected error of the textbook account: utilisation is an input there, 35–45 % by its text."""


def profile_of(problem: PlanningProblem) -> Profile:
    """Return the profile that a problem names, or its framework's default."""
    stack = problem.account.profile or FRAMEWORK_STACK[problem.framework]
    return find_profile(stack, problem.cluster.group.gpu.id)


def instance_of(
    problem: PlanningProblem, goal: Goal | None = None, search: Search | None = None
) -> Instance:
    """Return the search instance of a problem, or of its twin with another goal or search.

    Raises
    ------
    InputError
        Where parts of the problem contradict each other, or ask what is not supported.
    """
    validate(problem)
    group, limits = problem.cluster.group, problem.limits
    search = search or problem.search
    if problem.account.cost_model == "textbook":
        search = textbook_search(search)
        cost: CostModel = Textbook(problem.job, group, limits, search, problem.account)
    else:
        cost = Calibrated(problem.job, group, limits, search, profile_of(problem))
    return Instance(problem.job, group, limits, search, cost, goal or problem.objective.minimise)


def solve(
    problem: PlanningProblem,
    *,
    seed: int = 0,
    workers: int = 1,
    time_limit_s: float | None = None,
    top: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Find the best plan and prove it.

    Parameters
    ----------
    problem
        Job, cluster, limits, search, objective.
    seed, workers
        CP-SAT's random seed and threads; one thread is deterministic.
    time_limit_s
        Wall-clock limit of the whole search; None for none.
    top
        Plans to return; None takes the problem's.
    progress
        Called after each search with bound and best value.

    Returns
    -------
    Result
        ``status`` is ``optimal`` (proved), ``feasible`` (a plan, unproved), ``infeasible``
        (proved) or ``unknown`` (time ran out before any plan).

    Raises
    ------
    InputError
        Where the problem contradicts itself or asks what is not supported.
    """
    instance = instance_of(problem)
    return _Solve(problem, instance, SolverSettings(seed, workers), Clock(time_limit_s)).run(
        top or problem.objective.top, progress
    )


class _Solve:
    """One call of ``solve``: the space is priced once and searched several times."""

    def __init__(
        self, problem: PlanningProblem, instance: Instance, settings: SolverSettings, clock: Clock,
        twin: _Solve | None = None,
    ) -> None:  # fmt: skip
        self.problem, self.instance, self.clock = problem, instance, clock
        self.space: Space = twin.space if twin else build_space(instance)
        self.priced: Priced = twin.priced if twin else Priced.of(instance, self.space.shapes)
        tally = twin.searcher.tally if twin else Tally()
        self.searcher: Searcher = Searcher(instance, self.priced, settings, clock, tally)
        self.bounds = self.searcher.bounds()
        self.rows = np.flatnonzero(self.bounds < NEVER)
        if isinstance(instance.cost, Calibrated):
            profile = instance.cost.profile
            self.profile, self.measured = profile.name, profile.measured
            mixture = problem.job.transformer.moe is not None
            self.error = profile.expected_error(mixture)
            self.difference = profile.expected_difference(mixture)
        else:
            self.profile, self.measured, self.error = "textbook", True, TEXTBOOK_ERROR
            self.difference = TEXTBOOK_ERROR * BETWEEN_PLANS

    def run(self, top: int, progress: Progress | None) -> Result:
        """Search, break ties, then the runners-up, the recommendation and the front."""
        found = self.searcher.best(self.rows, self.bounds, NEVER)
        if progress is not None:
            value = None if found.best is None else found.best.value(self.instance)
            progress(self._unit(found.bound), self._unit(value))
        if found.best is None:
            return self._nothing(found)
        unique = self.searcher.unique(self.rows, self.bounds, found.best)
        best = unique or found.best
        status: Status = "optimal" if found.proved and unique is not None else "feasible"
        more = runners_up(self.searcher, self.rows, self.bounds, best, top)
        decisions = [best, *more]
        simple = recommended(self.searcher, self.rows, self.bounds, best, self._tolerance())
        if simple not in decisions:
            decisions.append(simple)
        plans = tuple(self._plan(d, i + 1) for i, d in enumerate(decisions))
        front, front_proved = self._front()
        notes = [] if front_proved else ["the front is not proved complete: time ran out"]
        return Result(
            status=status if front_proved else "feasible",
            objective=self.problem.objective.minimise,
            plans=plans,
            recommended=decisions.index(simple) + 1,
            fastest=self._fastest(),
            front=front,
            profile=self.profile,
            expected_error=self.error,
            tolerance=self._tolerance(),
            measured=self.measured,
            gpu_counts_considered=self.space.gpu_counts,
            certificate=self._certificate(found, best),
            notes=tuple(notes),
        )

    def _tolerance(self) -> float:
        chosen = self.problem.objective.tolerance
        return max(self.difference, LEAST_TOLERANCE) if chosen is None else chosen

    def _plan(self, decision: Decision, rank: int) -> Plan:
        return plan_of(self.instance, self.priced, decision, rank)

    def _fastest(self) -> Plan | None:
        """Return the fastest plan beside the cheapest; its price says what speed costs."""
        if self.instance.goal != "cost":
            return None
        other = self._for_time()
        found = other.searcher.best(other.rows, other.bounds, NEVER)
        if found.best is None:
            return None
        unique = other.searcher.unique(other.rows, other.bounds, found.best)
        return other._plan(unique or found.best, 1)

    def _for_time(self) -> _Solve:
        """Return the same problem for the fastest plan, over the same priced shapes."""
        instance = replace(self.instance, goal="time")
        return _Solve(self.problem, instance, self.searcher.settings, self.clock, self)

    def _front(self) -> tuple[tuple[Plan, ...], bool]:
        if not self.problem.objective.pareto:
            return (), True
        if self.instance.goal != "time":
            return self._for_time()._front()
        points, proved = complete_front(self.searcher, self.rows, self.bounds)
        plans = (self._plan(point, i + 1) for i, point in enumerate(points))
        return tuple(plan.model_copy(update={"on_front": True}) for plan in plans), proved

    def _unit(self, value: int | None) -> float | None:
        """Return a goal's integer in seconds, USD (GPU-seconds without a price) or MiB."""
        if value is None or value >= NEVER:
            return None
        if self.instance.goal == "memory":
            return float(value)
        price = self.instance.group.price_usd_per_gpu_hour
        if self.instance.goal == "cost" and price:
            return value * TICK_S / SECONDS_PER_HOUR * price
        return value * TICK_S

    def _certificate(self, found: Found, best: Decision | None) -> Certificate:
        tally = self.searcher.tally
        value = None if best is None else best.value(self.instance)
        bound = min(found.bound, value) if value is not None else found.bound
        gap = None if value is None else (value - bound) / value
        dropped = dict(self.space.dropped)
        for name, rows in self.searcher.excluded().items():
            if rows.any():
                dropped[name] = int(rows.sum())
        return Certificate(
            shapes=len(self.space.shapes),
            dropped=dict(sorted(dropped.items())),
            opened=tally.opened,
            models=tally.models,
            closed=tally.closed,
            incumbent=self._unit(value),
            next_bound=self._unit(found.next_bound),
            bound=self._unit(bound),
            gap=gap,
        )

    def _nothing(self, found: Found) -> Result:
        proved = found.proved and not self.clock.over()
        long = self.priced.step_bound > LONGEST_STEP // 2
        for excluded in self.searcher.excluded().values():
            long &= ~excluded
        if long.any():
            raise InputError(too_long(self.problem))
        settings = self.searcher.settings
        reasons = why_nothing_fits(self.instance, settings, self.clock) if proved else ()
        notes: tuple[str, ...] = ()
        if proved and (fewest := fewest_gpus(self.instance, settings, self.clock)):
            gpus, nodes, layout = fewest
            notes = (
                f"{gpus} GPUs ({nodes} nodes) are the fewest of this kind that hold a plan within "
                f"every limit: {layout}",
            )
        return Result(
            status="infeasible" if proved else "unknown",
            objective=self.problem.objective.minimise,
            plans=(),
            recommended=None,
            fastest=None,
            front=(),
            profile=self.profile,
            expected_error=self.error,
            tolerance=self._tolerance(),
            measured=self.measured,
            gpu_counts_considered=self.space.gpu_counts,
            certificate=self._certificate(found, None),
            reasons=reasons,
            notes=notes,
        )
