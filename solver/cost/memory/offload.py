"""What moves between a GPU and its host: bytes and seconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...job.job import Job
from ...job.search import OFFLOADS, Recompute
from ..frozen import layers_with_backward
from ..profile import Profile
from ..shapes import Shapes
from ..stages import Stages
from ..ticks import FloatArray
from .activations import Saved, saved_per_token, tokens_per_rank

OPTIMIZER_MOVES = OFFLOADS.index("optimizer")
ACTIVATIONS_MOVE = OFFLOADS.index("optimizer+activations")
LAYERS_IN_TRANSIT = 2.0
"""Layers whose kept activations are on the card at once: the one at work and the one on its way
(double buffering, as Transformer Engine's and PyTorch's offloading do)."""
UPDATED_BYTES = 2.0
"""Bytes of an updated weight on its way back to the card, 16 bit."""


@dataclass(frozen=True)
class HostTraffic:
    """Seconds of one micro-batch's copies, (N, 4, K): what a stage waits for, and in all."""

    exposed: FloatArray
    total: FloatArray


def moved_activations(
    job: Job, profile: Profile, shapes: Shapes, stages: Stages, kinds: tuple[Recompute, ...]
) -> FloatArray:
    """Bytes of one micro-batch's kept activations that leave the card, shape (N, 4, K)."""
    layers = layers_with_backward(job, shapes, stages)
    dense = np.maximum(layers.dense_layers - stages.recomputed_dense, 0)
    moe = np.maximum(layers.moe_layers - stages.recomputed_moe, 0)
    every = dense + moe
    left = np.maximum(every - LAYERS_IN_TRANSIT, 0) / np.maximum(every, 1)
    tokens = left * tokens_per_rank(job, shapes)[:, None]
    saved: list[Saved] = [saved_per_token(job, profile, shapes, kind) for kind in kinds]
    kept = [dense * one[:, None] + moe * other[:, None] for one, other in saved]
    return np.stack([tokens * part for part in kept], axis=-1)


def host_traffic(
    moved: FloatArray, bytes_per_s: float, forward: FloatArray, backward: FloatArray
) -> HostTraffic:
    """Price copies out under the forward pass, (N, 4, 1), and back under the backward, (N, 4, K).

    A GPU has its host link to itself, ``bytes_per_s`` in each direction.
    """
    seconds = moved / bytes_per_s
    exposed = np.maximum(seconds - forward, 0.0) + np.maximum(seconds - backward, 0.0)
    return HostTraffic(exposed, 2 * seconds)


def update_seconds(job: Job, bytes_per_s: float, on_host_s: float) -> FloatArray:
    """Seconds an owned parameter takes when its optimizer runs on the host.

    Gradients go out and weights come back under the update itself (``on_host_s``, measured with
    both), so the slower of the two sets the pace.
    """
    copied = (job.recipe.grad_bytes + UPDATED_BYTES) / bytes_per_s
    return np.asarray(np.maximum(on_host_s, copied))
