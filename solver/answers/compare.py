"""Two plans side by side: where time and memory differ."""

from __future__ import annotations

import math
from collections.abc import Iterator

from topology.units import show_bytes, show_seconds

from ..plan import Plan
from ..report.cells import axis_name
from .outputs import Comparison, Difference

NOISE = 1e-9
"""Figures nearer than this, relative and in their unit, differ by roundings of floats only."""

SMALL = 0.001
"""Parts that differ by less than a thousandth of the step are not worth a word."""


def parts(plan: Plan) -> dict[str, float]:
    """Return the parts of a step in seconds."""
    time = plan.estimate.time
    named = {
        "compute": time.compute_s,
        "recomputation": time.recompute_s,
        "bubble": time.bubble_s,
        "optimizer": time.optimizer_s,
        "overhead": time.overhead_s,
    }
    return named | {f"exposed {axis_name(a)}": t.exposed_s for a, t in time.communication.items()}


def memory_parts(plan: Plan) -> dict[str, float]:
    """Return the items of the worst stage in bytes."""
    worst = max(plan.estimate.stages, key=lambda stage: stage.memory.fill).memory
    names = ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "reserve")
    return {name: getattr(worst, f"{name}_bytes") for name in names}


def differences(one: Plan, other: Plan) -> Iterator[Difference]:
    """Yield every figure of two plans that differs."""
    pairs = [
        ("step", "s", one.estimate.time.step_s, other.estimate.time.step_s),
        ("peak memory", "bytes", one.estimate.peak_bytes, other.estimate.peak_bytes),
        ("GPUs", "", float(one.gpus), float(other.gpus)),
        ("GPU-hours", "h", one.cost.gpu_hours, other.cost.gpu_hours),
        ("wall clock", "s", one.cost.wall_clock_s, other.cost.wall_clock_s),
    ]
    if one.cost.usd is not None and other.cost.usd is not None:
        pairs.append(("cost", "USD", one.cost.usd, other.cost.usd))
    pairs += [
        ("bubble", "share", one.estimate.bubble_fraction, other.estimate.bubble_fraction),
        ("communication over compute", "share",
         one.estimate.communication_ratio, other.estimate.communication_ratio),
    ]  # fmt: skip
    for unit, of in (("s", parts), ("bytes", memory_parts)):
        left, right = of(one), of(other)
        pairs += [(n, unit, left.get(n, 0.0), right.get(n, 0.0)) for n in {**left, **right}]
    for name, unit, left_value, right_value in pairs:
        if not math.isclose(left_value, right_value, rel_tol=NOISE, abs_tol=NOISE):
            yield Difference(name=name, unit=unit, one=left_value, other=right_value)


def why_slower(plan: Plan, best: Plan) -> str:
    """Say which parts of the step make a plan slower than the best one."""
    mine, theirs = parts(plan), parts(best)
    step, least = plan.estimate.time.step_s, best.estimate.time.step_s
    more = {name: mine[name] - theirs.get(name, 0.0) for name in mine}
    worth = [n for n in sorted(more, key=lambda n: -more[n]) if more[n] > SMALL * step][:2]
    named = " and ".join(f"{show_seconds(more[n])} more {n}" for n in worth)
    gap = step - least
    if plan.gpus != best.gpus:
        return f"{plan.gpus:,} GPUs instead of {best.gpus:,}: {show_seconds(abs(gap))} a step " + (
            "slower" if gap > 0 else "faster"
        )
    if gap < 0:
        return f"{show_seconds(-gap)} faster"
    if gap == 0:
        return "as fast"
    return f"{show_seconds(gap)} slower" + (f": {named}" if named else "")


def compare(asked: Plan, best: Plan) -> Comparison:
    """Hold a plan against the best one."""
    broken = tuple(limit for limit in asked.limits if not limit.ok)
    words = [
        f"it breaks {limit.id}: {_amount(limit.value, limit.unit)} against "
        f"{_amount(limit.limit, limit.unit)} allowed"
        for limit in broken
    ]
    words.append(why_slower(asked, best))
    return Comparison(
        asked=asked,
        best=best,
        broken=tuple(limit.id for limit in broken),
        differences=tuple(differences(asked, best)),
        why="; ".join(words),
    )


def _amount(value: float, unit: str) -> str:
    if unit == "bytes":
        return show_bytes(value)
    if unit == "seconds":
        return show_seconds(value)
    return f"{value:.1%}" if unit == "ratio" else f"{value:,.0f} {unit}".strip()
