"""What each stage of a pipeline may hold and recompute in any plan that is fast enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..cost.memory.peak import least_bytes_anywhere
from ..cost.schedule import pipeline_grains
from ..cost.stage_options import Position, StageOptions
from ..cost.stages import (
    CLASSES,
    FIRST,
    HEAVY,
    LAST,
    Stages,
    dense_layers,
)
from ..cost.ticks import GRAINS, BoolArray, IntArray, mebibytes
from .pipelines import Pipeline, even_layers

FEW = 2
"""Layers more or less than evenly that a stage holds in a first try."""


def windows(pipeline: Pipeline, at_most: int) -> list[tuple[int, ...]] | None:
    """Return the layers that each stage may hold in any split of at most ``at_most`` ticks.

    A stage of l layers sets a pace of at least its own, and filling the pipeline takes every
    layer's time at its fastest, wherever it lies. None where no split is possible.
    """
    even = even_layers(pipeline)
    if even is not None:
        return [(count,) for count in even]
    job = pipeline.instances[0].job
    model, most = job.transformer, job.transformer.layers
    counts = np.arange(1, most - pipeline.stages + 2)
    period = model.moe.every if model.moe is not None else 1
    leading = model.moe.first_dense if model.moe is not None else 0
    counts = counts[counts % period == 0]
    bounds = [_Bounds.of(pipeline, block[0], counts) for _, block in pipeline.blocks()]
    fill = min(b.layer for b in bounds) * max(most - leading - period * pipeline.stages, 0)
    fill += min(b.stage for b in bounds) * pipeline.stages
    able: list[IntArray] = []
    for (instance, block), bound in zip(pipeline.blocks(), bounds, strict=True):
        for stage in block:
            kind = Position(stage, pipeline.stages, ()).stage
            keep = bound.pace[:, kind] + fill <= at_most * GRAINS
            if instance.holds("memory"):
                keep &= bound.memory[:, kind] <= instance.cost.capacity_mib
            if stage == 0:
                keep &= counts >= min(leading, most)
            able.append(counts[keep])
    if not all(len(a) for a in able):
        return None
    top = sum(int(a[-1]) for a in able)
    if top < most:
        return None
    return [tuple(int(n) for n in a if n >= most - (top - a[-1])) for a in able]


def near(layers: Sequence[tuple[int, ...]], total: int) -> list[tuple[int, ...]]:
    """Narrow each window to a few layers around its share of all, by the most that it may hold."""
    most = sum(window[-1] for window in layers)
    return [
        tuple(n for n in window if abs(n - window[-1] * total / most) <= FEW) for window in layers
    ]


@dataclass(frozen=True)
class _Bounds:
    """What a stage takes at least, by its layers; arrays (counts, 4).

    Attributes
    ----------
    pace, memory
        Grains of the step where it is the slowest, and MiB. A middle stage counts as the last but
        one in what it holds.
    layer, stage
        Grains that a layer, and a middle stage of the fewest layers, add to the fill.
    """

    pace: IntArray
    memory: IntArray
    layer: int
    stage: int

    @staticmethod
    def of(pipeline: Pipeline, stage: int, counts: IntArray) -> _Bounds:
        model = pipeline.model(stage)
        layers = np.repeat(counts[:, None], CLASSES, 1)
        dense = dense_layers(model.job.transformer, layers)
        one, alone = np.ones_like(layers), pipeline.stages == 1
        which = np.broadcast_to(np.arange(CLASSES), layers.shape)
        stages = Stages(
            dense, layers - dense, one, (pipeline.stages - 1) * (which != FIRST),
            which == FIRST, which == (FIRST if alone else LAST), 0 * one,
        )  # fmt: skip
        shapes = pipeline.shape.take(np.zeros(len(counts), np.int64))
        times = model.stage_times(shapes, stages, model.kinds[:1])
        entry = (slice(None), None)
        pace, share = pipeline_grains(
            times.base[..., 0], one, model.fill(shapes)[entry], shapes.microbatches[entry],
            times.spared(shapes),
        )  # fmt: skip
        need = mebibytes(
            least_bytes_anywhere(model.job, model.profile, shapes, stages, model.kinds)
        )
        several = len(counts) > 1
        step = (
            int(share[1, HEAVY] - share[0, HEAVY]) // int(counts[1] - counts[0]) if several else 0
        )
        return _Bounds(pace, need, max(step - 1, 0), int(share[0, HEAVY]) - 1)


def thinned(
    pipeline: Pipeline, options: Sequence[StageOptions], at_most: int
) -> list[StageOptions]:
    """Leave out alternatives that no best split has.

    Too slow or too large for the limits; or another one of as many layers and the same kind is no
    worse in anything and recomputes no more.
    """
    kept = []
    for instance, found in zip(pipeline.instances, options, strict=True):
        able = found.pace + found.share + found.tail <= at_most * GRAINS
        if instance.holds("memory"):
            able &= found.memory <= instance.cost.capacity_mib
        some = found.take(able)
        kept.append(some.take(~_dominated(some)))
    return kept


def _dominated(options: StageOptions) -> BoolArray:
    """Mark alternatives that one with a layer less recomputed makes needless.

    What recomputing one layer more does not lower, recomputing several more does not either.
    """
    order = np.lexsort((options.recomputed, options.kind, options.layers))
    worse = np.ones(max(len(order) - 1, 0), bool)
    for name in ("pace", "share", "tail", "sent"):
        values = getattr(options, name)[order]
        worse &= values[:-1] <= values[1:]
    for name in ("layers", "kind"):
        values = getattr(options, name)[order]
        worse &= values[:-1] == values[1:]
    marked = np.zeros(len(options), bool)
    marked[order[1:][worse]] = True
    return marked
