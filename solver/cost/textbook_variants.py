"""Counts of the source texts that differ from the textbook account; ledger lines, not a model.

``framework_*`` is the *Distributed Training Planner*, ``chapter_*`` the *overview of distributed
training*. Both write volumes more coarsely than the 70B exercise, which the account follows.
Bytes throughout; scalars or numpy arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .textbook import Floats

FRAMEWORK_BYTES = {"fp16": 2.0, "fp32": 4.0}
"""Bytes per parameter of weights and of gradients (planner framework, step 1)."""

FRAMEWORK_ADAM_BYTES = 4.0 * 2.0
"""m and v in fp32, "8 bytes/param always"; no master weights (planner framework, step 1)."""


def _floats(value: ArrayLike) -> Floats:
    return np.asarray(value, dtype=np.float64)


def framework_weight_bytes(parameters: ArrayLike, precision: str = "fp16") -> Floats:
    """Weights: params × bytes per parameter. Raises KeyError for another precision."""
    return _floats(parameters) * FRAMEWORK_BYTES[precision]


def framework_adam_bytes(parameters: ArrayLike) -> Floats:
    """Adam m and v: params × 4 × 2, in either precision."""
    return _floats(parameters) * FRAMEWORK_ADAM_BYTES


def framework_gradient_bytes(parameters: ArrayLike, precision: str = "fp16") -> Floats:
    """Gradients: params × bytes per parameter. Raises KeyError for another precision."""
    return _floats(parameters) * FRAMEWORK_BYTES[precision]


def framework_activation_bytes(
    seq: ArrayLike, batch: ArrayLike, hidden: ArrayLike, layers: ArrayLike
) -> Floats:
    """Activations, an estimate: seq_len × batch × hidden × layers × 2.

    Equal to the ledger chapter's full recomputation at t = 1, 17 times less than its 34·s·b·h.
    """
    return _floats(seq) * _floats(batch) * _floats(hidden) * _floats(layers) * 2.0


def framework_dp_bytes(gradient_bytes: ArrayLike, gpus: ArrayLike) -> Floats:
    """Data-parallel all-reduce: 2 × gradient_size × (N-1)/N per step."""
    n = _floats(gpus)
    return 2.0 * _floats(gradient_bytes) * (n - 1.0) / n


def framework_fsdp_bytes(weight_bytes: ArrayLike, gpus: ArrayLike) -> Floats:
    """FSDP all-gather and reduce-scatter: about 3 × weight_size × (N-1)/N per step."""
    n = _floats(gpus)
    return 3.0 * _floats(weight_bytes) * (n - 1.0) / n


def framework_tp_bytes(activation_bytes: ArrayLike, layers: ArrayLike) -> Floats:
    """TP: 2 × activation_size × num_layers; the account counts 4·2·(t-1)/t instead of 2."""
    return 2.0 * _floats(activation_bytes) * _floats(layers)


def framework_pp_bytes(activation_bytes: ArrayLike) -> Floats:
    """PP: activation_size per stage boundary."""
    return _floats(activation_bytes)


def chapter_dp_bytes(parameters: ArrayLike) -> tuple[Floats, Floats]:
    """DP or ZeRO: "about 2Ψ to 3Ψ bytes per step"; both ends of the range."""
    return 2.0 * _floats(parameters), 3.0 * _floats(parameters)


def chapter_tp_bytes(seq: ArrayLike, batch: ArrayLike, hidden: ArrayLike) -> Floats:
    """TP with SP: about 4·s·b·h bytes per layer."""
    return 4.0 * _floats(seq) * _floats(batch) * _floats(hidden)


def chapter_pp_bytes(seq: ArrayLike, batch: ArrayLike, hidden: ArrayLike) -> Floats:
    """PP: about s·b·h bytes per micro-batch."""
    return _floats(seq) * _floats(batch) * _floats(hidden)


def chapter_ep_bytes(
    seq: ArrayLike, batch: ArrayLike, hidden: ArrayLike, top_k: ArrayLike
) -> Floats:
    """EP: about 2 × top-k × s·b·h bytes per layer, dispatch and combine."""
    return 2.0 * _floats(top_k) * _floats(seq) * _floats(batch) * _floats(hidden)
