"""Several objectives one after the other: each among what the ones before it leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, cast

import numpy as np

from ..cost.ticks import MIB, IntArray
from ..job.job import Aim
from ..result import Preference
from .best_first import Searcher
from .decision import Decision
from .instance import Caps, Goal, Instance
from .pricing import NEVER


class Grounds(Protocol):
    """A search of one instance, and the same one with another goal and caps."""

    instance: Instance
    searcher: Searcher
    rows: IntArray

    def twin(self, goal: Goal, caps: Caps) -> Grounds:
        """Return the search over the same shapes with another goal and caps."""

    def unit(self, value: int | None) -> float | None:
        """Return the goal's integer in seconds, USD or MiB."""


@dataclass(frozen=True)
class Ordered:
    """The plan that the objectives choose in their order.

    Attributes
    ----------
    best
        The plan.
    preferences
        What each objective reached, and what it left to the next.
    proved
        Every one of them is proved.
    """

    best: Decision
    preferences: tuple[Preference, ...]
    proved: bool


def in_order(grounds: Grounds, first: Decision, then: Sequence[Aim], tolerance: float) -> Ordered:
    """Minimise the next objectives after the first, whose best plan is ``first``.

    After each objective only plans within ``tolerance`` of its least value are left; after the last
    only those at it, and the usual rules choose among them.
    """
    found = _Found(grounds, first, Caps(), proved=True)
    aims: tuple[Aim, ...] = (cast("Aim", grounds.instance.goal), *then)
    reached = []
    for place, aim in enumerate(aims):
        last = place == len(aims) - 1
        if place > 0:
            found = _fewest(found) if aim == "gpus" else _least(found, aim)
        value = found.value(aim)
        most = value if last else value + int(value * tolerance)
        unit = found.unit(aim)
        reached.append(Preference(objective=aim, least=value * unit, allowed=most * unit))
        found = replace(found, caps=_capped(found.caps, aim, most))
    goal = next(aim for aim in reversed(aims) if aim != "gpus")
    found = _least(found, goal)
    unique = found.grounds.searcher.unique(found.grounds.rows, found.best)
    proved = found.proved and unique is not None
    return Ordered(unique or found.best, tuple(reached), proved)


@dataclass(frozen=True)
class _Found:
    """The best so far, in which search, under which caps for what comes next."""

    grounds: Grounds
    best: Decision
    caps: Caps
    proved: bool

    def value(self, aim: Aim) -> int:
        """Return what an objective is for the plan."""
        if aim == "gpus":
            return int(self.grounds.searcher.priced.shapes.gpus[self.best.row])
        return self.best.value(replace(self.grounds.instance, goal=aim))

    def unit(self, aim: Aim) -> float:
        """Return the seconds, USD, GPUs or bytes of one unit of an objective."""
        if aim == "gpus":
            return 1.0
        one = self.grounds.twin(aim, Caps()).unit(1) or 0.0
        return one * MIB if aim == "memory" else one


def _capped(caps: Caps, aim: Aim, most: int) -> Caps:
    name = {"time": "ticks", "cost": "gpu_ticks", "memory": "mib", "gpus": "gpus"}[aim]
    return replace(caps, **{name: most})


def _least(found: _Found, goal: Goal) -> _Found:
    """Minimise a goal under the caps; the plan so far keeps them, and none worse is looked at."""
    grounds = found.grounds.twin(goal, found.caps)
    known = found.best.value(grounds.instance)
    better = grounds.searcher.best(grounds.rows, known)
    return _Found(grounds, better.best or found.best, found.caps, found.proved and better.proved)


def _fewest(found: _Found) -> _Found:
    """Find the fewest GPUs that hold a plan under the caps."""
    grounds, proved = found.grounds.twin(found.grounds.instance.goal, found.caps), found.proved
    gpus = grounds.searcher.priced.shapes.gpus
    for count in np.unique(gpus[grounds.rows]):
        if count >= found.value("gpus"):
            break
        rows = grounds.rows[gpus[grounds.rows] == count]
        one = grounds.searcher.best(rows, NEVER, enough=NEVER)
        if one.best is not None:
            return _Found(grounds, one.best, found.caps, proved)
        proved &= one.proved
    return _Found(grounds, found.best, found.caps, proved)
