"""Parameters that one GPU holds, per stage class: split by TP, and experts by EP."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..job.transformer import Transformer
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
    """

    dense: FloatArray
    expert: FloatArray
    vocabulary: FloatArray
    head: FloatArray
    layer: FloatArray


def padded_vocabulary(transformer: Transformer, shapes: Shapes) -> FloatArray:
    """Rows of the vocabulary on one tensor rank, padded; shape (N,)."""
    ranks = VOCABULARY_MULTIPLE * shapes.tp
    return np.ceil(transformer.vocab / ranks) * VOCABULARY_MULTIPLE


def held(transformer: Transformer, shapes: Shapes, stages: Stages) -> Held:
    """Count the parameters of a rank of each stage class.

    Matrices divide by TP; norms and routers do not.
    """
    counts, moe = transformer.parameters(), transformer.moe
    tp = shapes.tp[:, None].astype(np.float64)
    common = counts.attention_per_layer / tp + counts.norms_per_layer
    dense_layer = common + counts.dense_mlp_per_layer / tp
    moe_layer = common + counts.router_per_layer + counts.shared_expert_per_layer / tp
    spread = (shapes.ep * shapes.etp)[:, None]
    experts = (counts.expert * moe.experts / spread) if moe is not None else 0.0 * tp
    predict = transformer.mtp_layers * stages.has_head
    moe_layers = stages.moe_layers + (predict if moe is not None else 0)
    dense_layers = stages.dense_layers + (0 if moe is not None else predict)
    table = padded_vocabulary(transformer, shapes)[:, None] * transformer.hidden
    alone = stages.has_embedding & stages.has_head
    head = stages.has_head & ~(alone & transformer.tied)
    vocabulary = table * (stages.has_embedding.astype(np.float64) + head)
    dense = (
        dense_layers * dense_layer
        + moe_layers * moe_layer
        + vocabulary
        + counts.positions * stages.has_embedding
        + counts.final_norm * stages.has_head
        + predict * 2 * transformer.hidden**2 / tp
    )
    layer = np.maximum(
        np.where(stages.dense_layers > 0, dense_layer, 0.0),
        np.where(stages.moe_layers > 0, moe_layer + experts, 0.0),
    )
    return Held(dense, moe_layers * experts, vocabulary, table * stages.has_head, layer)


def weight_shapes(transformer: Transformer, shapes: Shapes, stages: Stages) -> FloatArray:
    """Count the parameters in one matrix of each distinct shape on a rank, (N, 4).

    Every matrix of a layer has its own shape; experts are separate matrices of one shape.
    """
    counts, moe = transformer.parameters(), transformer.moe
    tp = shapes.tp[:, None].astype(np.float64)
    dense = np.where(stages.dense_layers > 0, counts.dense_mlp_per_layer / tp, 0.0)
    mixture = 0.0 * dense
    if moe is not None:
        expert = counts.expert / shapes.etp[:, None] + counts.shared_expert_per_layer / tp
        mixture = np.where(stages.moe_layers > 0, expert, 0.0)
    head = padded_vocabulary(transformer, shapes)[:, None] * transformer.hidden * stages.has_head
    return np.asarray(counts.attention_per_layer / tp + dense + mixture + head)
