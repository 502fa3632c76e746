"""One search problem in the solver's integers: cost model, limits, objective."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from topology.cluster import NodeGroup

from ..checks import RELATIVE_SLACK
from ..cost.bubble import bubble_parts
from ..cost.goodput import PARTS, Goodput, charge, longest_within
from ..cost.tables import CostModel
from ..cost.ticks import MAX_TICKS, TICK_S, IntArray
from ..job.job import Job, Limits
from ..job.search import Search

Goal = Literal["time", "cost", "memory"]

LIMIT_NAMES = (
    "memory",
    "communication",
    "bubble",
    "tp_within_node",
    "max_stages",
    "deadline",
    "budget",
    "batch_divisibility",
)
"""Every limit that the model holds, each behind a literal of this name."""

LONGEST_STEP = MAX_TICKS - 1
"""Longest step of a plan, in ticks: at ``MAX_TICKS`` the arithmetic holds every longer one."""

SECONDS_PER_HOUR = 3600
PERMILLE = 10_000
"""Fractions of limits are held to 1/10,000."""


def whole(most: float) -> int:
    """Return the most whole units that a limit leaves, by the slack that ``checks`` gives it."""
    return int(most * (1 + RELATIVE_SLACK))


@dataclass(frozen=True)
class Caps:
    """What earlier objectives leave to later ones, in the solver's integers; None leaves all.

    Attributes
    ----------
    ticks
        Most wall-clock ticks of a step.
    gpu_ticks
        Most GPU-ticks of a step.
    mib
        Most MiB on the worst GPU.
    gpus
        Most GPUs.
    """

    ticks: int | None = None
    gpu_ticks: int | None = None
    mib: int | None = None
    gpus: int | None = None

    def of_goals(self) -> list[tuple[Goal, int]]:
        """Return each goal that is capped, and the most that is left of it."""
        caps: dict[Goal, int | None] = {
            "time": self.ticks, "cost": self.gpu_ticks, "memory": self.mib
        }  # fmt: skip
        return [(goal, most) for goal, most in caps.items() if most is not None]


@dataclass(frozen=True)
class Instance:
    """What one search minimises, over what, under which limits.

    Attributes
    ----------
    job, group, limits, search
        The problem.
    cost
        Cost model that prices shapes.
    goal
        Step time, GPU time (cost at one price), or memory of the worst GPU.
    enabled
        Names of the limits that hold; the others are switched off.
    goodput
        Share of wall-clock time that trains; None counts no failures.
    caps
        What objectives that come before the goal leave to it.
    """

    job: Job
    group: NodeGroup
    limits: Limits
    search: Search
    cost: CostModel
    goal: Goal = "time"
    enabled: frozenset[str] = frozenset(LIMIT_NAMES)
    goodput: Goodput | None = None
    caps: Caps = Caps()

    def without(self, *names: str) -> Instance:
        """Return the same problem with some limits switched off."""
        return replace(self, enabled=self.enabled - set(names))

    def holds(self, name: str) -> bool:
        """Whether a limit holds: enabled, and not waived by the problem itself."""
        waived = {
            "tp_within_node": not self.limits.tp_within_node,
            "deadline": self.limits.deadline_s is None and self.caps.ticks is None,
            "budget": self.limits.budget_usd is None and self.caps.gpu_ticks is None,
        }
        return name in self.enabled and not waived.get(name, False)

    @cached_property
    def tp_room(self) -> int:
        """GPUs inside which a tensor-parallel group stays: the NVLink domain or the node."""
        return max(self.group.nvlink_domain, self.group.gpus_per_node)

    def slowdown(self, held: IntArray) -> IntArray:
        """Return wall-clock over training time on so many GPUs held, in parts a million."""
        if self.goodput is None:
            return np.full(np.shape(held), PARTS)
        return self.goodput.slowdown(held // self.group.gpus_per_node)

    def charged(self, step: IntArray, held: IntArray) -> IntArray:
        """Return the wall-clock ticks of a step on so many GPUs held, failures included.

        It grows with the step on any one number of GPUs, so that bounds of steps remain bounds.
        """
        if self.goodput is None:
            return step
        return charge(step, self.slowdown(held))

    def charge_one(self, step: int, held: int) -> int:
        """Return the wall-clock ticks of one step."""
        return int(self.charged(np.array(step), np.array(held)))

    def uncharged(self, ticks: int, held: int) -> int:
        """Return the longest step that is charged at most so many ticks on so many GPUs."""
        if self.goodput is None:
            return ticks
        return longest_within(ticks, int(self.slowdown(np.array(held))))

    def value(self, goal: Goal, step: IntArray, memory: IntArray, held: IntArray) -> IntArray:
        """Return a goal in its integer unit: ticks or GPU-ticks of wall-clock time, or MiB."""
        if goal == "memory":
            return memory
        charged = self.charged(step, held)
        return charged if goal == "time" else np.asarray(charged * held)

    @cached_property
    def capacity_mib(self) -> int:
        """Most MiB that a plan may need on a GPU."""
        most = self.cost.capacity_mib
        return most if self.caps.mib is None else min(most, self.caps.mib)

    @cached_property
    def longest_step(self) -> int:
        """Most ticks of wall-clock time a step that the deadline leaves."""
        steps, deadline = self.job.steps, self.limits.deadline_s
        longest = LONGEST_STEP if self.caps.ticks is None else self.caps.ticks
        if deadline is None or steps is None:
            return longest
        return min(whole(deadline / (steps * TICK_S)), longest)

    @cached_property
    def most_gpu_ticks(self) -> int:
        """Most GPU-ticks of wall-clock time a step that the budget leaves."""
        steps, price = self.job.steps, self.group.price_usd_per_gpu_hour
        cap = LONGEST_STEP * max(self.group.gpus, 1)
        if self.caps.gpu_ticks is not None:
            cap = min(cap, self.caps.gpu_ticks)
        if self.limits.budget_usd is None or not steps or not price:
            return cap
        ticks = self.limits.budget_usd / price * SECONDS_PER_HOUR / (steps * TICK_S)
        return min(whole(ticks), cap)

    @cached_property
    def bubble_limit(self) -> int:
        """Largest bubble in units of 1/10,000."""
        return round(self.limits.max_bubble * PERMILLE)

    def allowance(self, compute: IntArray) -> IntArray:
        """Return the most grains of communication that the compute of a step allows."""
        return np.asarray(np.floor(self.limits.max_comm * compute), dtype=np.int64)

    def bubble_excess(self, pp: IntArray, vpp: IntArray, microbatches: IntArray) -> IntArray:
        """Return PERMILLE idle - limit (busy + idle): above 0 where the bubble is too large.

        Under 1F1B these are p - 1 and v m.
        """
        idle, busy = bubble_parts(self.job, self.search.schedule, (pp, vpp, microbatches))
        return np.asarray(PERMILLE * idle - self.bubble_limit * (busy + idle))

    def tp_domains(self, tp: IntArray) -> IntArray:
        """Return the domains that the widest-spread tensor-parallel group touches."""
        room = self.tp_room
        inside = (room % tp == 0) & (tp <= room)
        return np.where(inside, 1, np.maximum(-(-tp // room), 2))

    def batch_remainder(self, dp: IntArray, micro: IntArray, microbatches: IntArray) -> IntArray:
        """Return the sequences of the global batch that the cut leaves over."""
        return np.asarray(self.job.global_batch - dp * micro * microbatches)
