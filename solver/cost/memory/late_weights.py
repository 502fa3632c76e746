"""What is kept between the gradient of an input and those of the weights, where these wait."""

from __future__ import annotations

import numpy as np

from ...job.counting import Linear, attention_linears, mlp_linears
from ...job.job import Job
from ..parameters import padded_vocabulary
from ..schedule import split_in_flight
from ..shapes import Shapes
from ..stages import Stages
from ..ticks import FloatArray, IntArray

SIXTEEN_BIT = 2.0
"""Bytes of an input or gradient that waits."""


def _sides(
    hidden: int, linears: list[Linear], ranks: FloatArray, sequence: FloatArray
) -> FloatArray:
    """Return the bytes of inputs and of output gradients, a token, shape (N,).

    Both are divided by tensor parallelism where the weight is. Else the input is what backward
    keeps, a part of the ``sequence``, gathered again when its turn comes; the gradient is whole
    (sail-sg/zero-bubble-pipeline-parallelism, tensor_parallel/layers.py). Products that read the
    same ``hidden`` states share them.
    """
    inputs = [(each.inputs, each.by_input) for each in linears]
    inputs = [side for side in inputs if side != (hidden, False)] + [(hidden, False)]
    outputs = [(each.outputs, each.by_output) for each in linears]
    kept = [width / (ranks if split else sequence) for width, split in inputs]
    grads = [width / np.where(split, ranks, 1.0) for width, split in outputs]
    return np.asarray(SIXTEEN_BIT * sum([*kept, *grads], np.zeros_like(ranks)))


def late_bytes(
    job: Job, shapes: Shapes, sequence: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what a dense layer, a mixture layer and the head keep, bytes a token, shape (N,).

    Inputs and output gradients of every product with a weight, 16 bit: 32 s b h a layer of the GPT
    shape, as table 1 of Qi et al. 2024 (arXiv 2401.10241) has it. ``sequence`` ranks share norms
    and residuals.
    """
    model, moe = job.transformer, job.transformer.moe
    tp, whole = shapes.tp.astype(np.float64), np.ones(len(shapes))
    attention = _sides(model.hidden, attention_linears(model), tp, sequence)
    dense = attention + _sides(model.hidden, mlp_linears(model, model.ffn), tp, sequence)
    mixture = dense
    if moe is not None:
        # Routed tokens are spread over the tensor ranks, whole or in slices: alike in sum.
        routed = _sides(model.hidden, mlp_linears(model, moe.ffn), whole, whole) / tp
        mixture = attention + moe.top_k * job.routed * routed
        if moe.shared_ffn:
            shared = mlp_linears(model, moe.shared_ffn)
            mixture = mixture + _sides(model.hidden, shared, tp, sequence)
    heads = 1 + model.mtp_layers
    head = heads * SIXTEEN_BIT * (model.hidden / sequence + padded_vocabulary(model, shapes))
    return dense, mixture, np.asarray(head)


def most_held(
    job: Job, shapes: Shapes, stages: Stages, waiting: FloatArray,
    layers: tuple[IntArray, IntArray], sequence: FloatArray,
) -> FloatArray:  # fmt: skip
    """Return the most bytes a token that all micro-batches of a stage keep under ZB-H1, (N, 4).

    Of stages that are alike the first holds most, or the last where owed weight gradients need more
    than what waits: what a stage holds only grows or only falls along the pipeline.

    Parameters
    ----------
    job, shapes, stages
        What is laid out how.
    waiting
        What a micro-batch keeps until the gradient of its input, bytes a token, (N, 4).
    layers
        Dense and mixture layers of each stage, (N, 4).
    sequence
        Ranks that share norms and residuals, (N,).
    """
    dense, mixture, head = (part[:, None] for part in late_bytes(job, shapes, sequence))
    owed = layers[0] * dense + layers[1] * mixture + stages.has_head * head
    pp, microbatches = shapes.pp[:, None], shapes.microbatches[:, None]
    last = stages.index + np.maximum(stages.count, 1) - 1
    held = [
        waits * waiting + owes * owed
        for index in (stages.index, last)
        for waits, owes in split_in_flight(pp, microbatches, index)
    ]
    return np.asarray(np.max(held, axis=0))
