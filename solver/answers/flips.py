"""When the answer changes: the nearest looked-at value at which another plan is best."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

from topology.errors import InputError

from ..job.job import PlanningProblem
from ..plan import Plan
from ..report.layouts import layout_values
from ..search.search import solve
from .followed import Parameter, parameters
from .outputs import Flip

CLOSE = 1e-3
"""Continuous figures are found to a thousandth."""

SAME_PLAN = (
    "as much on each GPU: TP, PP, VPP, CP, EP, ETP, ZeRO, HSDP or not, micro-batch, recomputation, "
    "order of ranks and schedule, with layers spread evenly; DP, gradient accumulation and the "
    "number of GPUs in use follow"
)
"""What counts as the same plan on another batch or number of GPUs."""

USUAL = (1, "tp-cp-ep-dp-pp", "1f1b")
"""What a layout is written without."""


def layout_key(plan: Plan) -> str:
    """Write what makes a plan the same plan on another batch or number of GPUs: all but DP."""
    values = layout_values(plan)
    shown = (
        "tp", "pp", "vpp", "cp", "ep", "etp", "zero", "micro_batch", "recompute", "order",
        "schedule",
    )  # fmt: skip
    hybrid = {"hsdp": "yes"} if plan.layout.dp_replicate > 1 else {}
    kept = {name: values[name] for name in shown} | hybrid
    return ",".join(f"{n}={v}" for n, v in kept.items() if n == "zero" or v not in USUAL)


def flips(problem: PlanningProblem) -> tuple[Flip, ...]:
    """Follow each figure both ways until another plan is best, or as far as is looked."""
    return tuple(flip for one in parameters(problem) for flip in _both_ways(problem, one))


def _both_ways(problem: PlanningProblem, one: Parameter) -> Iterator[Flip]:
    @cache
    def best(value: float) -> str:
        """Return the best layout at a value; empty where nothing fits."""
        return layout_at(problem, one, value)

    today = best(one.now)
    for path in filter(None, (one.down, one.up)):
        # Best plans come and go as a figure grows, so each value is looked at in turn.
        changed = next((i for i, value in enumerate(path) if best(value) != today), None)
        if changed is None:
            last, first = path[-1], None
        else:
            last, first = path[changed - 1] if changed else one.now, path[changed]
            if one.continuous:
                last, first = _bisect(best, today, last, first)
        yield Flip(
            parameter=one.name, unit=one.unit, now=one.now, last=last, first=first,
            before=today, after=today if first is None else best(first), looked_at=one.every,
        )  # fmt: skip


def layout_at(problem: PlanningProblem, one: Parameter, value: float) -> str:
    """Return the best layout with another value of a figure; empty where nothing fits."""
    found = best_at(one.change(problem, value))
    return "" if found is None else layout_key(found)


def best_at(problem: PlanningProblem) -> Plan | None:
    """Return the best plan of a changed problem, layers spread by rule; None where nothing fits."""
    even = problem.search.model_copy(update={"stages": "even"})
    try:
        result = solve(replace(problem, search=even), top=1, explain=False)
    except InputError:  # such a problem cannot be, e.g. its steps are too long
        return None
    return result.plans[0] if result.plans else None


def _bisect(
    best: Callable[[float], str], today: str, last: float, first: float
) -> tuple[float, float]:
    """Bring the last value of today's layout and the first of another one together."""
    while abs(first - last) > CLOSE * abs(last) * (1 + CLOSE):
        middle = (last + first) / 2
        if best(middle) == today:
            last = middle
        else:
            first = middle
    return last, first
