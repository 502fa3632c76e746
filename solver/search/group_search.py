"""The search on one node group: best plan, runners-up, recommendation, front, certificate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from topology.errors import InputError

from ..cost.calibrated import Calibrated
from ..cost.ticks import TICK_S
from ..job.job import PlanningProblem
from ..plan import Plan
from ..result import Certificate, Infeasibility, Preference, Result
from .assemble import plans_of
from .best_first import Clock, Found, Searcher, Tally
from .cpsat.factory import SolverSettings
from .decision import Decision
from .endless import why_nothing_ends
from .front import complete_front
from .in_order import in_order
from .instance import LONGEST_STEP, SECONDS_PER_HOUR, Caps, Goal, Instance
from .pricing import NEVER, Priced
from .reasons import FREE_HINT, hints
from .runners_up import recommended, runners_up
from .space import Space, build_space
from .split_plan import split_plan
from .splits import Splits
from .stagewise import Split
from .uneven import Best
from .validate import chooses_stages, may_free_stages, too_long

Progress = Callable[[float | None, float | None], None]
"""Called with the certified bound and the best value so far, in seconds or USD."""

FREE = Caps()

LEAST_TOLERANCE = 0.02
"""Plans closer than 2 % are never told apart: the spread of repeated runs of one configuration."""

BETWEEN_PLANS = 1 / 3
"""Error between plans of one cluster over the error of a step: most of it is common to them."""

TEXTBOOK_ERROR = 0.25
"""Expected error of the textbook account: utilisation is an input there, 35–45 % by its text."""


class GroupSearch:
    """One call of ``solve``: the space is priced once and searched several times."""

    def __init__(
        self, problem: PlanningProblem, instance: Instance, settings: SolverSettings, clock: Clock,
        twin: GroupSearch | None = None,
    ) -> None:  # fmt: skip
        self.problem, self.instance, self.clock = problem, instance, clock
        self.gap = problem.objective.gap
        self.space: Space = twin.space if twin else build_space(instance)
        self.priced: Priced = twin.priced if twin else Priced.of(instance, self.space.shapes)
        tally = twin.searcher.tally if twin else Tally()
        self.searcher: Searcher = Searcher(instance, self.priced, settings, clock, tally)
        self.splits = Splits(instance, self.space.shapes, settings, clock, tally)
        able = self.searcher.bounds < NEVER
        if instance.caps.gpus is not None:
            able &= self.space.shapes.gpus <= instance.caps.gpus
        self.rows = np.flatnonzero(able)
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
            self.clock.watch = lambda bound, value: progress(self.unit(bound), self.unit(value))
        found = self.searcher.best(self.rows, NEVER, gap=self.gap)
        value = None if found.best is None else found.best.value(self.instance)
        self.clock.watch(found.bound, value)
        split, freely = self._split(found.best)
        if found.best is None and split is None:
            return self._nothing(found, freely, explain)
        proved = found.proved and freely.proved
        preferences: tuple[Preference, ...] = ()
        answers: list[Decision | Split] = [split] if split else []
        if found.best is not None:
            best, sure, preferences = self._chosen(found.best, found.proved)
            proved &= sure
            answers += [best, *runners_up(self.searcher, self.rows, best, top, self.gap)]
            if self.gap and not preferences:
                answers.sort(key=self._value)
            del answers[top:]
        place = 1 if preferences else self._recommended(answers)
        front, front_proved = self._front()
        fastest, fastest_proved = self._fastest()
        notes = [] if front_proved else ["the front is not proved complete: time ran out"]
        if not fastest_proved:
            notes.append("the fastest plan beside the cheapest is not proved: time ran out")
        first = answers[0]
        refined = None
        if self._refines and isinstance(first, Decision):
            refined = self.splits.refine(first)
        return Result(
            status="optimal" if proved and front_proved else "feasible",
            objective=self.problem.objective.minimise,
            plans=tuple(self._plans(answers)),
            recommended=place,
            fastest=fastest,
            refined=None if refined is None else split_plan(refined, 1),
            front=front,
            profile=self.profile,
            expected_error=self.error,
            tolerance=self._tolerance(),
            measured=self.measured,
            gpu_counts_considered=self.space.gpu_counts,
            certificate=self._certificate(found, freely, None if preferences else first),
            preferences=preferences,
            notes=tuple(notes),
        )

    def _chosen(
        self, found: Decision, proved: bool
    ) -> tuple[Decision, bool, tuple[Preference, ...]]:
        """Choose among the plans as good as the one found: by further objectives, by the rules."""
        then = self.problem.objective.then
        if then:
            given = in_order(self, found, then, self.problem.objective.tolerance or 0.0)
            return given.best, given.proved, given.preferences
        if self.gap and not proved:  # better ones may be left: no use in choosing among equals
            return found, True, ()
        unique = self.searcher.unique(self.rows, found)
        return unique or found, unique is not None, ()

    @property
    def _refines(self) -> bool:
        free = not self.problem.objective.then
        chosen = self.instance.search.stages == "refine" and free
        return chosen and chooses_stages(self.problem)

    @property
    def _free(self) -> bool:
        return self.instance.search.stages == "free"

    def _split(self, best: Decision | None) -> tuple[Split | None, Best]:
        """Look for a better split of any shape, where the search spreads layers freely."""
        value = NEVER if best is None else best.value(self.instance)
        if not self._free:
            return None, Best(None, value, value, proved=True)
        found = self.splits.free(value, self.gap)
        return found.split, found

    def _recommended(self, answers: list[Decision | Split]) -> int:
        """Return the rank of the simplest plan within the tolerance; add it where it is new."""
        first = answers[0]
        value = self._value(first)
        most = int(value * (1 + self._tolerance()))
        simple = recommended(self.searcher, self.rows, most, first.axes)
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

    def _plans(self, answers: Sequence[Decision | Split]) -> list[Plan]:
        """Build the plans of some answers, ranked as they come."""
        even = [answer for answer in answers if isinstance(answer, Decision)]
        built = iter(plans_of(self.instance, self.priced, even))
        plans = (split_plan(a, 1) if isinstance(a, Split) else next(built) for a in answers)
        return [plan.model_copy(update={"rank": i}) for i, plan in enumerate(plans, 1)]

    def _fastest(self) -> tuple[Plan | None, bool]:
        """Return the fastest plan beside the cheapest, and whether it is proved.

        Its price says what speed costs.
        """
        if self.instance.goal != "cost":
            return None, True
        other = self.twin("time")
        found = other.searcher.best(other.rows, NEVER)
        if found.best is None:
            return None, found.proved
        unique = other.searcher.unique(other.rows, found.best)
        split, freely = other._split(unique or found.best)
        plan = other._plans([split or unique or found.best])[0]
        return plan, found.proved and freely.proved and unique is not None

    def twin(self, goal: Goal, caps: Caps = FREE) -> GroupSearch:
        """Return the same problem with another goal and caps, over the same priced shapes."""
        instance = replace(self.instance, goal=goal, caps=caps)
        return GroupSearch(self.problem, instance, self.searcher.settings, self.clock, self)

    def _front(self) -> tuple[tuple[Plan, ...], bool]:
        if not self.problem.objective.pareto:
            return (), True
        if self.instance.goal != "time":
            return self.twin("time")._front()
        points, proved = complete_front(
            self.searcher, self.rows, self.splits.on if self._free else None
        )
        plans = self._plans(points)
        return tuple(plan.model_copy(update={"on_front": True}) for plan in plans), proved

    def unit(self, value: int | None) -> float | None:
        """Return a goal's integer in seconds, USD (GPU-seconds without a price) or MiB."""
        if value is None or value >= NEVER:
            return None
        if self.instance.goal == "memory":
            return float(value)
        price = self.instance.group.price_usd_per_gpu_hour
        if self.instance.goal == "cost" and price:
            return value * TICK_S / SECONDS_PER_HOUR * price
        return value * TICK_S

    def _certificate(
        self, found: Found, freely: Best, first: Decision | Split | None
    ) -> Certificate:
        """Return the proof of the first objective; ``first`` is the plan that is shown as best."""
        tally = self.searcher.tally
        nothing = found.best is None and freely.split is None
        value, bound = None if nothing else freely.value, min(found.bound, freely.bound)
        if value is not None and first is not None:
            value = min(value, self._value(first))
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
            incumbent=self.unit(value),
            next_bound=self.unit(found.next_bound),
            bound=self.unit(bound),
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
            certificate=self._certificate(found, freely, None),
            infeasibility=why,
            reasons=() if why is None else why.reasons,
            notes=() if why is None else self._hints(why),
        )

    def _hints(self, why: Infeasibility) -> tuple[str, ...]:
        freely = (FREE_HINT,) if why.clashes and may_free_stages(self.problem) else ()
        return (*hints(why), *freely)
