"""How layers fall on pipeline stages, as four stage classes with a count each.

Stages of one class are alike but for the micro-batches that they hold; a class stands at its
earliest stage, which holds most. The rule: ``ceil(L / p)`` layers a stage; where L does not divide,
the lighter stages are the last (it has the output head), then the first (it has the embedding and
holds most micro-batches), then the earliest of the middle.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ..job.transformer import Transformer
from .ticks import BoolArray, IntArray

FIRST, LIGHT, HEAVY, LAST = range(4)
CLASSES = 4
BOTH_ENDS = 2
"""The lighter stages that interleaving allows: the first and the last."""
RECOMPUTE_CLASS = (0, 1, 1, 2)
"""The recompute choice that a stage class follows: first, middle, last."""


@dataclass(frozen=True)
class Stages:
    """Stage classes of N shapes; arrays of shape (N, 4) in the order first, light, heavy, last.

    Attributes
    ----------
    dense_layers, moe_layers
        Layers of each kind on one stage of the class.
    count
        Stages in the class; 0 where it is empty.
    index
        Earliest stage of the class, from 0.
    has_embedding, has_head
        Whether the class holds the input embedding, the output head and loss.
    recomputed
        Layers of one stage, dense ones first, that are recomputed in full whatever the kind.
    """

    dense_layers: IntArray
    moe_layers: IntArray
    count: IntArray
    index: IntArray
    has_embedding: BoolArray
    has_head: BoolArray
    recomputed: IntArray

    @property
    def recomputed_dense(self) -> IntArray:
        """Dense layers among the recomputed, shape (N, 4)."""
        return np.minimum(self.recomputed, self.dense_layers)

    @property
    def recomputed_moe(self) -> IntArray:
        """Mixture layers among the recomputed, shape (N, 4)."""
        return self.recomputed - self.recomputed_dense

    def take(self, rows: IntArray | BoolArray | slice) -> Stages:
        """Return the chosen shapes."""
        return Stages(*(getattr(self, f.name)[rows] for f in fields(self)))

    @property
    def pipelined(self) -> BoolArray:
        """Whether the stage has a neighbour to send to, shape (N, 4)."""
        return ~(self.has_embedding & self.has_head)

    @property
    def layers(self) -> IntArray:
        """Layers on one stage of each class, shape (N, 4)."""
        return self.dense_layers + self.moe_layers


def lighter_stages(layers: int, pp: IntArray) -> IntArray:
    """Return how many of the ``pp`` stages have one layer less than the others."""
    return -layers % pp


def interleaves(transformer: Transformer, pp: IntArray, vpp: IntArray) -> BoolArray:
    """Whether ``vpp`` virtual stages divide the layers.

    Each virtual stage has the same number of layers, but for one layer less at either end (the
    embedding and the loss then count as layers, as Megatron-LM's
    ``--account-for-embedding-in-pipeline-split`` does), so that an end may hold no layer at all.
    The last may lack another one where it predicts tokens further ahead: that counts as a layer.
    """
    lighter = lighter_stages(transformer.layers, pp)
    heavy = (transformer.layers + lighter) // pp
    most = BOTH_ENDS + (transformer.mtp_layers > 0)
    return np.asarray((vpp == 1) | ((lighter <= most) & (heavy % vpp == 0)))


def split(transformer: Transformer, pp: IntArray, vpp: IntArray) -> Stages:
    """Place the layers of ``transformer`` on ``pp`` stages of ``vpp`` virtual stages each."""
    lighter = lighter_stages(transformer.layers, pp)
    heavy = (transformer.layers + lighter) // pp
    predicts = (vpp > 1) & (lighter > BOTH_ENDS)  # only where `interleaves` allows it
    lights = np.maximum(lighter - BOTH_ENDS, 0) * (pp > 1) * ~predicts
    last = heavy - (lighter >= 1) - predicts
    return place(transformer, pp, (heavy - (lighter >= BOTH_ENDS), heavy, last), lights)


def layers_by_rule(transformer: Transformer, pp: int, vpp: int) -> tuple[int, ...]:
    """Return the layers of each of ``pp`` stages as ``split`` places them."""
    stages = split(transformer, np.array([pp]), np.array([vpp]))
    by_class = zip(stages.layers[0].tolist(), stages.count[0].tolist(), strict=True)
    return tuple(layers for layers, count in by_class for _ in range(count))


def place(
    transformer: Transformer, pp: IntArray, counts: tuple[IntArray, IntArray, IntArray],
    lights: IntArray,
) -> Stages:  # fmt: skip
    """Build stage classes from the layers of a first, a heavy middle and a last stage.

    ``lights`` middle stages, the earliest, have one layer less than the heavy ones.
    """
    shape = (len(pp), CLASSES)
    layers = np.zeros(shape, np.int64)
    count = np.zeros(shape, np.int64)
    index = np.zeros(shape, np.int64)
    many = pp > 1
    layers[:, FIRST], layers[:, HEAVY], layers[:, LAST] = counts
    layers[:, LIGHT] = layers[:, HEAVY] - 1
    count[:, FIRST] = 1
    count[:, LIGHT] = lights
    count[:, HEAVY] = np.where(many, pp - 2 - lights, 0)
    count[:, LAST] = many
    index[:, LIGHT] = 1
    index[:, HEAVY] = 1 + lights
    index[:, LAST] = pp - 1
    layers = np.where(count > 0, layers, 0)
    dense = dense_layers(transformer, layers)
    embedding = np.zeros(shape, bool)
    embedding[:, FIRST] = True
    head = np.zeros(shape, bool)
    head[:, LAST] = many
    head[:, FIRST] = ~many
    return Stages(dense, layers - dense, count, index, embedding, head, np.zeros(shape, np.int64))


def fullest_stage(transformer: Transformer, pp: IntArray) -> Stages:
    """Return a stage of ``ceil(L / p)`` layers, as the first and as the last but one hold them.

    Whatever the split, some stage holds at least so many, and at least one micro-batch; a single
    stage has embedding and head too.
    """
    layers = np.repeat(-(-transformer.layers // pp)[:, None], CLASSES, axis=1)
    dense, one = dense_layers(transformer, layers), np.ones_like(layers)
    alone = np.broadcast_to((pp == 1)[:, None], layers.shape)
    return Stages(dense, layers - dense, one, (pp[:, None] - 1) * one, alone, alone, 0 * one)


def dense_layers(transformer: Transformer, layers: IntArray) -> IntArray:
    """Return the dense layers among ``layers``, shape (N, 4); leading ones lie on the first."""
    moe = transformer.moe
    if moe is None:
        return layers
    dense = layers - layers // moe.every
    dense[:, FIRST] += np.minimum(moe.first_dense, layers[:, FIRST] // moe.every)
    return dense


def stack_fits(transformer: Transformer, pp: IntArray, vpp: IntArray) -> BoolArray:
    """Whether a non-uniform stack falls on stages as ``split`` places it.

    Leading dense layers must lie in the first virtual stage, and every stage must hold whole
    periods where only each n-th layer has experts.
    """
    moe = transformer.moe
    if moe is None:
        return np.ones(len(pp), bool)
    lighter = lighter_stages(transformer.layers, pp)
    heavy = (transformer.layers + lighter) // pp
    first_chunk = heavy // vpp - ((lighter >= BOTH_ENDS) & (pp > 1))
    leading = (moe.first_dense <= first_chunk) | (pp == 1)
    if moe.every == 1:
        return np.asarray(leading)
    return np.asarray(leading & (lighter == 0) & (heavy % moe.every == 0))
