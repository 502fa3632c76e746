"""``solve``: the proven-best plan of a problem, its runners-up, its front, its certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from topology.errors import InputError

from ..cost.calibrated import Calibrated
from ..cost.goodput import Goodput
from ..cost.own_profile import find_profile
from ..cost.profile import FRAMEWORK_STACK, Profile
from ..cost.tables import CostModel
from ..cost.textbook_model import Textbook, textbook_search
from ..cost.ticks import TICK_S
from ..job.job import PlanningProblem, Search
from ..job.rules import Rule
from ..plan import Certificate, Plan, Result
from .assemble import plan_of
from .best_first import Clock, Found, Searcher, Tally
from .cpsat.factory import SolverSettings
from .decision import Decision
from .endless import why_nothing_ends
from .front import complete_front
from .instance import LONGEST_STEP, SECONDS_PER_HOUR, Goal, Instance
from .mixed import Mixed, Part, alone
from .pricing import NEVER, Priced
from .reasons import hints
from .runners_up import recommended, runners_up
from .space import Space, build_space
from .split_plan import split_plan
from .splits import Splits
from .stagewise import Split
from .uneven import Best
from .validate import chooses_stages, too_long, validate, validate_mixed
from .variants import merged, variants_of

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
    profile, search = find_profile(stack, problem.cluster.group.gpu.id), problem.search
    chosen: dict[str, Any] = {"cp_comm": search.cp_comm, "schedule": search.schedule}
    if search.recompute_modules is not None:
        chosen["recompute_modules"] = search.recompute_modules
    return profile.model_copy(update={"software": profile.software.model_copy(update=chosen)})


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
    goal = goal or problem.objective.minimise
    goodput = Goodput.of(problem.job, problem.reliability)
    return Instance(problem.job, group, limits, search, cost, goal, goodput=goodput)


def solve(
    problem: PlanningProblem,
    *,
    seed: int = 0,
    workers: int = 1,
    time_limit_s: float | None = None,
    top: int | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
    explain: bool = True,
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
        Called as the search goes on with bound and best value.
    explain
        Say why nothing fits, where nothing does.
    stop
        Asked as the search goes on; once it is true the best so far is returned.

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
    settings, clock = SolverSettings(seed, workers), Clock(time_limit_s)
    if stop is not None:
        clock.stop = stop
    top = top or problem.objective.top
    results = [
        _solve_one(one, settings, clock, top, progress, explain) for one in variants_of(problem)
    ]
    return results[0] if len(results) == 1 else merged(problem, results, top)


def _solve_one(
    problem: PlanningProblem, settings: SolverSettings, clock: Clock, top: int,
    progress: Progress | None, explain: bool,
) -> Result:  # fmt: skip
    if len(problem.cluster.groups) > 1:
        return _solve_mixed(problem, settings, clock, top)
    return _Solve(problem, instance_of(problem), settings, clock).run(top, progress, explain)


def _solve_mixed(
    problem: PlanningProblem, settings: SolverSettings, clock: Clock, top: int
) -> Result:
    """Search each node group alone, then pipelines across groups."""
    validate_mixed(problem)
    parts = []
    for number, group in enumerate(problem.cluster.groups):
        one = alone(problem, number)
        exact = one.search.gpus
        if exact is not None and exact > group.gpus:  # no plan on this group alone
            rules = (*one.search.rules, Rule(axis="gpus", relation="=", value=exact))
            alone_search = one.search.model_copy(update={"gpus": None, "rules": rules})
            one = replace(one, search=alone_search)
        instance = instance_of(one)
        result = _Solve(one, instance, settings, clock).run(top, None, explain=False)
        parts.append(Part(replace(instance, search=problem.search), result))
    tolerance = max(part.result.tolerance for part in parts)
    return Mixed(problem, parts, settings, clock).run(top, tolerance)


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
        self.splits = Splits(instance, self.space.shapes, settings, clock, tally)
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

    def run(self, top: int, progress: Progress | None, explain: bool = True) -> Result:
        """Search, break ties, then the runners-up, the recommendation and the front."""
        if progress is not None:
            self.clock.watch = lambda bound, value: progress(self._unit(bound), self._unit(value))
        found = self.searcher.best(self.rows, self.bounds, NEVER)
        value = None if found.best is None else found.best.value(self.instance)
        self.clock.watch(found.bound, value)
        split, freely = self._split(found.best)
        if found.best is None and split is None:
            return self._nothing(found, freely, explain)
        proved = found.proved and freely.proved
        answers: list[Decision | Split] = [split] if split else []
        if found.best is not None:
            unique = self.searcher.unique(self.rows, self.bounds, found.best)
            proved &= unique is not None
            best = unique or found.best
            answers += [best, *runners_up(self.searcher, self.rows, self.bounds, best, top)]
            del answers[top:]
        place = self._recommended(answers)
        front, front_proved = self._front()
        notes = [] if front_proved else ["the front is not proved complete: time ran out"]
        first = answers[0]
        refined = None
        if self._refines and isinstance(first, Decision):
            refined = self.splits.refine(first)
        return Result(
            status="optimal" if proved and front_proved else "feasible",
            objective=self.problem.objective.minimise,
            plans=tuple(self._plan(answer, i + 1) for i, answer in enumerate(answers)),
            recommended=place,
            fastest=self._fastest(),
            refined=None if refined is None else self._plan(refined, 1),
            front=front,
            profile=self.profile,
            expected_error=self.error,
            tolerance=self._tolerance(),
            measured=self.measured,
            gpu_counts_considered=self.space.gpu_counts,
            certificate=self._certificate(found, freely),
            notes=tuple(notes),
        )

    @property
    def _refines(self) -> bool:
        return self.instance.search.stages == "refine" and chooses_stages(self.problem)

    @property
    def _free(self) -> bool:
        return self.instance.search.stages == "free"

    def _split(self, best: Decision | None) -> tuple[Split | None, Best]:
        """Look for a better split of any shape, where the search spreads layers freely."""
        value = NEVER if best is None else best.value(self.instance)
        if not self._free:
            return None, Best(None, value, value, proved=True)
        found = self.splits.free(value)
        return found.split, found

    def _recommended(self, answers: list[Decision | Split]) -> int:
        """Return the rank of the simplest plan within the tolerance; add it where it is new."""
        first = answers[0]
        value = self._value(first)
        most = int(value * (1 + self._tolerance()))
        simple = recommended(self.searcher, self.rows, self.bounds, most, first.axes)
        if simple is None:
            return 1
        if simple not in answers:
            answers.append(simple)
        return answers.index(simple) + 1

    def _value(self, answer: Decision | Split) -> int:
        if isinstance(answer, Decision):
            return answer.value(self.instance)
        held = int(answer.pipeline.shape.held[0])
        charged = self.instance.charge_one(answer.totals.step, held)
        return charged * (held if self.instance.goal == "cost" else 1)

    def _tolerance(self) -> float:
        chosen = self.problem.objective.tolerance
        return max(self.difference, LEAST_TOLERANCE) if chosen is None else chosen

    def _plan(self, answer: Decision | Split, rank: int) -> Plan:
        if isinstance(answer, Split):
            return split_plan(answer, rank)
        return plan_of(self.instance, self.priced, answer, rank)

    def _fastest(self) -> Plan | None:
        """Return the fastest plan beside the cheapest; its price says what speed costs."""
        if self.instance.goal != "cost":
            return None
        other = self._for_time()
        found = other.searcher.best(other.rows, other.bounds, NEVER)
        if found.best is None:
            return None
        unique = other.searcher.unique(other.rows, other.bounds, found.best)
        best = unique or found.best
        return other._plan(other._split(best)[0] or best, 1)

    def _for_time(self) -> _Solve:
        """Return the same problem for the fastest plan, over the same priced shapes."""
        instance = replace(self.instance, goal="time")
        return _Solve(self.problem, instance, self.searcher.settings, self.clock, self)

    def _front(self) -> tuple[tuple[Plan, ...], bool]:
        if not self.problem.objective.pareto:
            return (), True
        if self.instance.goal != "time":
            return self._for_time()._front()
        points, proved = complete_front(
            self.searcher, self.rows, self.bounds, self.splits.on if self._free else None
        )
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

    def _certificate(self, found: Found, freely: Best) -> Certificate:
        tally = self.searcher.tally
        nothing = found.best is None and freely.split is None
        value, bound = None if nothing else freely.value, min(found.bound, freely.bound)
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

    def _nothing(self, found: Found, freely: Best, explain: bool) -> Result:
        proved = found.proved and freely.proved and not self.clock.over()
        long = self.priced.step_bound > LONGEST_STEP // 2
        for excluded in self.searcher.excluded().values():
            long &= ~excluded
        if long.any():
            raise InputError(too_long(self.problem))
        settings, explain = self.searcher.settings, explain and proved
        why = why_nothing_ends(self.instance, settings, self.clock) if explain else None
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
            certificate=self._certificate(found, freely),
            infeasibility=why,
            reasons=() if why is None else why.reasons,
            notes=() if why is None else hints(why),
        )
