"""Peak memory of one GPU, itemised, for every stage class, recomputation and sharding.

The need is what the card must have: peak allocated bytes on the worst rank times the allocator's
overhead, plus the CUDA context and communication buffers. The peak falls in one of the phases of a
step named in ``PHASES``. Shapes of arrays: N shapes, 4 stage classes, K kinds of recomputation, Z
shardings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..job.job import Job, Recompute
from .activations import (
    HALF,
    activation_bytes,
    loss_bytes,
    saved_per_token,
    sequence_ranks,
    tokens_per_rank,
)
from .memory_options import MemoryOptions, Metric
from .parameters import held, weight_shapes
from .profile import Profile
from .shapes import Shapes, Shardings
from .stages import Stages
from .states import FULL_SHARDING, States, Whole, state_bytes, whole_bytes
from .ticks import FloatArray

REGATHERED = 4.0
"""Gathered input and gradient of a sequence-parallel block, 16 bit, a token and hidden unit."""
PHASES = ("loss", "backward", "sharded backward", "last backward", "optimizer")
"""When a peak can fall: at the loss; in the first backward of a micro-batch, with everything kept
(the second one where weights are sharded: then gradients of a layer wait for their reduction); in
the last backward, with nearly all gradients (sharded weights); at the end, when the root's
gradients are reduced or the optimizer holds temporaries."""

WITH_KEPT = 3
"""Phases in which activations are kept."""


@dataclass(frozen=True)
class Phase:
    """Bytes in one phase, beside weights and optimizer states.

    Attributes
    ----------
    gradients
        (N, 4, Z).
    activations
        (N, 4, K).
    logits
        (N, 4).
    moving
        Temporaries by recomputation, (N, 4, K).
    whole
        What is gathered or not yet scattered, (N, 4, Z); minus infinity where the phase doesn't
        occur.
    """

    gradients: FloatArray
    activations: FloatArray
    logits: FloatArray
    moving: FloatArray
    whole: FloatArray


@dataclass(frozen=True)
class MemoryItems:
    """Bytes by item, at the peak; each item broadcasts to (N, 4, K, Z)."""

    states: States
    phases: tuple[Phase, ...]
    options: MemoryOptions

    @cached_property
    def _sums(self) -> FloatArray:
        """Bytes in each phase, (5, N, 4, K, Z)."""
        static = self.states.weights + self.states.optimizer
        return np.stack(
            [
                (p.activations + p.moving + p.logits[..., None])[..., None]
                + (static + p.gradients + p.whole)[:, :, None, :]
                for p in self.phases
            ]
        )

    @cached_property
    def allocated(self) -> FloatArray:
        """Peak bytes in tensors, shape (N, 4, K, Z)."""
        return np.asarray(self._sums.max(axis=0))

    @cached_property
    def phase(self) -> FloatArray:
        """Index into ``PHASES`` of the peak, shape (N, 4, K, Z)."""
        return np.asarray(self._sums.argmax(axis=0))

    def total(self, metric: Metric = "device") -> FloatArray:
        """Peak by metric, shape (N, 4, K, Z): by default what the card must have."""
        if metric == "allocated" or self.options.reuse:
            return shown_bytes(self.options, self.allocated, metric)
        states = self.states
        beside = states.gradients - states.early_gradients + states.update
        blocks = np.maximum(
            self._sums[:WITH_KEPT].max(axis=0) + beside[:, :, None, :], self.allocated
        )
        return shown_bytes(self.options, blocks, metric)

    @property
    def reclaimable(self) -> FloatArray:
        """Part of the reserve that the allocator gives back before it fails."""
        options = self.options
        return options.reclaimed * (options.allocator - 1) * self.allocated

    def _at_peak(self, item: Callable[[Phase], FloatArray]) -> FloatArray:
        shape = self.allocated.shape
        values = np.stack([np.broadcast_to(item(p), shape) for p in self.phases])
        return np.take_along_axis(values, self.phase[None], axis=0)[0]

    @property
    def weights(self) -> FloatArray:
        """Weights."""
        return self.states.weights[:, :, None, :]

    @property
    def optimizer(self) -> FloatArray:
        """Master weights and moments."""
        return self.states.optimizer[:, :, None, :]

    @property
    def gradients(self) -> FloatArray:
        """Gradients that exist at the peak."""
        return self._at_peak(lambda p: p.gradients[:, :, None, :])

    @property
    def activations(self) -> FloatArray:
        """What is kept for backward at the peak."""
        return self._at_peak(lambda p: p.activations[..., None])

    @property
    def logits(self) -> FloatArray:
        """Logits and loss at the peak."""
        return self._at_peak(lambda p: p.logits[..., None, None])

    @property
    def buffers(self) -> FloatArray:
        """Temporaries, gathered weights and whole gradients at the peak."""
        return self._at_peak(lambda p: p.moving[..., None] + p.whole[:, :, None, :])

    @property
    def reserve(self) -> FloatArray:
        """What the allocator, the context and communication add."""
        return self.total() - self.allocated


def shown_bytes(options: MemoryOptions, allocated: FloatArray, metric: Metric) -> FloatArray:
    """Turn allocated bytes into what a metric shows."""
    if metric == "allocated":
        return allocated
    reserved = options.allocator * allocated
    fixed = options.context_bytes + options.communication_bytes
    return np.asarray(reserved if metric == "reserved" else reserved + fixed)


def _largest(stages: Stages, dense: FloatArray, moe: FloatArray) -> FloatArray:
    """Return the larger of the two kinds of layer on a stage, shape (N, 4)."""
    return np.maximum(
        np.where(stages.dense_layers > 0, dense[:, None], 0.0),
        np.where(stages.moe_layers > 0, moe[:, None], 0.0),
    )


@dataclass(frozen=True)
class Backward:
    """Temporaries of a layer's backward, bytes.

    Attributes
    ----------
    plain, sharded
        In the first backward beside everything kept, replicated and sharded weights; (N, 4, K).
    last
        In the last backward of sharded weights, with what that layer keeps; (N, 4).
    """

    plain: FloatArray
    sharded: FloatArray
    last: FloatArray


def _backward(
    job: Job, profile: Profile, shapes: Shapes, stages: Stages, kinds: tuple[Recompute, ...]
) -> Backward:
    model = job.transformer
    tp, sp = shapes.tp.astype(np.float64), sequence_ranks(profile, shapes)
    tokens = tokens_per_rank(job, shapes)[:, None]
    widest = max(model.ffn if model.dense_layers else 0, model.moe.ffn if model.moe else 0)
    between = HALF * model.hidden / sp + HALF * widest * (2 if model.gated else 1) / tp
    between = (between + np.where(sp > 1, REGATHERED * model.hidden, 0.0))[:, None]
    whole = _largest(stages, *saved_per_token(job, profile, shapes, "none"))
    plain, sharded = [], []
    for kind in kinds:
        kept = _largest(stages, *saved_per_token(job, profile, shapes, kind))
        # A layer recomputed in full is held beside its kept input.
        again = whole if kind == "full" else 0.0 * whole
        plain.append(tokens * (between + again))
        # The last layer has been through its backward by then.
        sharded.append(tokens * (between + again - kept))
    return Backward(
        np.stack(plain, axis=-1), np.stack(sharded, axis=-1), tokens * (between + whole)
    )


def memory_items(
    job: Job,
    profile: Profile,
    shapes: Shapes,
    stages: Stages,
    shardings: Shardings,
    kinds: tuple[Recompute, ...],
) -> MemoryItems:
    """Itemise the peak of each stage class, recomputation and sharding."""
    options = profile.memory
    parameters = held(job.transformer, shapes, stages)
    states = state_bytes(job, profile, parameters, shapes, shardings)
    whole = whole_bytes(job, profile, parameters, shapes, stages, shardings)
    if options.cached_gradients:
        cached = HALF * weight_shapes(job.transformer, shapes, stages)[:, :, None]
        whole = replace_stay(whole, cached)
    kept = activation_bytes(job, profile, shapes, stages, kinds)
    logits = loss_bytes(job, profile, shapes, stages)
    backward = _backward(job, profile, shapes, stages, kinds)
    full = (shardings.zero == FULL_SHARDING)[:, None, :]
    none, nothing = 0.0 * kept, 0.0 * logits
    early, every, stay = states.early_gradients, states.gradients, whole.stay
    end = stay + np.maximum(whole.root, states.update)
    in_layer = stay + whole.layer
    phases = (
        Phase(early, kept, logits, none, stay + whole.unfreed),
        Phase(early, kept, nothing, backward.plain, np.where(full, -np.inf, in_layer)),
        Phase(early, kept, nothing, backward.sharded, np.where(full, in_layer, -np.inf)),
        Phase(
            np.maximum(every - whole.missing, 0.0), none, nothing,
            none + backward.last[..., None], np.where(full, in_layer, -np.inf),
        ),
        Phase(every, none, nothing, none, end),
    )  # fmt: skip
    return MemoryItems(states, phases, options)


def replace_stay(whole: Whole, more: FloatArray) -> Whole:
    """Add what stays through the step."""
    return Whole(whole.stay + more, whole.unfreed, whole.layer, whole.root, whole.missing)


def least_bytes(
    job: Job, profile: Profile, shapes: Shapes, stages: Stages, kinds: tuple[Recompute, ...]
) -> FloatArray:
    """Bound the peak from below over every sharding and recomputation, shape (N, 4).

    ``kinds`` are in order of time, which is the reverse order of what they keep. Every term left
    out is at least zero, and every term kept is at its least over the choices.
    """
    one = np.ones((len(shapes), 1), np.int64)
    everything = Shardings(FULL_SHARDING * one, one, one.astype(bool))
    parameters = held(job.transformer, shapes, stages)
    states = state_bytes(job, profile, parameters, shapes, everything)
    kept = activation_bytes(job, profile, shapes, stages, kinds[-1:])[..., 0]
    at_loss = states.early_gradients[..., 0] + kept + loss_bytes(job, profile, shapes, stages)
    at_end = (states.gradients + states.update)[..., 0]
    if not profile.memory.reuse:
        at_loss = at_loss + at_end - states.early_gradients[..., 0]
    allocated = (states.weights + states.optimizer)[..., 0] + np.maximum(at_loss, at_end)
    return shown_bytes(profile.memory, allocated, "device")
