"""Times of single kernels: matrix products, attention, memory-bound passes. Seconds, per GPU.

Every function takes arrays of shape (N,) and returns the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..job.recipe import Precision
from .machine import Machine
from .ticks import FloatArray

INNER_SCALE = {"bf16": 1.0, "fp16": 1.0, "fp8": 2.0, "mxfp8": 2.0, "nvfp4": 4.0}
"""The inner dimension at half rate grows as the element shrinks: same bytes in flight."""

ALIGNED = 64
"""Elements that tensor-core tiles like widths to be a multiple of."""
MOST_MISALIGNED = 3
"""Halvings of alignment beyond which nothing more is lost (kernels then pad)."""
LARGE_MATRIX = 2e8
"""Elements of a weight matrix beyond which Blackwell's rate falls (measured GEMM kernels)."""
NARROW_HEAD = 64
"""Head dimension up to which flash attention reaches a lower rate."""
BACKWARD_UNFUSED = 2.0
"""Backward over forward time of attention that stores its scores."""
SCORE_ALIGNED = 8
"""Head dimensions that are no multiple of 8 run without tensor cores (16-bit loads of 16 bytes)."""


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


def misalignment(width: FloatArray) -> FloatArray:
    """Halvings by which a width falls short of a multiple of 64, at most 3."""
    shared = np.gcd(np.asarray(width, dtype=np.float64).round().astype(np.int64), ALIGNED)
    return np.minimum(np.log2(ALIGNED / np.maximum(shared, 1)), MOST_MISALIGNED)


def linear_seconds(
    machine: Machine,
    tokens: FloatArray,
    shape: tuple[FloatArray, FloatArray],
    precision: Precision,
    *,
    trained: bool = True,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Forward, backward and weight-gradient time of a linear layer, (outputs, inputs) = ``shape``.

    Backward is the product for the input's gradient and, where it is trained, the one for the
    weight's, which also stands alone. Misaligned widths and very large matrices lose rate in all
    three.
    """
    outputs, inputs = shape
    odd = np.minimum(misalignment(outputs) + misalignment(inputs), MOST_MISALIGNED)
    excess = np.log2(np.maximum(outputs * inputs / LARGE_MATRIX, 1.0))
    loss = (1 + machine.profile.stack.alignment_loss * odd) * (
        1 + machine.profile.gpu.matmul_droop * excess
    )
    forward = matmul_seconds(machine, Matmul(tokens, outputs, inputs), precision)
    data = matmul_seconds(machine, Matmul(tokens, inputs, outputs), precision)
    if not trained:
        return forward * loss, data * loss, np.zeros_like(data)
    weight = matmul_seconds(machine, Matmul(outputs, inputs, tokens), precision)
    return forward * loss, (data + weight) * loss, weight * loss


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
    narrow = rates.attention_narrow if head_dim <= NARROW_HEAD else 1.0
    rate = machine.peak_flops * rates.attention_efficiency * narrow * machine.profile.attention
    return np.asarray(score_flops / rate * (1 + rates.attention_half_seq * cp / seq_len))


def unfused_attention_seconds(
    machine: Machine, score_flops: FloatArray, scores: FloatArray, head_dim: int
) -> FloatArray:
    """Forward time of attention that stores its scores: both triangles, and passes over them.

    The batched products have inner or outer dimension ``head_dim``: short ones and odd ones lose
    rate.
    """
    stack = machine.profile.stack
    rate = machine.matmul_flops("bf16") * stack.unfused_rate
    odd = float(misalignment(np.array(float(head_dim)))) / MOST_MISALIGNED
    loss = (1 + ALIGNED / head_dim) * (
        1 + stack.head_alignment_loss * odd + stack.odd_head_loss * bool(head_dim % SCORE_ALIGNED)
    )
    return np.asarray(
        2 * score_flops / rate * loss + pass_seconds(machine, stack.score_bytes * scores)
    )


def floored(seconds: FloatArray, floor: float | FloatArray) -> FloatArray:
    """Return ``seconds``, but no less than the ``floor`` (smooth maximum of order 6)."""
    return np.asarray((seconds**6 + np.asarray(floor, dtype=np.float64) ** 6) ** (1 / 6))
