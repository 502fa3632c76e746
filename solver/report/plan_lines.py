"""What is said of one plan, line by line: memory, step, links, layers."""

from __future__ import annotations

from typing import Any

from topology.units import show_bandwidth, show_bytes, show_seconds

from ..plan import Block, PlacedAxis, Plan
from .cells import axis_name, chance, gigabytes
from .machine import LEVEL_NAMES

_SPELLED = 3
"""Ranks of a group that are written out."""

INVISIBLE = 1e-5
"""Parts of a step below this share are roundings of the search's integers."""


def layers_lines(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Write layers and recomputed layers of each stage, where they were chosen one by one."""
    found = []
    if plan.layout.stage_layers is not None:
        found.append(("Layers", "/".join(map(str, plan.layout.stage_layers))))
    if plan.recomputed_layers is not None:
        found.append(("Recomputed", f"in full {'/'.join(map(str, plan.recomputed_layers))} layers"))
    return tuple(found)


def memory_line(plan: Plan) -> str:
    """Write the worst stage's memory as a sum."""
    estimate = plan.estimate
    memory = next(s.memory for s in estimate.stages if s.index == estimate.worst_stage)
    names = (
        "weights", "gradients", "optimizer", "activations", "logits", "buffers", "reserve",
    )  # fmt: skip
    parts = [(name, getattr(memory, f"{name}_bytes")) for name in names]
    total = " + ".join(f"{name} {gigabytes(size)}" for name, size in parts if size > 0)
    return (
        f"{total} = {gigabytes(memory.total_bytes)} GB on stage {estimate.worst_stage}; limit "
        f"{show_bytes(memory.limit_bytes)} of {show_bytes(memory.usable_bytes)}: {memory.verdict}"
        f"{_chance(memory.oom_probability)}{_host(estimate.host_bytes_per_node)}"
    )


def _host(size: float) -> str:
    """Write what the fullest node keeps outside its GPUs, if anything."""
    return f"; on the host {show_bytes(size)} a node" if size else ""


def _chance(probability: float | None) -> str:
    """Write the chance of running out, where it is known."""
    return "" if probability is None else f", chance of running out {chance(probability)}"


def links_line(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Write the worst link and the ranks of each axis; nothing on one GPU."""
    if plan.placement is None:
        return tuple((f"Stages {_run(b)}", _block_line(b)) for b in plan.blocks)
    shown = [
        f"{axis_name(a.axis)} {a.ranks} (ranks {_ranks(a)}) over "
        f"{LEVEL_NAMES[a.level]}, {show_bandwidth(a.bytes_per_s)}"
        for a in plan.placement.axes
    ]
    where = ", ".join(f"{a}–{b}" if a < b else f"{a}" for a, b in plan.placement.nodes)
    order = f"order {plan.placement.order} on node{'s' * (plan.nodes > 1)} {where}"
    return (("Links", " · ".join([*shown, order])),) if shown else ()


def _run(block: Block) -> str:
    first, last = block.first_stage, block.last_stage
    return f"{first}–{last}" if first < last else f"{first}"


def _block_line(block: Block) -> str:
    price = block.usd_per_gpu_hour
    usd = "" if price is None else f" at ${price:,.2f} per GPU-hour"
    nodes = f"{block.nodes} node{'s' * (block.nodes > 1)}"
    return f"{block.gpus} GPUs on {nodes} of {block.gpu}{usd}"


def _ranks(axis: PlacedAxis) -> str:
    """Write rank 0's group: ``0–7``, ``0, 8, 16`` or ``0, 8 … 504``."""
    last = (axis.ranks - 1) * axis.stride
    if axis.stride == 1:
        return f"0–{last}"
    if axis.ranks <= _SPELLED:
        return ", ".join(str(member * axis.stride) for member in range(axis.ranks))
    return f"0, {axis.stride} … {last}"


def step_line(plan: Plan) -> str:
    """Write the step as the sum of its parts, hidden communication beside it."""
    time = plan.estimate.time
    visible = time.step_s * INVISIBLE
    parts = [
        ("compute", time.compute_s),
        ("recomputation", time.recompute_s),
        ("bubble", time.bubble_s),
        *((f"exposed {axis_name(axis)}", part.exposed_s) for axis, part in _used(plan)),
        ("optimizer", time.optimizer_s),
        ("overhead", time.overhead_s),
    ]
    total = " + ".join(f"{name} {show_seconds(part)}" for name, part in parts if part > visible)
    hidden = [
        f"{axis_name(axis)} {show_seconds(part.total_s - part.exposed_s)}"
        for axis, part in _used(plan)
        if part.total_s > part.exposed_s
    ]
    behind = f"; hidden behind compute: {', '.join(hidden)}" if hidden else ""
    return f"{total} = {show_seconds(time.step_s)}{behind}"


def _used(plan: Plan) -> list[tuple[str, Any]]:
    return [(axis, part) for axis, part in plan.estimate.time.communication.items() if part.total_s]
