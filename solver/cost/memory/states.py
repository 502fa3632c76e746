"""Weights, gradients and optimizer states of a rank; bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...axes.data import FULL_SHARDING
from ...job.job import Job
from ..parameters import Held, held, trained
from ..profile import Profile
from ..shapes import Shapes, Shardings
from ..stages import Stages
from ..ticks import FloatArray, IntArray
from .frozen_weights import FrozenWeights, frozen_weights

GATHERED_BYTES = 2.0
"""Bytes of a gathered weight: compute runs in 16 bit."""
HOST_GRADIENT_BYTES = 4.0
"""Bytes of a gradient on the host, fp32, beside the states that it updates (DeepSpeed's estimate of
16 bytes a parameter for Adam)."""
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
    host
        On the host.
    """

    weights: FloatArray
    optimizer: FloatArray
    gradients: FloatArray
    early_gradients: FloatArray
    update: FloatArray
    host: FloatArray


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

    ``tables`` is what the optimizer keeps for embedding and head beyond that; may be below 0.
    ``here`` is the share of frozen weights on the card: all, or none where states are offloaded.
    """

    here: float
    weights: float
    sharded_weights: float
    gradients: float
    optimizer: float
    update: float
    tables: float


def rates_of(job: Job, profile: Profile) -> Rates:
    """Return what one parameter takes by the recipe and the software."""
    recipe, options = job.recipe, profile.memory
    here = 0.0 if options.offloaded else 1.0
    copied = options.weight_copy or not recipe.master_bytes
    weights = here * recipe.weight_bytes
    tables = recipe.moment_bytes if recipe.table_moment_bytes is None else recipe.table_moment_bytes
    on_host = options.offloaded or profile.software.offloaded_optimizer
    return Rates(
        here,
        weights,
        weights if copied else 0.0,
        here * recipe.grad_bytes,
        0.0 if on_host else recipe.optimizer_bytes() + options.owned_bytes,
        0.0 if on_host else options.update_moments * recipe.moment_bytes / recipe.moments,
        0.0 if on_host else tables - recipe.moment_bytes,
    )


def state_bytes(
    job: Job,
    profile: Profile,
    weights: Weights,
    shapes: Shapes,
    shardings: Shardings,
    offload: IntArray,
) -> States:
    """Count the states of a rank.

    ZeRO 1 shards optimizer states, 2 also gradients, 3 also weights (Rajbhandari et al. 2020,
    arXiv 1910.02054, figure 1). Where gradients are freed with each step, the first micro-batch
    finds none. Frozen weights have neither gradients nor optimizer states. ``offload`` (N, Z) is
    above 0 where the optimizer's states live on the host and are updated there, from gradients
    that are copied to it.
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
    tables = parameters.vocabulary[:, :, None]
    table_share = owned_share(
        profile, (parameters.vocabulary, 0.0 * parameters.expert), shapes, shardings
    )
    fresh = full | (not profile.memory.gradients_persist)
    first = fresh & (shapes.microbatches == 1)[:, None, None]
    optimizer = rates.optimizer * owned + rates.tables * np.where(zero >= 1, table_share, tables)
    here = (offload == 0)[:, None, :].astype(np.float64)
    return States(
        np.where(
            full,
            rates.sharded_weights * share + rates.here * frozen_share,
            rates.weights * whole + rates.here * frozen_whole,
        ),
        here * optimizer,
        gradients,
        np.where(first, 0.0, gradients),
        here * rates.update * owned,
        (1 - here) * (optimizer + HOST_GRADIENT_BYTES * owned),
    )


def least_states(
    job: Job, profile: Profile, weights: Weights, shapes: Shapes, offload: int
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
    here = float(offload == 0)
    static = (min(rates.sharded_weights, rates.weights) + here * rates.optimizer) * share
    tables = (parameters.vocabulary, 0.0 * parameters.expert)
    static = static + here * rates.tables * owned_share(profile, tables, shapes, everything)[..., 0]
    static = static + rates.here * kept
    gradients = rates.gradients * share
    several = (shapes.microbatches > 1)[:, None]
    return static, several * gradients, gradients + here * rates.update * share
