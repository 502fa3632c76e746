"""From a planning problem and a layout to the plain numbers of the textbook account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topology.cluster import NodeGroup
from topology.errors import Problem, UnsupportedError

from ...job.job import PlanningProblem
from ...job.schedules import SCHEDULES
from ..textbook_inputs import TextbookInputs, read_inputs

NOT_HERE = ("cp", "ep")
"""Axes that the textbook account does not have."""


def textbook_inputs(problem: PlanningProblem, layout: Mapping[str, Any]) -> TextbookInputs:
    """Fill the textbook account's inputs.

    Parameters
    ----------
    problem
        The problem; a preset's stated round parameter count replaces the exact one.
    layout
        Degrees as ``--layout`` names them; ``dp`` None fills the machine.

    Returns
    -------
    The checked inputs.

    Raises
    ------
    InputError
        For a layout that is impossible.
    UnsupportedError
        For context or expert parallelism and schedules but 1F1B, which the account does not have,
        and for a mixture of experts.
    """
    if problem.job.transformer.moe is not None:
        message = "the textbook account knows dense models only."
        hint = "Use `shardplan check` with the calibrated model for a mixture of experts."
        place = problem.positions.get("model", (0, 0))
        raise UnsupportedError(Problem(problem.path, *place, "model", "SP115", message, hint))
    used = [axis for axis in NOT_HERE if layout.get(axis, 1) > 1]
    if used:
        raise UnsupportedError(
            *(
                Problem(
                    "--layout", 0, 0, axis, "SP115",
                    f"{layout[axis]}: the textbook account has no {axis.upper()} axis.",
                    f"Use {axis}=1, or `shardplan check` with the calibrated model.",
                )
                for axis in used
            )
        )  # fmt: skip
    if layout.get("schedule") not in (None, SCHEDULES[0]):
        message = f"{layout['schedule']}: the textbook account knows 1F1B only."
        hint = "Leave it out, or use `shardplan check` with the calibrated model."
        raise UnsupportedError(Problem("--layout", 0, 0, "schedule", "SP115", message, hint))
    return read_inputs(
        {
            "shape": _shape(problem),
            "job": {
                "seq_len": problem.job.seq_len,
                "global_batch": problem.job.global_batch,
                "tokens": problem.job.tokens,
                "mfu": problem.account.mfu,
                "charge_recompute": problem.account.charge_recompute,
            },
            "machine": _machine(problem.cluster.group),
            "layout": _layout(layout, problem.cluster.gpus),
            "limits": {
                "mem_headroom": problem.limits.mem_headroom,
                "max_bubble": min(problem.limits.max_bubble, _BELOW_ONE),
                "max_comm": problem.limits.max_comm,
            },
        },
        "--layout",
    )


_BELOW_ONE = 1 - 1e-9
"""The account takes shares below 1: a bubble of 100 % would be a pipeline that never works."""


def _shape(problem: PlanningProblem) -> dict[str, Any]:
    model = problem.job.transformer
    counted = model.parameters()
    return {
        "name": model.name,
        "parameters": model.stated_parameters or counted.total,
        "layers": model.layers,
        "hidden": model.hidden,
        "heads": model.heads,
    }


def _machine(group: NodeGroup) -> dict[str, Any]:
    peaks = group.gpu.peak_flops
    return {
        "gpu": group.gpu.name,
        "nodes": group.nodes,
        "gpus_per_node": group.gpus_per_node,
        "nvlink_domain": max(group.nvlink_domain, group.gpus_per_node),
        "peak_flops": peaks.get("bf16") or peaks["fp16"],
        "capacity_bytes": float(group.gpu.memory_bytes),
        "nvlink_bytes_per_s": group.nvlink_bytes_per_s or group.gpu.pcie_bytes_per_s,
        "inter_bytes_per_s": group.inter_bytes_per_s,
        "usd_per_gpu_hour": group.price_usd_per_gpu_hour,
    }


def _layout(layout: Mapping[str, Any], gpus: int) -> dict[str, Any]:
    kept = ("tp", "pp", "vpp", "dp", "zero", "micro_batch", "recompute")
    values = {key: layout[key] for key in kept if key in layout}
    if values.get("dp") is None:
        values["dp"] = max(gpus // (values.get("tp", 1) * values.get("pp", 1)), 1)
    replicas = layout.get("dp_replicate", 1)
    # What does not divide is left for the account's own check, which names both numbers.
    if replicas > 1:
        values["dp_shard"] = max(values["dp"] // replicas, 1)
    return values
