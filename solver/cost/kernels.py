"""Times of single kernels: matrix products, attention, memory-bound passes. Seconds, per GPU.

Every function takes arrays of shape (N,) and returns the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..job.recipe import Precision
from .machine import Machine
from .ticks import FloatArray

QUANTISE_BYTES = {"bf16": 0.0, "fp16": 0.0, "fp8": 5.0, "mxfp8": 7.1, "nvfp4": 11.8}
"""Traffic of casting one element to the format, both layouts (fitted on published runs)."""

INNER_SCALE = {"bf16": 1.0, "fp16": 1.0, "fp8": 2.0, "mxfp8": 2.0, "nvfp4": 4.0}
"""The inner dimension at half rate grows as the element shrinks: same bytes in flight."""

REFERENCE_PEAK = 989e12
"""Peak at which the attention curve's half length is stated: H100 SXM, dense bf16."""

BACKWARD_ATTENTION = 3.0
"""Backward over forward time of flash attention: 2.5 times the products (FlashAttention-2,
arXiv 2307.08691, section 3.2) at 1/1.2 of the forward's rate (fitted)."""

NARROW_HEAD, NARROW_HEAD_RATE = 64, 0.68
"""Attention reaches 0.68 of its rate at head dimension 64 (measured forward kernels, H100)."""

UNFUSED_SCORE_BYTES = 12.0
"""Traffic of scale, mask, softmax and dropout a score in unfused attention (fitted)."""

UNFUSED_RATE = 0.7
"""Batched products of unfused attention, of the plain product's rate (fitted)."""


@dataclass(frozen=True)
class Matmul:
    """C[m, n] = A[m, k] B[k, n] for every row of a set; arrays of shape (N,)."""

    m: FloatArray
    n: FloatArray
    k: FloatArray


def matmul_seconds(machine: Machine, product: Matmul, precision: Precision) -> FloatArray:
    """Time of one matrix product.

    2 m n k / rate · (1 + a/m)(1 + b/n)(1 + c/k): the rate that large products reach, lost where a
    dimension is short. Constants: profiles/gpus.yaml (fitted to measured kernels and runs).
    """
    rates = machine.profile.gpu
    inner = rates.matmul_half_inner * INNER_SCALE[precision]
    rows = rates.matmul_half_rows + machine.profile.stack.small_batch_tokens
    loss = (
        (1 + rows / product.m)
        * (1 + rates.matmul_half_columns / product.n)
        * (1 + inner / product.k)
    )
    return np.asarray(
        2 * product.m * product.n * product.k / machine.matmul_flops(precision) * loss
    )


def linear_seconds(
    machine: Machine, tokens: FloatArray, shape: tuple[FloatArray, FloatArray], precision: Precision
) -> tuple[FloatArray, FloatArray]:
    """Forward and backward time of a linear layer, (outputs, inputs) = ``shape``.

    Backward is the product for the input's gradient and the one for the weight's.
    """
    outputs, inputs = shape
    forward = matmul_seconds(machine, Matmul(tokens, outputs, inputs), precision)
    data = matmul_seconds(machine, Matmul(tokens, inputs, outputs), precision)
    weight = matmul_seconds(machine, Matmul(outputs, inputs, tokens), precision)
    return forward, data + weight


def pass_seconds(machine: Machine, traffic_bytes: FloatArray) -> FloatArray:
    """Time of a memory-bound pass over ``traffic_bytes`` of HBM."""
    return traffic_bytes / machine.hbm_bytes_per_s


def flash_attention_seconds(
    machine: Machine, score_flops: FloatArray, seq_len: float, cp: FloatArray, head_dim: int
) -> FloatArray:
    """Forward time of causal flash attention with ``score_flops`` of useful products.

    The rate rises with the sequence that one GPU holds: 1 + c / (seq / cp), c growing with the root
    of the peak (profiles/gpus.yaml).
    """
    rates = machine.profile.gpu
    narrow = NARROW_HEAD_RATE if head_dim <= NARROW_HEAD else 1.0
    rate = machine.peak_flops * rates.attention_efficiency * narrow * machine.profile.stack.attention
    return np.asarray(score_flops / rate * (1 + rates.attention_half_seq * cp / seq_len))


def unfused_attention_seconds(
    machine: Machine, score_flops: FloatArray, scores: FloatArray
) -> FloatArray:
    """Forward time of attention that stores its scores: both triangles, and passes over them."""
    rate = machine.matmul_flops("bf16") * UNFUSED_RATE
    return np.asarray(
        2 * score_flops / rate + pass_seconds(machine, UNFUSED_SCORE_BYTES * scores)
    )


def floored(seconds: FloatArray, floor: float | FloatArray) -> FloatArray:
    """Return ``seconds``, but no less than the ``floor`` (smooth maximum of order 6).

    Kernels of one layer and their launches overlap, so the slower of the two sets the pace.
    """
    return np.asarray((seconds**6 + np.asarray(floor, dtype=np.float64) ** 6) ** (1 / 6))
