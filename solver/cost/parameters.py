"""Parameters that one GPU holds, and those it trains, per stage class: split by TP and EP."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..job.finetune import Blocks, blocks
from ..job.job import Job
from ..job.transformer import Transformer
from .frozen import LayerCounts, layers_with_backward
from .shapes import Shapes
from .stages import Stages
from .ticks import FloatArray

VOCABULARY_MULTIPLE = 128
"""Megatron-LM pads the vocabulary to a multiple of 128 rows a tensor rank."""


@dataclass(frozen=True)
class Held:
    """Parameters on one GPU, arrays of shape (N, 4) over stage classes.

    Attributes
    ----------
    dense
        All but routed experts: sharded over DP · CP ranks.
    expert
        Routed experts: sharded over expert-data-parallel ranks only.
    vocabulary
        The part of ``dense`` in embedding and output head.
    head
        The output head, also where it is tied to the embedding.
    layer
        The largest single layer, dense and expert parts together.
    mlp_share
        Share of that layer in its MLP or experts.
    """

    dense: FloatArray
    expert: FloatArray
    vocabulary: FloatArray
    head: FloatArray
    layer: FloatArray
    mlp_share: FloatArray

    @property
    def every(self) -> FloatArray:
        """All of them, shape (N, 4)."""
        return self.dense + self.expert


def padded_vocabulary(transformer: Transformer, shapes: Shapes) -> FloatArray:
    """Rows of the vocabulary on one tensor rank, padded; shape (N,)."""
    ranks = VOCABULARY_MULTIPLE * shapes.tp
    return np.ceil(transformer.vocab / ranks) * VOCABULARY_MULTIPLE


def held(transformer: Transformer, shapes: Shapes, stages: Stages) -> Held:
    """Count the parameters of a rank of each stage class.

    Matrices divide by TP; norms and routers do not.
    """
    every = LayerCounts(stages.dense_layers, stages.moe_layers)
    return _counted(transformer, blocks(transformer), shapes, stages, every)


def trained(job: Job, shapes: Shapes, stages: Stages) -> Held:
    """Count the parameters that a rank trains: adapters, or what is not frozen.

    Stages of one class differ in frozen layers: the class counts as the one with the fewest.
    """
    model, finetune = job.transformer, job.finetune
    if finetune is None:
        return held(model, shapes, stages)
    left = layers_with_backward(job, shapes, stages)
    return _counted(model, blocks(model, finetune), shapes, stages, left)


def _counted(
    transformer: Transformer, part: Blocks, shapes: Shapes, stages: Stages, layers: LayerCounts
) -> Held:
    """Count the parameters of some blocks, in so many layers of each stage."""
    moe = transformer.moe
    tp = shapes.tp[:, None].astype(np.float64)
    common = part.attention.split / tp + part.attention.whole + part.norms.whole
    dense_layer = common + part.mlp.split / tp + part.mlp.whole
    shared = part.shared.split / tp + part.shared.whole
    moe_layer = common + part.router.whole + shared
    experts = 0.0 * tp
    if moe is not None:
        etp = shapes.etp[:, None]
        local = moe.experts / shapes.ep[:, None]
        experts = local * (part.expert.split / etp + part.expert.whole)
    predict = transformer.mtp_layers * stages.has_head
    moe_layers = layers.moe_layers + (predict if moe is not None else 0)
    dense_layers = layers.dense_layers + (0 if moe is not None else predict)
    table = padded_vocabulary(transformer, shapes)[:, None] * transformer.hidden
    alone = stages.has_embedding & stages.has_head
    embedding = stages.has_embedding.astype(np.float64) * part.embedding
    head = stages.has_head * part.head
    vocabulary = table * (embedding + (head & ~(alone & transformer.tied)))
    dense = (
        dense_layers * dense_layer
        + moe_layers * moe_layer
        + vocabulary
        + part.positions * stages.has_embedding
        + part.final_norm * stages.has_head
        + predict * part.mtp_joint.split / tp
    )
    layer = np.maximum(
        np.where(layers.dense_layers > 0, dense_layer, 0.0),
        np.where(layers.moe_layers > 0, moe_layer + experts, 0.0),
    )
    mlp_share = np.where(layer > 0, 1 - common / np.maximum(layer, 1.0), 0.0)
    return Held(dense, moe_layers * experts, vocabulary, table * head, layer, mlp_share)


def weight_shapes(job: Job, shapes: Shapes, stages: Stages) -> FloatArray:
    """Count the trained parameters in one matrix of each distinct shape on a rank, (N, 4).

    Every matrix of a layer has its own shape; experts are separate matrices of one shape.
    """
    transformer = job.transformer
    part = blocks(transformer, job.finetune)
    tp = shapes.tp[:, None].astype(np.float64)
    dense = np.where(stages.dense_layers > 0, part.mlp.split / tp, 0.0)
    mixture = 0.0 * dense
    if transformer.moe is not None:
        expert = part.expert.split / shapes.etp[:, None] + part.shared.split / tp
        mixture = np.where(stages.moe_layers > 0, expert, 0.0)
    table = padded_vocabulary(transformer, shapes)[:, None] * transformer.hidden
    head = table * (stages.has_head & part.head)
    return np.asarray(part.attention.split / tp + dense + mixture + head)
