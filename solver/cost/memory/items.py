"""Bytes of one GPU by item at the peak, and what of them the card and the host hold.

Shapes of arrays: N shapes, 4 stage classes, K kinds of recomputation, Z shardings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from ..ticks import BoolArray, FloatArray, IntArray
from .options import MemoryOptions, Metric
from .states import States

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
class Moved:
    """The same phases where kept activations live on the host.

    Attributes
    ----------
    phases
        As in `MemoryItems`.
    columns
        Shardings with which they do, (N, Z).
    activations
        Bytes on the host, (N, 4, K).
    """

    phases: tuple[Phase, ...]
    columns: BoolArray
    activations: FloatArray


NEVER_BYTES = 2.0**50
"""Need of what a host cannot hold: more than any card."""


@dataclass(frozen=True)
class MemoryItems:
    """Bytes by item, at the peak; each item broadcasts to (N, 4, K, Z)."""

    states: States
    phases: tuple[Phase, ...]
    options: MemoryOptions
    moved: Moved | None = None

    def _largest_phase(self, scale: float, offset: float, beside: FloatArray) -> FloatArray:
        """Return scale · bytes + offset of the largest phase, shape (N, 4, K, Z)."""
        peak = self._largest_of(self.phases, scale, offset, beside)
        if self.moved is None:
            return peak
        moved = self._largest_of(self.moved.phases, scale, offset, beside)
        return np.where(self.moved.columns[:, None, None, :], moved, peak)

    def _largest_of(
        self, phases: tuple[Phase, ...], scale: float, offset: float, beside: FloatArray
    ) -> FloatArray:
        """Return scale · bytes + offset of the largest of some phases, shape (N, 4, K, Z).

        ``beside`` (N, 4, Z) is added to the phases that keep activations. Small arrays are summed
        first; this is what pricing a million choices spends its time on.
        """
        static = self.states.weights + self.states.optimizer

        def parts(phase: Phase, more: FloatArray | float) -> tuple[FloatArray, FloatArray]:
            kinds = scale * (phase.activations + phase.moving + phase.logits[..., None])
            columns = scale * (static + phase.gradients + phase.whole + more) + offset
            return kinds[..., None], columns[:, :, None, :]

        ends = [np.add(*parts(phase, 0.0)) for phase in phases[WITH_KEPT:]]
        kinds, columns = parts(phases[0], beside)
        peak = np.asarray(kinds + columns)
        np.maximum(peak, reduce(np.maximum, ends), out=peak)
        room = np.empty_like(peak)
        for phase in phases[1:WITH_KEPT]:
            np.maximum(peak, np.add(*parts(phase, beside), out=room), out=peak)
        return peak

    @cached_property
    def allocated(self) -> FloatArray:
        """Peak bytes in tensors, shape (N, 4, K, Z)."""
        return self._largest_phase(1.0, 0.0, np.zeros((1, 1, 1)))

    @cached_property
    def phase(self) -> IntArray:
        """Index into ``PHASES`` of the peak, shape (N, 4, K, Z)."""
        which = self._phase_of(self.phases)
        if self.moved is None:
            return which
        moved = self._phase_of(self.moved.phases)
        return np.where(self.moved.columns[:, None, None, :], moved, which)

    def _phase_of(self, phases: tuple[Phase, ...]) -> IntArray:
        static = self.states.weights + self.states.optimizer
        sums = [
            (p.activations + p.moving + p.logits[..., None])[..., None]
            + (static + p.gradients + p.whole)[:, :, None, :]
            for p in phases
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

        def values(phases: tuple[Phase, ...]) -> FloatArray:
            every = np.stack([np.broadcast_to(item(p), shape) for p in phases])
            return np.asarray(np.take_along_axis(every, self.phase[None], axis=0)[0])

        picked = values(self.phases)
        if self.moved is None:
            return picked
        return np.where(self.moved.columns[:, None, None, :], values(self.moved.phases), picked)

    @property
    def host(self) -> FloatArray:
        """Bytes that one GPU's rank keeps on the host, shape (N, 4, K, Z)."""
        states = np.broadcast_to(self.states.host[:, :, None, :], self.allocated.shape)
        if self.moved is None:
            return states
        columns = self.moved.columns[:, None, None, :]
        return np.asarray(states + columns * self.moved.activations[..., None])

    def need(self, host_bytes: FloatArray | None) -> FloatArray:
        """Need of the card, (N, 4, K, Z); endless where a rank's share of its host is too small."""
        total = self.total()
        if host_bytes is None:
            return total
        return np.where(self.host > host_bytes, np.maximum(total, NEVER_BYTES), total)

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
