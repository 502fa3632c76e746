"""Lower bounds of step and memory by the calibrated account: what no plan of a shape is under."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..job.search import Recompute
from .memory.peak import least_bytes_anywhere, least_bytes_of_each
from .parameters import trained
from .schedule import pipeline_grains, step_ticks
from .shapes import Shapes, Shardings
from .stage_times import least_layer_seconds
from .stages import FIRST, HEAVY, Stages, fullest_stage, split
from .ticks import MAX_TICKS, TICK_S, IntArray, grains, mebibytes

if TYPE_CHECKING:
    from .calibrated import Calibrated

FLOAT_NOISE = 1e-12
"""Relative error of a sum of floats in another order: a bound stays below by as much."""


def floor(model: Calibrated, shapes: Shapes) -> IntArray:
    """Bound the step from below by what the layers take on stages that are all alike; (N,).

    The slowest stage takes at least the mean, and the fill is the sum over all stages.
    """
    layers, core = model.layers(shapes)
    dense, moe = least_layer_seconds(model.job, model.machine, layers, model.kinds)
    whole = model.job.transformer
    there = whole.dense_layers * dense + (whole.layers - whole.dense_layers) * moe
    split_backward = model.profile.software.schedule == "zb-h1"  # part of the fill is spared
    fill = model.fill(shapes)
    pace = (shapes.microbatches - 1 / fill) / shapes.pp
    seconds = there[core] * (pace + (0.0 if split_backward else 1 / fill))
    least = model.slowdown(shapes) * seconds + model.step_overhead(shapes)
    ticks = np.minimum((1 - FLOAT_NOISE) * least / TICK_S, MAX_TICKS)
    return np.asarray(np.floor(ticks), dtype=np.int64)


def bounds(
    model: Calibrated, shapes: Shapes, capacity_mib: int | None, balanced: bool
) -> tuple[IntArray, IntArray]:
    """Bound step and memory from below: no data-parallel traffic, best sharding, least kind.

    Every term left out is at least zero, every term kept is at its least over the choices, and
    rounding is upwards on both sides, so the bound is admissible. The least kind is the fastest
    that may fit in ``capacity_mib``, if given. ``balanced`` bounds every way to spread the
    layers over plain stages: the slowest stage takes at least the mean, and some stage holds at
    least the mean number of layers; capacity does not count there.
    """
    stages = split(model.job.transformer, shapes.pp, shapes.vpp)
    kinds = model.kinds if capacity_mib is not None and not balanced else model.kinds[:1]
    times = model.stage_times(shapes, stages, kinds, both=False)
    need = _least_need(model, shapes, stages, model.kinds if len(kinds) > 1 else model.kinds[-1:])
    kind = _fastest_kind(model, need, capacity_mib)[..., None]
    base = np.take_along_axis(times.base, kind, axis=-1)[..., 0]
    spared = times.spared(shapes)
    column = (slice(None), None)
    pace, share = pipeline_grains(
        base, stages.count, model.fill(shapes)[column], shapes.microbatches[column], spared
    )
    least = np.ones((len(shapes), 1), np.int64)
    spread = Shardings(3 * least, least, least.astype(bool))
    parameters = trained(model.job, shapes, stages)
    update = model.update(parameters, shapes, spread)[..., 0]
    tail = grains(np.where(stages.count > 0, update + model.step_overhead(shapes)[:, None], 0.0))
    memory = need[..., -1].max(axis=-1)
    if balanced:
        plain = (shapes.vpp == 1)[:, None]
        mean, spared = (
            (part * stages.count).sum(axis=-1, keepdims=True) / shapes.pp[:, None]
            for part in (base, spared)
        )
        level, _ = pipeline_grains(
            mean, np.ones_like(stages.count[:, :1]), model.fill(shapes)[column],
            shapes.microbatches[column], spared,
        )  # fmt: skip
        overhead = grains(model.step_overhead(shapes))[:, None]
        pace, tail = np.where(plain, level - 1, pace), np.where(plain, overhead, tail)
        share = np.where(plain, np.maximum(share - shapes.pp[:, None], 0), share)
        memory = np.where(shapes.vpp == 1, _least_of_any_stage(model, shapes), memory)
    return step_ticks(pace, share, tail), memory


def _least_need(
    model: Calibrated, shapes: Shapes, stages: Stages, kinds: tuple[Recompute, ...]
) -> IntArray:
    """Bound the memory of each stage class under each kind, MiB, (N, 4, K); 0 for none."""
    need = least_bytes_of_each(model.job, model.profile, shapes, stages, kinds, model.offload)
    return mebibytes(np.where(stages.count[..., None] > 0, need, 0))


def _fastest_kind(model: Calibrated, need: IntArray, capacity_mib: int | None) -> IntArray:
    """Return the first kind that may fit, (N, 4): kinds are in order of time, fastest first."""
    if capacity_mib is None:
        return np.zeros(need.shape[:2], np.int64)
    fits = need <= capacity_mib
    if not model.search.recompute_by_stage:
        fits = np.broadcast_to(fits.all(axis=1, keepdims=True), fits.shape)
    return np.asarray(fits.argmax(axis=-1))


def _least_of_any_stage(model: Calibrated, shapes: Shapes) -> IntArray:
    """Bound the memory of the stage with most layers, wherever it is, MiB; shape (N,)."""
    stages = fullest_stage(model.job.transformer, shapes.pp)
    need = least_bytes_anywhere(
        model.job, model.profile, shapes, stages, model.kinds, model.offload
    )
    alone = shapes.pp == 1
    return mebibytes(np.where(alone, need[:, FIRST], need[:, [FIRST, HEAVY]].min(axis=-1)))
