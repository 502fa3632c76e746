"""A plan as one flat row, and the columns that show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from topology.units import DAY

from ..job.schedules import SCHEDULES
from ..plan import Plan
from .blocks import Column
from .cells import count, dash_one, figures, gigabytes, percent, percent1, usd
from .layouts import layout_text

WINNER, ADVISED, CLOSE = "▶", "★", "≈"


def plan_record(plan: Plan) -> dict[str, Any]:
    """Return what csv and jsonl say about a plan; units in the names."""
    layout, batch, estimate, cost = plan.layout, plan.batch, plan.estimate, plan.cost
    worst = next(s.memory for s in estimate.stages if s.index == estimate.worst_stage)
    return {
        "rank": plan.rank,
        "gpus": plan.gpus,
        "nodes": plan.nodes,
        "gpus_held": plan.gpus_held,
        "tp": layout.tp,
        "pp": layout.pp,
        "vpp": layout.vpp,
        "cp": layout.cp,
        "ep": layout.ep,
        "etp": layout.etp,
        "dp": layout.dp,
        "dp_replicate": layout.dp_replicate,
        "dp_shard": layout.dp_shard,
        "zero": layout.zero,
        "micro_batch": batch.micro_batch,
        "microbatches": batch.microbatches,
        "recompute": plan.recompute,
        "order": layout.order,
        "layout": layout_text(plan),
        "peak_bytes": estimate.peak_bytes,
        "limit_bytes": worst.limit_bytes,
        "usable_bytes": worst.usable_bytes,
        "verdict": estimate.verdict,
        "oom_probability": worst.oom_probability,
        "schedule": plan.options.schedule,
        "bubble_fraction": estimate.bubble_fraction,
        "communication_ratio": estimate.communication_ratio,
        "step_s": estimate.time.step_s,
        "mfu": estimate.time.mfu,
        "hfu": estimate.time.hfu,
        "tokens_per_s_per_gpu": estimate.time.tokens_per_s_per_gpu,
        "wall_clock_s": cost.wall_clock_s,
        "gpu_hours": cost.gpu_hours,
        "usd": cost.usd,
        "usd_per_million_tokens": cost.usd_per_million_tokens,
        "axes": plan.axes,
        "on_front": plan.on_front,
        "price_kind": plan.price_kind,
        "goodput": None if cost.goodput is None else cost.goodput.share,
    }


def of_one_step(record: Mapping[str, Any]) -> bool:
    """Whether the run of a record is one step, as where its problem names no tokens."""
    trained = record["wall_clock_s"] * (record.get("goodput") or 1.0)
    return bool(trained < 1.5 * record["step_s"])


SPELLED = 4
"""Stages whose numbers are written out in a cell."""


def _recompute(plan: Plan) -> str:
    """Write the kind, and the layers of each stage that are recomputed in full besides."""
    counts = plan.recomputed_layers
    if counts is None:
        return plan.recompute
    written = "/".join(map(str, counts)) if len(counts) <= SPELLED else f"≤ {max(counts)}"
    return f"{plan.recompute} + full {written}"


def _experts(ep: int, etp: int) -> str:
    """Write EP, and ETP where experts are sliced: ``8·tp2``."""
    return dash_one(ep) if etp == 1 else f"{ep}·tp{etp}"


def plan_row(plan: Plan, mark: str) -> dict[str, Any]:
    """Return a plan's record with the cells that people read."""
    record = plan_record(plan)
    layout = plan.layout
    degrees = (layout.tp, layout.pp, layout.cp, layout.dp)
    factors = "×".join(str(d) for d in degrees if d > 1)
    return {
        **record,
        "mark": mark,
        "gpus_cell": f"{plan.gpus:,} (={factors})" if "×" in factors else f"{plan.gpus:,}",
        "recompute": _recompute(plan),
        "ep_cell": _experts(layout.ep, layout.etp),
        "shard_cell": f"{layout.dp_replicate} × {layout.dp_shard}",
        "memory_cell": f"{gigabytes(record['peak_bytes'])}/{gigabytes(record['limit_bytes'])}",
        "days": plan.cost.wall_clock_s / DAY,
    }


def _number(cell: str) -> str:
    """Return the GPUs of a cell without their factors, which stand in columns of their own."""
    return cell.partition(" ")[0]


def plan_columns(
    plans: Sequence[Plan], *, whole_run: bool, priced: bool, kinds: bool = False
) -> tuple[Column, ...]:
    """Return the columns; days and cost where there are tokens and a price, and its kind.

    The schedule is named where one of the plans has another one than 1F1B. A narrow table leaves
    out, in this order, bubble, communication, MFU, accumulation and memory.
    """
    late = any(plan.options.schedule != SCHEDULES[0] for plan in plans)
    schedule = [Column("schedule", "schedule", align="left")] if late else []
    columns = [
        Column("mark", "", align="left"),
        Column("rank", "#", count),
        Column("gpus_cell", "GPUs", align="left", brief=_number),
        Column("tp", "TP", dash_one, usual="–"),
        Column("pp", "PP", dash_one, usual="–"),
        Column("vpp", "VPP", dash_one, usual="–"),
        *schedule,
        Column("cp", "CP", dash_one, usual="–"),
        Column("ep_cell", "EP", usual="–"),
        Column("shard_cell", "DP×shard"),
        Column("zero", "ZeRO", count),
        Column("micro_batch", "µB", count),
        Column("microbatches", "GA", count, drop=4),
        Column("recompute", "recompute", align="left", short="recomp."),
        Column("memory_cell", "mem GB", drop=5),
        Column("bubble_fraction", "bubble", percent, drop=1),
        Column("communication_ratio", "comm", percent, drop=2),
        Column("step_s", "step s", figures),
        Column("mfu", "MFU", percent1, drop=3),
    ]
    if whole_run:
        columns.append(Column("days", "days", figures))
    if priced:
        columns.append(Column("usd", "cost $" if whole_run else "$ a step", usd))
    if kinds:
        columns.append(Column("price_kind", "price", align="left"))
    return tuple(columns)
