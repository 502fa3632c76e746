"""Where the frozen first layers of a model lie: how many layers of a stage are trained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..job.job import Job
from ..job.transformer import Transformer
from .shapes import Shapes
from .stages import FIRST, HEAVY, LAST, LIGHT, Stages
from .ticks import IntArray

BOTH_ENDS = 2
"""Stages of which none lies between others."""


@dataclass(frozen=True)
class LayerCounts:
    """Layers of each kind on one stage of each class, shape (N, 4)."""

    dense_layers: IntArray
    moe_layers: IntArray


def layers_with_backward(job: Job, shapes: Shapes, stages: Stages) -> LayerCounts:
    """Return the layers of each stage that have a backward pass: all but the frozen first ones.

    Stages of a class count as its last one, which holds the fewest frozen layers, and a stage that
    is priced without those before it as one without any: both err on the side of more.
    """
    first = 0 if job.finetune is None else job.finetune.frozen_layers
    if not first:
        return LayerCounts(stages.dense_layers, stages.moe_layers)
    interleaved = (shapes.vpp > 1)[:, None]
    frozen = np.where(
        interleaved, _interleaved(first, shapes, stages), first - _starts(job.transformer, stages)
    )
    # Where a row holds one stage alone, what lies before it is not known: none of it is frozen.
    known = (stages.count[:, FIRST] > 0)[:, None]
    frozen = np.clip(np.where(known, frozen, 0), 0, stages.layers)
    moe = job.transformer.moe
    if moe is None:
        return LayerCounts(stages.dense_layers - frozen, stages.moe_layers)
    # Each `every`-th layer is a mixture; leading dense ones lie on the first stage.
    mixtures = frozen // moe.every
    mixtures[:, FIRST] -= np.minimum(moe.first_dense, frozen[:, FIRST]) // moe.every
    return LayerCounts(stages.dense_layers - (frozen - mixtures), stages.moe_layers - mixtures)


def _starts(model: Transformer, stages: Stages) -> IntArray:
    """First layer of the last stage of each class, without interleaving."""
    layers, count = stages.layers, stages.count
    start = np.zeros_like(layers)
    start[:, LIGHT] = layers[:, FIRST] + np.maximum(count[:, LIGHT] - 1, 0) * layers[:, LIGHT]
    start[:, HEAVY] = layers[:, FIRST] + count[:, LIGHT] * layers[:, LIGHT]
    start[:, HEAVY] += np.maximum(count[:, HEAVY] - 1, 0) * layers[:, HEAVY]
    start[:, LAST] = model.layers - layers[:, LAST]
    return start


def _interleaved(first: int, shapes: Shapes, stages: Stages) -> IntArray:
    """Frozen layers of the last stage of each class: one chunk on every stage, round by round.

    An end that holds a layer less starts or finishes with an empty slot.
    """
    layers, pp, vpp = stages.layers, shapes.pp[:, None], shapes.vpp[:, None]
    full = np.where(pp > BOTH_ENDS, layers[:, HEAVY, None], layers[:, FIRST, None])
    empty = full - layers[:, FIRST, None]
    chunk = np.maximum(full // vpp, 1)
    rounds, rest = np.divmod(first + empty, chunk * pp)
    final = stages.index + np.maximum(stages.count, 1) - 1
    frozen = rounds * chunk + np.clip(rest - final * chunk, 0, chunk)
    frozen[:, FIRST] -= empty[:, 0]
    return np.asarray(frozen)
