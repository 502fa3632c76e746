"""Peak memory of one GPU, itemised, for every stage class, recomputation and sharding.

The need is what the card must have: peak allocated bytes on the worst rank times the allocator's
overhead, plus the CUDA context and communication buffers. The peak falls in one of the phases of a
step named in ``PHASES``. Shapes of arrays: N shapes, 4 stage classes, K kinds of recomputation, Z
shardings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from ...axes.data import FULL_SHARDING
from ...job.job import Job, Recompute
from ..parameters import weight_shapes
from ..profile import Profile
from ..shapes import Shapes, Shardings
from ..stages import Stages
from ..ticks import FloatArray, IntArray
from .activations import (
    HALF,
    Saved,
    activation_bytes,
    loss_bytes,
    saved_per_token,
    sequence_ranks,
    tokens_per_rank,
)
from .options import MemoryOptions, Metric
from .states import States, least_states, state_bytes, weights_of, whole_bytes

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

    def _largest_phase(self, scale: float, offset: float, beside: FloatArray) -> FloatArray:
        """Return scale · bytes + offset of the largest phase, shape (N, 4, K, Z).

        ``beside`` (N, 4, Z) is added to the phases that keep activations. Small arrays are summed
        first; this is what pricing a million choices spends its time on.
        """
        static = self.states.weights + self.states.optimizer

        def parts(phase: Phase, more: FloatArray | float) -> tuple[FloatArray, FloatArray]:
            kinds = scale * (phase.activations + phase.moving + phase.logits[..., None])
            columns = scale * (static + phase.gradients + phase.whole + more) + offset
            return kinds[..., None], columns[:, :, None, :]

        ends = [np.add(*parts(phase, 0.0)) for phase in self.phases[WITH_KEPT:]]
        kinds, columns = parts(self.phases[0], beside)
        peak = np.asarray(kinds + columns)
        np.maximum(peak, reduce(np.maximum, ends), out=peak)
        room = np.empty_like(peak)
        for phase in self.phases[1:WITH_KEPT]:
            np.maximum(peak, np.add(*parts(phase, beside), out=room), out=peak)
        return peak

    @cached_property
    def allocated(self) -> FloatArray:
        """Peak bytes in tensors, shape (N, 4, K, Z)."""
        return self._largest_phase(1.0, 0.0, np.zeros((1, 1, 1)))

    @cached_property
    def phase(self) -> IntArray:
        """Index into ``PHASES`` of the peak, shape (N, 4, K, Z)."""
        static = self.states.weights + self.states.optimizer
        sums = [
            (p.activations + p.moving + p.logits[..., None])[..., None]
            + (static + p.gradients + p.whole)[:, :, None, :]
            for p in self.phases
        ]
        return np.asarray(np.stack(np.broadcast_arrays(*sums)).argmax(axis=0))

    def total(self, metric: Metric = "device") -> FloatArray:
        """Peak by metric, shape (N, 4, K, Z): by default what the card must have."""
        if metric == "allocated":
            return self.allocated
        states, options = self.states, self.options
        beside = np.zeros((1, 1, 1))
        if not options.reuse:
            beside = states.gradients - states.early_gradients + states.update
        fixed = fixed_bytes(options) if metric == "device" else 0.0
        return self._largest_phase(options.allocator, fixed, beside)

    @property
    def reclaimable(self) -> FloatArray:
        """Part of the reserve that the allocator gives back before it fails."""
        options = self.options
        return options.reclaimed * (options.allocator - 1) * self.allocated

    def _at_peak(self, item: Callable[[Phase], FloatArray]) -> FloatArray:
        shape = self.allocated.shape
        values = np.stack([np.broadcast_to(item(p), shape) for p in self.phases])
        picked: FloatArray = np.take_along_axis(values, self.phase[None], axis=0)[0]
        return picked

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


def fixed_bytes(options: MemoryOptions) -> float:
    """Bytes outside the allocator: context and communication buffers."""
    return options.context_bytes + options.communication_bytes


def _largest(stages: Stages, dense: FloatArray, moe: FloatArray) -> FloatArray:
    """Return the larger of the two kinds of layer on a stage, shape (N, 4)."""
    return np.maximum(
        np.where(stages.dense_layers > 0, dense[:, None], 0.0),
        np.where(stages.moe_layers > 0, moe[:, None], 0.0),
    )


@dataclass(frozen=True)
class Backward:
    """What the backward of a layer moves, bytes.

    Attributes
    ----------
    moved
        Temporaries, and a layer recomputed in full, held beside its kept input; (N, 4, K).
    freed
        What the stage's largest layer kept, gone after its backward; (N, 4, K).
    last
        Temporaries of the last backward, with what its layer keeps; (N, 4).
    """

    moved: FloatArray
    freed: FloatArray
    last: FloatArray


def _backward(
    job: Job, profile: Profile, shapes: Shapes, stages: Stages,
    saved: Mapping[Recompute, Saved], kinds: tuple[Recompute, ...],
) -> Backward:  # fmt: skip
    model = job.transformer
    tp, sp = shapes.tp.astype(np.float64), sequence_ranks(profile, shapes)
    tokens = tokens_per_rank(job, shapes)[:, None]
    widest = max(model.ffn if model.dense_layers else 0, model.moe.ffn if model.moe else 0)
    between = HALF * model.hidden / sp + HALF * widest * (2 if model.gated else 1) / tp
    moved = tokens * (between + np.where(sp > 1, REGATHERED * model.hidden, 0.0))[:, None]
    whole = moved + tokens * _largest(stages, *saved["none"])
    moved = np.broadcast_to(moved, whole.shape)
    freed = [tokens * _largest(stages, *saved[kind]) for kind in kinds]
    some = stages.recomputed > 0
    if some.any():
        # One recomputed layer is held whole as with full recomputation, and frees its input only.
        moved = np.where(some, whole, moved)
        least = tokens * (HALF * model.hidden / sp)[:, None]
        freed = [np.where(some, np.minimum(least, part), part) for part in freed]
    return Backward(
        np.stack([whole if kind == "full" else moved for kind in kinds], axis=-1),
        np.stack(freed, axis=-1),
        whole,
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
    weights = weights_of(job, shapes, stages)
    states = state_bytes(job, profile, weights, shapes, shardings)
    whole = whole_bytes(job, profile, weights, shapes, stages, shardings)
    if options.cached_gradients:
        cached = HALF * weight_shapes(job, shapes, stages)[:, :, None]
        whole = replace(whole, stay=whole.stay + cached)
    saved = {kind: saved_per_token(job, profile, shapes, kind) for kind in ("none", *kinds)}
    kept = activation_bytes(job, profile, shapes, stages, [saved[kind] for kind in kinds])
    logits = loss_bytes(job, profile, shapes, stages)
    backward = _backward(job, profile, shapes, stages, saved, kinds)
    full = (shardings.zero == FULL_SHARDING)[:, None, :]
    none, nothing = np.zeros((1, 1, 1)), np.zeros((1, 1))
    early, every, stay = states.early_gradients, states.gradients, whole.stay
    end = stay + np.maximum(whole.root, states.update)
    in_layer = stay + whole.layer
    once_less = np.maximum(kept - backward.freed, 0.0)
    sharded = np.where(full, in_layer, -np.inf)
    late = np.maximum(every - whole.missing, 0.0)
    phases = (
        Phase(early, kept, logits, none, stay + whole.unfreed),
        Phase(early, kept, nothing, backward.moved, np.where(full, -np.inf, in_layer)),
        Phase(early, once_less, nothing, backward.moved, sharded),
        Phase(late, none, nothing, backward.last[..., None], sharded),
        Phase(every, none, nothing, none, end),
    )
    return MemoryItems(states, phases, options)


def least_bytes(
    job: Job, profile: Profile, shapes: Shapes, stages: Stages, kinds: tuple[Recompute, ...]
) -> FloatArray:
    """Bound the peak from below over every sharding and recomputation, shape (N, 4).

    ``kinds`` are in order of time, which is the reverse order of what they keep. Every term left
    out is at least zero, and every term kept is at its least over the choices.
    """
    weights = weights_of(job, shapes, stages)
    static, early, end = least_states(job, profile, weights, shapes)
    saved = saved_per_token(job, profile, shapes, kinds[-1])
    kept = activation_bytes(job, profile, shapes, stages, [saved])[..., 0]
    at_loss = kept + loss_bytes(job, profile, shapes, stages)
    at_loss = at_loss + (early if profile.memory.reuse else end)
    allocated = static + np.maximum(at_loss, end)
    return np.asarray(profile.memory.allocator * allocated + fixed_bytes(profile.memory))
