"""What of sharded weights and gradients is whole for a moment; bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...axes.data import FULL_SHARDING
from ...job.job import Job
from ..profile import Profile
from ..shapes import Shapes, Shardings
from ..stages import Stages
from ..ticks import FloatArray
from .frozen_weights import dequantised_bytes
from .options import MemoryOptions
from .states import GATHERED_BYTES, GRADIENT_SHARDING, Weights, shard_ranks

FIRST_GRADIENTS = 2 / 3
"""Share of a layer's weights that have a gradient when its temporaries are largest: those of its
MLP (oracle; exact for none, within 2 % of the peak for all)."""


@dataclass(frozen=True)
class Whole:
    """Parts of a sharded model that are whole for a moment, bytes; broadcast to (N, 4, Z).

    Attributes
    ----------
    stay
        Gathered weights, and whole gradients, that stay until the step ends.
    unfreed
        Gathered weights that are not freed after forward.
    regathered
        The root's weights, and the buffer that they are gathered in, when its backward begins;
        nothing where they stay gathered.
    layer
        While a layer is in backward: gathered weights of it and of the next one, its gradient
        before and during reduction, the root's weights and the head's gradient.
    root
        While the root's gradient is made or reduced, beside the other gradients.
    missing
        Gradients that do not exist yet when the first layer is in backward.
    """

    stay: FloatArray
    unfreed: FloatArray
    regathered: FloatArray
    layer: FloatArray
    root: FloatArray
    missing: FloatArray


def later_gradients(weights: Weights) -> FloatArray:
    """Return what a layer's gradients grow by from when its temporaries are largest, (N, 4).

    That is in the middle of its MLP; at its end all of its weights have one.
    """
    share = weights.trained.mlp_share - FIRST_GRADIENTS
    return np.asarray(GATHERED_BYTES * np.maximum(share, 0.0) * weights.trained.layer)


def whole_bytes(
    job: Job, profile: Profile, weights: Weights, shapes: Shapes, stages: Stages,
    shardings: Shardings,
) -> Whole:  # fmt: skip
    """Count what ZeRO 2 and 3 hold whole.

    Source: PyTorch FSDP2 under a memory tracker (docs/memory.md): two gathered layers (current and
    prefetched), a gradient in 16 bit and one in the reduction's type waiting, and the root group
    (embedding, head, final norm), which stays gathered through backward.
    """
    options = profile.memory
    zero = shardings.zero[:, None, :]
    full = (zero == FULL_SHARDING).astype(np.float64)
    mine = weights.trained
    layer, root, head = (part[:, :, None] for part in (mine.layer, mine.vocabulary, mine.head))
    kept_root = GATHERED_BYTES * weights.held.vocabulary[:, :, None]
    gradient = (FIRST_GRADIENTS * GATHERED_BYTES + options.reduce_bytes) * layer
    gathered = options.gathered_layers * weights.layer_bytes[:, :, None] + kept_root
    gathered = gathered + GATHERED_BYTES * head
    freed: FloatArray | float = 1.0
    if options.pipelined_unsharded:
        freed = np.where(stages.pipelined, 0.0, 1.0)[:, :, None]
    ranks = shard_ranks(shapes, shardings)[0][:, None, :]
    # With several micro-batches the shards of all gradients exist before the last one's.
    fresh = (shapes.microbatches == 1)[:, None, None]
    final = fresh * full * job.recipe.grad_bytes / ranks
    # A tied table has three gradients for a moment: as head, as embedding, and their sum.
    tied = stages.has_embedding & stages.has_head & job.transformer.tied
    tables = np.where(tied[:, :, None], 3.0, 1.0) * root
    embedding = GATHERED_BYTES * (root + tables) + options.reduce_bytes * layer
    restored = dequantised_bytes(job, shapes)[:, None, None]
    reducing = np.maximum(embedding, (GATHERED_BYTES + options.reduce_bytes) * root)
    stay, unfreed = _staying(options, weights, shapes, freed)
    return Whole(
        full * stay,
        full * unfreed,
        full * freed * (2 * kept_root if options.root_reshard and not options.weight_copy else 0.0),
        (zero >= GRADIENT_SHARDING) * gradient + full * (freed * gathered) + restored,
        full * reducing - final * root,
        final * (root + 2 * layer),
    )


def _staying(
    options: MemoryOptions, weights: Weights, shapes: Shapes, freed: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """Return what stays whole through the step, and what only until the first backward."""
    none = np.zeros((1, 1, 1))
    stay, unfreed = none + options.bucket_bytes, none
    if options.pipelined_unsharded or not options.reshard:
        everything = weights.gathered_bytes[:, :, None]
        several = (shapes.microbatches > 1)[:, None, None]
        whole = everything + several * options.reduce_bytes * weights.trained.every[:, :, None]
        stay = stay + (1 - np.asarray(freed)) * whole
    if not options.reshard:
        unfreed = freed * everything
    elif not options.root_reshard:
        unfreed = freed * (GATHERED_BYTES * weights.held.vocabulary[:, :, None])
    return stay, unfreed
