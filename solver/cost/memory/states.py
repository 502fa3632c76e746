"""Weights, gradients and optimizer states of a rank, and what is whole for a moment; bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...axes.data import FULL_SHARDING
from ...job.job import Job
from ..parameters import Held, held, trained
from ..profile import Profile
from ..shapes import Shapes, Shardings
from ..stages import Stages
from ..ticks import FloatArray
from .frozen_weights import FrozenWeights, dequantised_bytes, frozen_weights
from .options import MemoryOptions

GATHERED_BYTES = 2.0
"""Bytes of a gathered weight: compute runs in 16 bit."""
FIRST_GRADIENTS = 2 / 3
"""Share of a layer's weights that have a gradient when its temporaries are largest: those of its
MLP (oracle; exact for none, within 2 % of the peak for all)."""
GRADIENT_SHARDING = 2
"""ZeRO stage from which gradients are sharded."""


@dataclass(frozen=True)
class States:
    """Bytes that live through a step, shape (N, 4, Z) each.

    Attributes
    ----------
    weights, optimizer
        Resident always.
    gradients
        Once all are computed.
    early_gradients
        Those that exist when the first backward of a micro-batch begins.
    update
        Temporaries of the optimizer step.
    """

    weights: FloatArray
    optimizer: FloatArray
    gradients: FloatArray
    early_gradients: FloatArray
    update: FloatArray


def shard_ranks(shapes: Shapes, shardings: Shardings) -> tuple[FloatArray, FloatArray]:
    """Ranks that a dense and an expert parameter's states are sharded over, shape (N, Z)."""
    dense = np.maximum((shapes.dp * shapes.cp)[:, None] / shardings.replicas, 1.0)
    replicas = shapes.tp * shapes.cp * shapes.dp / (shapes.ep * shapes.etp)
    return dense, np.maximum(replicas[:, None] / shardings.replicas, 1.0)


def owned_share(
    profile: Profile, parts: tuple[FloatArray, FloatArray], shapes: Shapes, shardings: Shardings
) -> FloatArray:
    """Share of a rank in its (dense, expert) parts where they are sharded, shape (N, 4, Z).

    Experts are spread over their own, smaller, data-parallel group, if at all.
    """
    dense_ranks, expert_ranks = shard_ranks(shapes, shardings)
    if not profile.memory.experts_sharded:
        expert_ranks = np.where((shapes.ep > 1)[:, None], 1.0, expert_ranks)
    dense, expert = (part[:, :, None] for part in parts)
    return np.asarray(dense / dense_ranks[:, None, :] + expert / expert_ranks[:, None, :])


@dataclass(frozen=True)
class Weights:
    """Parameters of a rank: all of the model's, the trained ones, and the bytes of frozen ones."""

    held: Held
    trained: Held
    frozen: FrozenWeights

    @property
    def gathered_bytes(self) -> FloatArray:
        """Bytes of everything as it is gathered, shape (N, 4)."""
        if self.held is self.trained:
            return GATHERED_BYTES * self.held.every
        inside = self.frozen.layer_width * (self.held.every - self.held.vocabulary)
        return inside + GATHERED_BYTES * (self.held.vocabulary + self.trained.every)

    @property
    def layer_bytes(self) -> FloatArray:
        """Bytes of the largest layer as it is gathered, shape (N, 4)."""
        if self.held is self.trained:
            return GATHERED_BYTES * self.held.layer
        return self.frozen.layer_width * self.held.layer + GATHERED_BYTES * self.trained.layer


def weights_of(job: Job, shapes: Shapes, stages: Stages) -> Weights:
    """Count a rank's parameters of each stage class."""
    whole = held(job.transformer, shapes, stages)
    mine = whole if job.finetune is None else trained(job, shapes, stages)
    return Weights(whole, mine, frozen_weights(job, whole, mine))


@dataclass(frozen=True)
class Rates:
    """Bytes a parameter: of weights, sharded weights, gradients, optimizer, update temporaries.

    ``here`` is the share of frozen weights on the card: all, or none where states are offloaded.
    """

    here: float
    weights: float
    sharded_weights: float
    gradients: float
    optimizer: float
    update: float


def rates_of(job: Job, profile: Profile) -> Rates:
    """Return what one parameter takes by the recipe and the software."""
    recipe, options = job.recipe, profile.memory
    here = 0.0 if options.offloaded else 1.0
    copied = options.weight_copy or not recipe.master_bytes
    weights = here * recipe.weight_bytes
    on_host = options.offloaded or profile.software.offloaded_optimizer
    # Two moments, so a moment has half their bytes.
    return Rates(
        here,
        weights,
        weights if copied else 0.0,
        here * recipe.grad_bytes,
        0.0 if on_host else recipe.optimizer_bytes() + options.owned_bytes,
        0.0 if on_host else options.update_moments * recipe.moment_bytes / 2,
    )


def state_bytes(
    job: Job, profile: Profile, weights: Weights, shapes: Shapes, shardings: Shardings
) -> States:
    """Count the states of a rank.

    ZeRO 1 shards optimizer states, 2 also gradients, 3 also weights (Rajbhandari et al. 2020,
    arXiv 1910.02054, figure 1). Where gradients are freed with each step, the first micro-batch
    finds none. Frozen weights have neither gradients nor optimizer states.
    """
    rates, parameters, frozen = rates_of(job, profile), weights.trained, weights.frozen
    whole = parameters.every[:, :, None]
    share = owned_share(profile, (parameters.dense, parameters.expert), shapes, shardings)
    frozen_share = owned_share(profile, (frozen.dense, frozen.expert), shapes, shardings)
    frozen_whole = (frozen.dense + frozen.expert)[:, :, None]
    zero = shardings.zero[:, None, :]
    full = zero == FULL_SHARDING
    gradients = rates.gradients * np.where(zero >= GRADIENT_SHARDING, share, whole)
    owned = np.where(zero >= 1, share, whole)
    fresh = full | (not profile.memory.gradients_persist)
    first = fresh & (shapes.microbatches == 1)[:, None, None]
    return States(
        np.where(
            full,
            rates.sharded_weights * share + rates.here * frozen_share,
            rates.weights * whole + rates.here * frozen_whole,
        ),
        rates.optimizer * owned,
        gradients,
        np.where(first, 0.0, gradients),
        rates.update * owned,
    )


def least_states(
    job: Job, profile: Profile, weights: Weights, shapes: Shapes
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bound the states from below over every sharding, shape (N, 4).

    Returns
    -------
    Weights and optimizer states; gradients when the first backward begins; gradients and update
    temporaries at the end of the step.
    """
    one = np.ones((len(shapes), 1), np.int64)
    everything = Shardings(FULL_SHARDING * one, one, one.astype(bool))
    parameters, frozen = weights.trained, weights.frozen
    share = owned_share(profile, (parameters.dense, parameters.expert), shapes, everything)[..., 0]
    kept = owned_share(profile, (frozen.dense, frozen.expert), shapes, everything)[..., 0]
    rates = rates_of(job, profile)
    static = (min(rates.sharded_weights, rates.weights) + rates.optimizer) * share
    static = static + rates.here * kept
    gradients = rates.gradients * share
    several = (shapes.microbatches > 1)[:, None]
    return static, several * gradients, gradients + rates.update * share


@dataclass(frozen=True)
class Whole:
    """Parts of a sharded model that are whole for a moment, bytes; broadcast to (N, 4, Z).

    Attributes
    ----------
    stay
        Gathered weights, and whole gradients, that stay until the step ends.
    unfreed
        Gathered weights that are not freed after forward.
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
    layer: FloatArray
    root: FloatArray
    missing: FloatArray


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
    final = full * job.recipe.grad_bytes / ranks
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
