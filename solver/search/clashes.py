"""Which limits clash: the minimal sets that no plan keeps together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..cost.ticks import BoolArray
from .best_first import Clock, Searcher, Tally
from .cpsat.factory import SolverSettings
from .decision import Decision
from .instance import LIMIT_NAMES, Goal, Instance
from .pricing import NEVER, Priced
from .space import build_space

MOST_STAGES = 128
"""Most pipeline stages that are looked at with that limit lifted: four times the usual one."""

RELAXABLE = tuple(name for name in LIMIT_NAMES if name != "batch_divisibility")
"""Limits that a user may lift; divisibility is a fact."""


@dataclass
class Grounds:
    """One problem with any of its limits lifted, over one space of shapes.

    Attributes
    ----------
    instance
        The problem; the limits that it holds may be lifted.
    settings, clock
        How CP-SAT runs, and how long.
    """

    instance: Instance
    settings: SolverSettings
    clock: Clock
    _kept: list[frozenset[str]] = field(default_factory=list)
    _broken: list[frozenset[str]] = field(default_factory=list)

    @cached_property
    def limits(self) -> tuple[str, ...]:
        """The limits that hold and can be lifted."""
        return tuple(name for name in RELAXABLE if self.instance.holds(name))

    @cached_property
    def _free(self) -> Priced:
        """Every shape, each bounded once at most; a search under limits looks at some of them."""
        wide = self.instance.limits.model_copy(update={"max_stages": MOST_STAGES})
        free = replace(self.instance, limits=wide).without(*RELAXABLE)
        free = replace(free, enabled=free.enabled | {"max_stages"})
        return Priced.of(free, build_space(free).shapes)

    @property
    def structural(self) -> bool:
        """Whether there is no shape at all, whatever the limits."""
        return not len(self._free.shapes)

    def plan(self, kept: frozenset[str], goal: Goal = "time", best: bool = True) -> Found | None:
        """Return the best plan that keeps some of the limits; any plan where ``best`` is off."""
        lifted = set(self.limits) - kept
        instance = replace(self.instance.without(*lifted), goal=goal)
        priced = self._free.under(instance)
        searcher = Searcher(instance, priced, self.settings, self.clock, Tally())
        rows = np.flatnonzero(self.inside(instance) & (searcher.bounds < NEVER))
        found = searcher.best(rows, NEVER, enough=0 if best else NEVER)
        return None if found.best is None else Found(instance, priced, found.best)

    def inside(self, instance: Instance) -> BoolArray:
        """Mark the shapes that keep the limits that a shape alone decides."""
        s = self._free.shapes
        inside = np.ones(len(s), bool)
        if instance.holds("bubble"):
            inside &= instance.bubble_excess(s.pp, s.vpp, s.microbatches) <= 0
        if instance.holds("tp_within_node"):
            inside &= instance.tp_domains(s.tp) == 1
        if instance.holds("max_stages"):
            inside &= s.pp <= instance.limits.max_stages
        return inside

    def feasible(self, kept: frozenset[str]) -> bool:
        """Whether some plan keeps all these limits, the others lifted.

        True also where time ran out: a clash is claimed only where it is proved.
        """
        if any(kept <= known for known in self._kept):
            return True
        if any(known <= kept for known in self._broken):
            return False
        goal: Goal = "time" if kept & {"deadline", "budget"} else "memory"
        found = self.plan(kept, goal, best=False)
        if found is None:
            if self.clock.over():
                return True
            self._broken.append(kept)
            return False
        self._kept.append(kept | found.kept(self.instance, self.limits))
        return True

    def clashes(self) -> Iterator[frozenset[str]]:
        """Yield every minimal set of limits that no plan keeps: its proper subsets all have one."""
        found: list[frozenset[str]] = []
        for size in range(1, len(self.limits) + 1):
            for names in itertools.combinations(self.limits, size):
                kept = frozenset(names)
                if self.clock.over():
                    return
                if any(known <= kept for known in found) or self.feasible(kept):
                    continue
                found.append(kept)
                yield kept


@dataclass(frozen=True)
class Found:
    """A plan of a search with some limits lifted."""

    instance: Instance
    priced: Priced
    decision: Decision

    @property
    def shape(self) -> dict[str, int]:
        """Degrees of the plan."""
        return self.priced.shapes.row(self.decision.row)

    @property
    def ratio(self) -> float:
        """Communication over compute."""
        return self.decision.communication / self._compute

    @property
    def _compute(self) -> int:
        rows = np.array([self.decision.row])
        return int(self.instance.cost.tables(self.priced.shapes.take(rows)).compute[0])

    def kept(self, instance: Instance, names: tuple[str, ...]) -> frozenset[str]:
        """Return which of the limits of ``instance`` the plan keeps."""
        one, s = self.decision, self.priced.shapes.take(np.array([self.decision.row]))
        allowed = int(instance.allowance(np.array([self._compute]))[0])
        keeps = {
            "memory": one.memory <= instance.cost.capacity_mib,
            "communication": one.communication <= allowed,
            "bubble": bool((instance.bubble_excess(s.pp, s.vpp, s.microbatches) <= 0)[0]),
            "tp_within_node": bool((instance.tp_domains(s.tp) == 1)[0]),
            "max_stages": int(s.pp[0]) <= instance.limits.max_stages,
            "deadline": one.charged <= instance.longest_step,
            "budget": one.gpu_ticks <= instance.most_gpu_ticks,
        }
        return frozenset(name for name in names if keeps[name])
