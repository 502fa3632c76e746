"""From a decision to a plan: layout, batch, estimate, cost; and the second opinion on it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from topology.cluster import NodeGroup
from topology.placement import ORDERS

from ..checks import Facts, judge, step_from_stages
from ..cost.goodput import PARTS, Goodput
from ..cost.memory.items import NEVER_BYTES
from ..cost.tables import Choice, Tables
from ..cost.ticks import MIB, TICK_S
from ..estimate import Estimate
from ..job.job import Job
from ..plan import Batch, Cost, GoodputShare, Layout, Options, Plan
from .decision import Decision, column_of
from .instance import SECONDS_PER_HOUR, Instance
from .placing import place
from .pricing import Priced

FLOAT_NOISE = 1e-12
"""Relative error of sums of floats; the integers may exceed them by one rounding besides."""
MILLION = 1e6


class DisagreementError(RuntimeError):
    """The search and the second opinion differ: a fault of this program."""


def plans_of(instance: Instance, priced: Priced, decisions: Sequence[Decision]) -> list[Plan]:
    """Build plans of the search, in their order, and check them again without the solver.

    Raises
    ------
    DisagreementError
        Where step, memory or a limit differ from what the search used.
    """
    if not decisions:
        return []
    tables = instance.cost.tables(priced.shapes.take(np.array([d.row for d in decisions])))
    columns = (column_of(tables, i, d.zero, d.replicas) for i, d in enumerate(decisions))
    choices = [Choice(c, d.recompute) for c, d in zip(columns, decisions, strict=True)]
    plans = judged_plans(instance, tables, choices, decisions)
    for plan, decision in zip(plans, decisions, strict=True):
        broken = [c.id for c in plan.limits if not c.ok and instance.holds(c.id)]
        if broken:
            raise DisagreementError(f"the checks find {', '.join(broken)} broken in {decision}")
    return plans


def judged_plans(
    instance: Instance, tables: Tables, choices: Sequence[Choice], decisions: Sequence[Decision]
) -> list[Plan]:
    """Build a plan of each shape in ``tables``, every limit judged, kept or broken.

    Raises
    ------
    DisagreementError
        Where step or memory differ from the decision's.
    """
    estimates = instance.cost.estimates(tables, choices)
    both = zip(tables.shapes, estimates, decisions, strict=True)
    return [
        _judged(instance, degrees, estimate, decision, rank)
        for rank, (degrees, estimate, decision) in enumerate(both, 1)
    ]


def _judged(
    instance: Instance, degrees: dict[str, int], estimate: Estimate, decision: Decision, rank: int
) -> Plan:
    layout = layout_of(degrees, decision.zero, decision.replicas)
    batch = batch_of(instance.job, degrees)
    cost = cost_of(instance, estimate.time.step_s, [(degrees["held"], instance.group)])
    facts = Facts(
        instance.job, instance.group, instance.limits, layout, batch, estimate, cost,
        instance.search.schedule,
    )  # fmt: skip
    checks = judge(facts)
    second_opinion(decision.step, decision.memory, facts)
    kinds = [instance.cost.kinds[k] for k in decision.recompute]
    alike = len({s.recompute for s in estimate.stages}) == 1
    return Plan(
        rank=rank,
        gpus=degrees["gpus"],
        nodes=-(-degrees["gpus"] // instance.group.gpus_per_node),
        gpus_held=degrees["held"],
        layout=layout,
        placement=place(instance.group, layout),
        axes=decision.axes,
        batch=batch,
        recompute=kinds[0] if alike else "/".join(kinds),
        options=options_of(instance),
        estimate=estimate,
        cost=cost,
        limits=checks,
        price_kind=instance.group.price_kind,
    )


def options_of(instance: Instance) -> Options:
    """Return what the plans of an instance have in common."""
    search, profile = instance.search, getattr(instance.cost, "profile", None)
    return Options(
        precision=instance.job.recipe.precision,
        offload=search.offload,
        cp_comm=search.cp_comm,
        recompute_modules=profile.software.recompute_modules if profile else (),
        schedule=search.schedule,
    )


def batch_of(job: Job, degrees: dict[str, int]) -> Batch:
    """Return how a shape cuts the global batch."""
    return Batch(
        micro_batch=degrees["micro_batch"],
        microbatches=degrees["microbatches"],
        global_sequences=job.global_batch,
        global_tokens=job.step_tokens,
    )


def layout_of(degrees: dict[str, int], zero: int, replicas: int) -> Layout:
    """Return the layout of a shape's degrees."""
    return Layout(
        tp=degrees["tp"],
        sp=degrees["tp"] > 1,
        pp=degrees["pp"],
        vpp=degrees["vpp"],
        cp=degrees["cp"],
        ep=degrees["ep"],
        etp=degrees["etp"],
        dp=degrees["dp"],
        dp_shard=degrees["dp"] // replicas,
        dp_replicate=replicas,
        zero=zero,
        order=ORDERS[degrees["order"]],
    )


def cost_of(instance: Instance, step_s: float, held: Sequence[tuple[int, NodeGroup]]) -> Cost:
    """Return GPU-hours and USD of the run, or of one step where no tokens are given.

    ``held`` are the GPUs paid for in each node group.
    """
    job = instance.job
    steps = job.steps
    goodput, ticks = None, round(step_s / TICK_S)
    if instance.goodput is not None:
        nodes = sum(gpus // group.gpus_per_node for gpus, group in held)
        goodput = goodput_of(instance.goodput, nodes)
        # Rounded up to a tick as in the search, or a plan might miss the budget of its own cost.
        ticks = -(-ticks * round(goodput.slowdown * PARTS) // PARTS)
    wall = ticks * TICK_S * (steps or 1)
    hours = [gpus * wall / SECONDS_PER_HOUR for gpus, _ in held]
    usd: float | None = 0.0
    for spent, (_, group) in zip(hours, held, strict=True):
        price = group.price_usd_per_gpu_hour
        usd = None if usd is None or price is None else usd + spent * price
    tokens = job.step_tokens * (steps or 1)
    return Cost(
        steps=steps,
        wall_clock_s=wall,
        gpu_hours=sum(hours),
        usd=usd,
        usd_per_million_tokens=None if usd is None else usd / tokens * MILLION,
        goodput=goodput,
    )


def goodput_of(goodput: Goodput, nodes: int) -> GoodputShare:
    """Return what failures and checkpoints take of the time on so many nodes."""
    one = np.array(nodes)
    mttf, interval = float(goodput.mttf_s(one)), float(goodput.interval_s(one))
    return GoodputShare(
        share=float(goodput.share(one)),
        slowdown=int(goodput.slowdown(one)) / PARTS,
        mttf_s=mttf if math.isfinite(mttf) else None,
        checkpoint_bytes=goodput.checkpoint_bytes,
        write_s=float(goodput.write_s(one)),
        interval_s=interval if math.isfinite(interval) else None,
        restart_s=goodput.reliability.restart_s,
    )


def second_opinion(step_ticks: int, memory_mib: int, facts: Facts) -> None:
    """Hold step and memory that the search used against the estimate's own figures.

    Raises
    ------
    DisagreementError
        Where they differ by more than rounding.
    """
    again, step = step_from_stages(facts), step_ticks * TICK_S
    noise = FLOAT_NOISE * step
    if not again - noise <= step <= again + noise + 2 * TICK_S:
        raise DisagreementError(f"step {step!r} s against {again!r} s for {facts.layout}")
    if memory_mib >= NEVER_BYTES // MIB:
        return  # the node's memory is too small, which the limits say
    need = -(-max(s.memory.total_bytes for s in facts.estimate.stages) // MIB)
    if abs(need - memory_mib) > 1:
        raise DisagreementError(f"memory {memory_mib} MiB against {need} for {facts.layout}")
