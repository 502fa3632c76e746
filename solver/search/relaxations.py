"""The smallest single relaxation of each limit that makes a plan appear."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from topology.units import DAY, HOUR, show_bytes, show_seconds, show_usd

from ..cost.ticks import MIB, TICK_S, capacity_mebibytes
from ..result import Relaxation
from .assemble import cost_of
from .clashes import MOST_STAGES, Found, Grounds
from .fewest import fewest_gpus
from .freest import OutOfTimeError, best_run, layout_of
from .instance import Goal, Instance

PERCENT = 100
"""Limits are relaxed by whole percent: of usable memory, of compute, of a deadline or budget."""

LEAST_OF_UNIT = 2
"""Durations are hinted in days or hours from two of these on."""


@dataclass(frozen=True)
class Relaxer:
    """Looks for the smallest relaxation of each limit of a problem that no plan keeps."""

    grounds: Grounds

    @property
    def instance(self) -> Instance:
        """The problem."""
        return self.grounds.instance

    def all(self) -> Iterator[Relaxation]:
        """Yield one relaxation for each limit that can be relaxed alone, then more GPUs."""
        for name in self.grounds.limits:
            others = frozenset(self.grounds.limits) - {name}
            if self.grounds.clock.over():
                return
            if self.grounds.feasible(others):
                try:
                    yield _ONE_BY_ONE[name](self, others)
                except OutOfTimeError:
                    return
        more = self.gpus()
        if more is not None:
            yield more

    def alone(self, name: str) -> str:
        """Return what a limit needs where no other one holds; empty where nothing can be said."""
        if name not in ("memory", "deadline", "budget"):
            return ""
        try:
            return _ONE_BY_ONE[name](self, frozenset()).text
        except OutOfTimeError:
            return ""

    def memory(self, others: frozenset[str]) -> Relaxation:
        """Find the headroom that the leanest plan leaves."""
        found = self._plan(others, "memory")
        cost, limits = self.instance.cost, self.instance.limits
        need, have = found.decision.memory, cost.capacity_mib
        usable = self.instance.group.gpu.usable_bytes
        percent = math.floor(limits.mem_headroom * PERCENT)
        while percent >= 0 and capacity_mebibytes(usable * (1 - percent / PERCENT)) < need:
            percent -= 1
        what = (
            f"the leanest plan{_within(others)} ({layout_of(found)}) needs "
            f"{show_bytes(need * MIB)} ({need * MIB} bytes) on a GPU, and "
            f"{show_bytes(have * MIB)} ({have * MIB} bytes) are left of "
            f"{self.instance.group.gpu.name} after {limits.mem_headroom:.0%} headroom"
        )
        enough = percent >= 0
        return Relaxation(
            limit="memory",
            field="limits.mem_headroom",
            have=limits.mem_headroom,
            to=percent / PERCENT if enough else None,
            unit="share",
            text=what,
            command=f"--mem-headroom {percent}%" if enough else "",
            layout=layout_of(found),
        )

    def communication(self, others: frozenset[str]) -> Relaxation:
        """Find the least ratio of communication that a plan reaches, in whole percent."""
        have = self.instance.limits.max_comm
        percent, found = self._least_percent("max_comm", have, others, lambda f: f.ratio)
        return _share("communication", "limits.max_comm", have, percent, found,
                      f"communication is {found.ratio:.1%} of compute", "--max-comm")  # fmt: skip

    def bubble(self, others: frozenset[str]) -> Relaxation:
        """Find the smallest bubble that a plan reaches, in whole percent."""
        have = self.instance.limits.max_bubble
        percent, found = self._least_percent("max_bubble", have, others, _bubble)
        return _share("bubble", "limits.max_bubble", have, percent, found,
                      f"it idles {_bubble(found):.1%}", "--max-bubble")  # fmt: skip

    def _least_percent(
        self, field: str, have: float, others: frozenset[str], reached: Callable[[Found], float]
    ) -> tuple[int, Found]:
        """Bisect between a limit and what a plan without it reaches."""
        found = self._plan(others)
        low, high = math.floor(have * PERCENT), math.ceil(reached(found) * PERCENT)
        while high - low > 1:
            middle = (low + high) // 2
            other = self._with(field, middle / PERCENT).plan(frozenset(self.grounds.limits))
            low, high = (middle, high) if other is None else (low, middle)
            found = other or found
        return high, found

    def max_stages(self, others: frozenset[str]) -> Relaxation:
        """Find the fewest stages that a plan has."""
        have = self.instance.limits.max_stages
        found = self._plan(others)
        low, high = have, min(found.shape["pp"], MOST_STAGES)
        while high - low > 1:
            middle = (low + high) // 2
            other = self._with("max_stages", middle).plan(frozenset(self.grounds.limits))
            low, high = (middle, high) if other is None else (low, middle)
            found = other or found
        return Relaxation(
            limit="max_stages", field="limits.max_stages", have=have, to=high, unit="stages",
            text=f"{layout_of(found)} needs {high} stages, and {have} are allowed",
            command=f"limits: {{max_stages: {high}}}", layout=layout_of(found),
        )  # fmt: skip

    def tp_within_node(self, others: frozenset[str]) -> Relaxation:
        """Return a plan whose tensor-parallel groups leave the node."""
        found = self._plan(others)
        return Relaxation(
            limit="tp_within_node", field="limits.tp_within_node", have=1, to=0, unit="",
            text=f"without it {layout_of(found)} is a plan",
            command="limits: {tp_within_node: false}", layout=layout_of(found),
        )  # fmt: skip

    def deadline(self, others: frozenset[str]) -> Relaxation:
        """Find the shortest run."""
        found = best_run(self._plan(others, "time"), self.grounds)
        have = self.instance.limits.deadline_s or 0.0
        need = self._cost(found.step, found.held)[0]
        to = self._least_money("deadline_s", need, have, lambda i: i.longest_step >= found.charged)
        return Relaxation(
            limit="deadline", field="limits.deadline", have=have, to=to, unit="seconds",
            text=f"without it the best plan ({found.layout}) takes {show_seconds(need)}, "
            f"and {show_seconds(have)} are allowed",
            command=f"--deadline {_duration(to)}", layout=found.layout,
        )  # fmt: skip

    def budget(self, others: frozenset[str]) -> Relaxation:
        """Find the cheapest run."""
        found = best_run(self._plan(others, "cost"), self.grounds)
        have = self.instance.limits.budget_usd or 0.0
        need = self._cost(found.step, found.held)[1]
        ticks = found.charged * found.held
        to = self._least_money("budget_usd", need, have, lambda i: i.most_gpu_ticks >= ticks)
        return Relaxation(
            limit="budget", field="limits.budget", have=have, to=to, unit="USD",
            text=f"without it the best plan ({found.layout}) costs {show_usd(need)}, "
            f"and {show_usd(have)} are allowed",
            command=f"--budget {math.ceil(to)}", layout=found.layout,
        )  # fmt: skip

    def _least_money(
        self, field: str, need: float, have: float, enough: Callable[[Instance], bool]
    ) -> float:
        """Return the least whole percent above what is allowed that leaves room for a plan."""
        percent = max(math.floor((need / have - 1) * PERCENT) - 1, 0)
        while True:
            to = have * (PERCENT + percent) / PERCENT
            limits = self.instance.limits.model_copy(update={field: to})
            if enough(replace(self.instance, limits=limits)):
                return to
            percent += 1

    def gpus(self) -> Relaxation | None:
        """Find the fewest nodes of this kind that hold a plan."""
        found = fewest_gpus(self.instance, self.grounds.settings, self.grounds.clock)
        if found is None:
            return None
        gpus, nodes, layout = found
        have, search = self.instance.group.nodes, self.instance.search
        lifted = [name for name in ("deadline", "budget") if name not in self.instance.enabled]
        but = f" but {' and '.join(lifted)}" if lifted else ""
        changes = [f"cluster: {{nodes: {nodes}}}"] if nodes > have else []
        changes += [f"--gpus {gpus}"] if search.gpus is not None else []
        changes += [f"--max-gpus {gpus}"] if search.max_gpus is not None else []
        return Relaxation(
            limit="gpus", field="cluster.nodes", have=have, to=nodes, unit="nodes",
            text=f"{gpus} GPUs ({nodes} nodes) are the fewest of this kind that hold a plan "
            f"within every limit{but}: {layout}",
            command=" and ".join(changes), layout=layout,
        )  # fmt: skip

    def _plan(self, kept: frozenset[str], goal: Goal = "time") -> Found:
        """Return the best plan under limits that a plan is known to keep.

        Raises
        ------
        OutOfTimeError
            Where time ran out before it was found again.
        """
        found = self.grounds.plan(kept, goal)
        if found is None:
            raise OutOfTimeError
        return found

    def _cost(self, step: int, held: int) -> tuple[float, float]:
        cost = cost_of(self.instance, step * TICK_S, [(held, self.instance.group)])
        return cost.wall_clock_s, cost.usd or 0.0

    def _with(self, field: str, value: float) -> Grounds:
        """Return the problem with another limit."""
        limits = self.instance.limits.model_copy(update={field: value})
        cost = self.instance.cost
        instance = replace(self.instance, limits=limits, cost=cost)
        return Grounds(instance, self.grounds.settings, self.grounds.clock)


def _within(others: frozenset[str]) -> str:
    """Name what the leanest plan keeps, money first: leaner ones may break it."""
    money = [name for name in ("budget", "deadline") if name in others]
    named = [*money, *(["the other limits"] if len(others) > len(money) else [])]
    return f" within {' and '.join(named)}" if named else ""


def _duration(seconds: float) -> str:
    """Write a duration in the reader's unit, rounded up: days or hours from two of them on."""
    for unit, size in (("d", DAY), ("h", HOUR)):
        if seconds >= LEAST_OF_UNIT * size:
            return f"{math.ceil(seconds / size * PERCENT) / PERCENT:g}{unit}"
    return f"{math.ceil(seconds)}s"


def _bubble(found: Found) -> float:
    s = found.shape
    idle = s["pp"] - 1
    return idle / (s["vpp"] * s["microbatches"] + idle)


def _share(
    limit: str, field: str, have: float, percent: int, found: Found, what: str, flag: str
) -> Relaxation:
    return Relaxation(
        limit=limit, field=field, have=have, to=percent / PERCENT, unit="share",
        text=f"{layout_of(found)} is a plan at {percent} %: {what}; {have:.1%} are allowed",
        command=f"{flag} {percent}%", layout=layout_of(found),
    )  # fmt: skip


_ONE_BY_ONE: dict[str, Callable[[Relaxer, frozenset[str]], Relaxation]] = {
    "memory": Relaxer.memory,
    "communication": Relaxer.communication,
    "bubble": Relaxer.bubble,
    "tp_within_node": Relaxer.tp_within_node,
    "max_stages": Relaxer.max_stages,
    "deadline": Relaxer.deadline,
    "budget": Relaxer.budget,
}
