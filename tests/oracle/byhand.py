"""Tiny questions with a cost model that can be worked out on paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from solver.cost.shapes import Shapes, Shardings
from solver.cost.stages import split
from solver.cost.tables import Tables
from solver.cost.ticks import GRAINS
from solver.job.job import Job, Limits
from solver.job.search import Recompute, Search
from solver.job.transformer import Transformer
from topology import ClusterSpec

from .legal import Question

TICKS = GRAINS
"""Figures are written in whole ticks."""


@dataclass
class ByHand:
    """A cost model whose tables are a rule that can be worked out on paper."""

    transformer: Transformer
    search: Search
    kinds: tuple[Recompute, ...] = ("none", "full")
    capacity_mib: int = 100

    def tables(self, shapes: Shapes) -> Tables:
        """100 ticks over the GPUs, a tenth more with recomputation; 96 MiB over GPUs, or half."""
        rows = len(shapes)
        stages = split(self.transformer, shapes.pp, shapes.vpp)
        there = stages.count[:, :, None, None] > 0
        slower, leaner = np.array([10, 11]), np.array([2, 1])
        gpus = shapes.gpus[:, None, None, None]
        one = np.ones((rows, 4, 2, 1), np.int64)
        zero = np.zeros((rows, 1), np.int64)
        return Tables(
            shapes,
            Shardings(zero, zero + 1, zero == 0),
            stages,
            pace=there * one * 10 * TICKS * slower[:, None] // gpus,
            share=0 * one,
            tail=there * one * TICKS * shapes.vpp[:, None, None, None],
            memory=there * one * 48 * leaner[:, None] // gpus,
            communication=np.ones((rows, 2, 1), np.int64) * (shapes.tp[:, None, None] - 1),
            compute=np.full(rows, 10),
            busiest=np.zeros(rows, np.int64),
        )


def transformer(layers: int) -> Transformer:
    """Two heads, so that tensor parallelism may go up to two."""
    return Transformer.model_validate(
        {"layers": layers, "hidden": 64, "heads": 2, "ffn": 128, "vocab": 100}
    )


def tiny(
    nodes: int = 1, per_node: int = 2, batch: int = 4, layers: int = 2, **parts: Any
) -> Question:
    """Ask for two layers of two heads on two GPUs, ZeRO 0 alone."""
    model = transformer(layers)
    spec = {"gpu": "h100", "nodes": nodes, "gpus_per_node": per_node, "price": 2.0}
    search = parts.pop("search", Search(zero=(0,), hsdp=False))
    job = Job(transformer=model, seq_len=8, global_batch=batch, tokens=parts.pop("tokens", None))
    cost = ByHand(model, search, **parts.pop("cost", {}))
    group = ClusterSpec.model_validate(spec).build().group
    limits = parts.pop("limits", Limits(max_bubble=1.0, max_comm=10.0))
    return Question(job, group, limits, search, cost)
