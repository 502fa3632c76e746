"""Every limit judged again, from a plan's own figures: no solver, no tables.

Each function is the twin of the limit of the same name in ``search.cpsat.limits``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from topology.cluster import NodeGroup

from .cost.ticks import TICK_S
from .estimate import Estimate
from .job.job import Job, Limits
from .plan import Batch, Cost, Layout, LimitCheck

RELATIVE_SLACK = 1e-9
"""A value equal to its limit keeps it, whatever the last bit of a float says."""


@dataclass(frozen=True)
class Facts:
    """A plan and the problem that it answers."""

    job: Job
    group: NodeGroup
    limits: Limits
    layout: Layout
    batch: Batch
    estimate: Estimate
    cost: Cost
    schedule: str = "1f1b"


Check = Callable[[Facts], LimitCheck | None]


def _check(name: str, value: float, limit: float, unit: str, text: str) -> LimitCheck:
    return LimitCheck(
        id=name,
        ok=value <= limit * (1 + RELATIVE_SLACK),
        value=value,
        limit=limit,
        slack=limit - value,
        unit=unit,
        text=text,
    )


def memory(f: Facts) -> LimitCheck:
    """Need of the worst GPU against usable memory less the headroom.

    The need is the estimate's, in bytes; the limit is in whole MiB, so that the search, which
    rounds needs up to MiB, keeps it exactly where this does.
    Where more is offloaded than a node's memory holds, that is what breaks the limit.
    """
    host, room = f.estimate.host_bytes_per_node, f.group.host_bytes
    if room is not None and host > room * (1 + RELATIVE_SLACK):
        return _check("memory", host, room, "bytes", "memory of a node outside its GPUs")
    worst = max(f.estimate.stages, key=lambda s: s.memory.fill)
    need = worst.memory.total_bytes
    headroom = f"{f.limits.mem_headroom:.0%} headroom"
    where = f"stage {worst.index}"
    return _check("memory", need, worst.memory.limit_bytes, "bytes", f"{where}, {headroom}")


def communication(f: Facts) -> LimitCheck:
    """Communication over compute on the busiest stage."""
    metric = f.estimate.communication_metric
    return _check(
        "communication", f.estimate.communication_ratio, f.limits.max_comm, "ratio",
        f"{metric} communication over compute without recomputation",
    )  # fmt: skip


def bubble(f: Facts) -> LimitCheck:
    """(p - 1) / (v m + p - 1), or ZB-H1's by the model's FLOPs."""
    idle, busy = float(f.layout.pp - 1), float(f.layout.vpp * f.batch.microbatches)
    text = "(p - 1) / (v m + p - 1)"
    if f.schedule == "zb-h1":
        each = f.job.pass_flops
        total, least = each.forward + each.inputs + each.weights, min(each.forward, each.weights)
        # In whole parts of 10,000, as the search counts.
        weights, least = (round(10_000 * n / total) / 10_000 for n in (each.weights, least))
        idle = idle * (1 - weights) - (min(f.batch.microbatches, f.layout.pp) - 1) * least
        text = "(p - 1)(F + B) - (min(m, p) - 1) W idle, over m (F + B + W) and that"
    limit = round(f.limits.max_bubble * 10_000) / 10_000
    return _check("bubble", idle / (busy + idle), limit, "ratio", text)


def tp_within_node(f: Facts) -> LimitCheck | None:
    """Nodes (or NVLink domains) that a tensor-parallel group touches."""
    if not f.limits.tp_within_node:
        return None
    room, tp = max(f.group.nvlink_domain, f.group.gpus_per_node), f.layout.tp
    domains = 1 if tp <= room and room % tp == 0 else max(-(-tp // room), 2)
    text = f"TP {tp} in domains of {room} GPUs"
    return _check("tp_within_node", domains, 1, "domains", text)


def max_stages(f: Facts) -> LimitCheck:
    """Pipeline stages."""
    return _check("max_stages", f.layout.pp, f.limits.max_stages, "stages", "pipeline stages")


def deadline(f: Facts) -> LimitCheck | None:
    """Wall-clock time of the run."""
    if f.limits.deadline_s is None or f.cost.steps is None:
        return None
    return _check(
        "deadline", f.cost.wall_clock_s, f.limits.deadline_s + TICK_S, "seconds", "whole run"
    )


def budget(f: Facts) -> LimitCheck | None:
    """Cost of the run."""
    if f.limits.budget_usd is None or f.cost.usd is None or f.cost.steps is None:
        return None
    return _check("budget", f.cost.usd, f.limits.budget_usd, "USD", "whole run")


def batch_divisibility(f: Facts) -> LimitCheck:
    """Sequences of the global batch that micro-batch × micro-batches × DP leave over."""
    cut = f.layout.dp * f.batch.micro_batch * f.batch.microbatches
    left = abs(f.job.global_batch - cut)
    text = f"{f.job.global_batch} sequences in DP {f.layout.dp} x {f.batch.micro_batch}"
    return _check("batch_divisibility", left, 0, "sequences", text)


CHECKS: tuple[Check, ...] = (
    memory,
    communication,
    bubble,
    tp_within_node,
    max_stages,
    deadline,
    budget,
    batch_divisibility,
)
"""One check for each limit of the CP-SAT model."""


def judge(facts: Facts) -> tuple[LimitCheck, ...]:
    """Run every check that applies."""
    return tuple(result for check in CHECKS if (result := check(facts)) is not None)


def step_from_stages(facts: Facts) -> float:
    """Recompute the step from the stages' own times, in floats.

    m · slowest + (sum - slowest) / v + the longest drain, where the sum is without what a schedule
    spares: an independent twin of the search's integers, equal to them within one tick a rounding.
    """
    stages, microbatches, vpp = facts.estimate.stages, facts.batch.microbatches, facts.layout.vpp
    fills = [(s, s.microbatch_s / vpp - s.spared_s) for s in stages]
    pace = max(microbatches * s.microbatch_s - fill for s, fill in fills)
    drain = max(s.drain_s for s in stages)
    return pace + sum(s.count * fill for s, fill in fills) + drain
