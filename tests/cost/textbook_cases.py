"""Inputs of the 70B exercise and of the typical configurations, for the textbook tests."""

from __future__ import annotations

from typing import Any

from solver.cost.decision_tree import Typical
from solver.cost.textbook_inputs import TextbookInputs, read_inputs

Numbers = dict[str, dict[str, Any]]

HEADS = {4096: 32, 5120: 40, 8192: 64, 16384: 128}


def exercise(**layout: Any) -> Numbers:
    """70B on 8 nodes of 8 H100s, 4,194,304 tokens a step; fully sharded unless told otherwise."""
    return {
        "shape": {"parameters": 70_000_000_000, "layers": 80, "hidden": 8192, "heads": 64},
        "job": {"seq_len": 4096, "global_batch": 1024, "tokens": 100_000_000_000},
        "machine": {
            "gpu": "H100",
            "nodes": 8,
            "gpus_per_node": 8,
            "peak_flops": 989e12,
            "capacity_bytes": 80e9,
            "nvlink_bytes_per_s": 450e9,
            "inter_bytes_per_s": 50e9,
            "usd_per_gpu_hour": 2.5,
        },
        "layout": {"dp": 64, "recompute": "full"} | layout,
    }


def typical_inputs(row: Typical, micro_batches: int = 16, vpp: int = 1) -> TextbookInputs:
    """One row of the table at s = 4096, one sequence a micro-batch, full recomputation."""
    numbers = exercise(tp=row.tp, pp=row.pp, dp=row.dp, vpp=vpp)
    numbers["shape"] = {
        "parameters": row.parameters,
        "layers": row.layers,
        "hidden": row.hidden,
        "heads": HEADS[row.hidden],
    }
    numbers["machine"]["nodes"] = row.gpus // 8
    numbers["job"]["global_batch"] = micro_batches * row.dp
    return read_inputs(numbers)
