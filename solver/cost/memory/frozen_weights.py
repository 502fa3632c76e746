"""Weights that are not trained: a frozen base, quantised or not, and a reference model; bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...job.counting import attention_linears, mlp_linears
from ...job.job import Job
from ..parameters import Held
from ..shapes import Shapes
from ..ticks import FloatArray

SIXTEEN_BIT = 2.0
"""Bytes of a frozen weight that is not quantised."""
QUANTISED_BYTES = {16: SIXTEEN_BIT, 8: 1.0, 4: (4 + 0.127) / 8}
"""Bytes of a quantised weight with its scales: 0.127 bits in 4-bit blocks of 64 with quantised
scales (QLoRA, arXiv 2305.14314, section 3); one fp32 scale a row in 8 bits is below 0.1 %."""


@dataclass(frozen=True)
class FrozenWeights:
    """Bytes of frozen weights on a rank before sharding, shape (N, 4) each.

    Attributes
    ----------
    dense, expert
        All but routed experts, and these: sharded over different ranks.
    layer_width
        Bytes of a frozen weight inside the layers.
    """

    dense: FloatArray
    expert: FloatArray
    layer_width: float


def frozen_weights(job: Job, parameters: Held, trained: Held) -> FrozenWeights:
    """Count what is kept beside the trained parameters.

    Adapters come on top of the whole base. Norms count as quantised, which is below 0.1 %.
    """
    finetune = job.finetune
    if finetune is None:
        nothing = np.zeros_like(parameters.dense)
        return FrozenWeights(nothing, nothing, SIXTEEN_BIT)
    width = QUANTISED_BYTES[finetune.base_bits]
    if finetune.adapts:
        layers = parameters.dense - parameters.vocabulary
        dense = width * layers + SIXTEEN_BIT * parameters.vocabulary
        expert = width * parameters.expert
    else:
        dense = SIXTEEN_BIT * (parameters.dense - trained.dense)
        expert = SIXTEEN_BIT * (parameters.expert - trained.expert)
    if finetune.copies_reference:
        dense = dense + SIXTEEN_BIT * parameters.dense
        expert = expert + SIXTEEN_BIT * parameters.expert
    return FrozenWeights(dense, expert, width)


def dequantised_bytes(job: Job, shapes: Shapes) -> FloatArray:
    """Bytes of the largest matrix of a layer, in 16 bit for its product; shape (N,).

    A quantised matrix is restored for each product, one at a time.
    """
    model, finetune = job.transformer, job.finetune
    if finetune is None or QUANTISED_BYTES[finetune.base_bits] == SIXTEEN_BIT:
        return np.zeros(len(shapes))
    linears = attention_linears(model)
    if model.dense_layers:
        linears = linears + mlp_linears(model, model.ffn)
    if model.moe is not None:
        linears = linears + mlp_linears(model, max(model.moe.ffn, model.moe.shared_ffn))
    largest = np.zeros(len(shapes))
    for linear in linears:
        ranks = shapes.tp if linear.by_output or linear.by_input else np.ones_like(shapes.tp)
        largest = np.maximum(largest, linear.inputs * linear.outputs / ranks)
    return np.asarray(SIXTEEN_BIT * largest)
