"""Seconds of one micro-batch on each stage: layers, recomputation, communication by axis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..axes import context, expert, tensor
from ..job.job import Job
from ..job.search import Recompute
from .communication import neighbour_seconds
from .frozen import layers_with_backward
from .layer import LayerTimes, Part
from .machine import Machine
from .parameters import trained
from .schedule import spared_seconds
from .shapes import Shapes
from .stages import Stages
from .ticks import FloatArray, IntArray

AXES = {"tp": tensor.BACKWARD, "cp": context.BACKWARD, "ep": expert.BACKWARD}
"""Axes with traffic in every layer, and their backward volume over forward."""
REDUCED = {**AXES, "tp": tensor.BACKWARD_REDUCED}
"""The same without sequence parallelism."""

Weights = dict[str, FloatArray]
"""How many layers of each kind, embeddings and heads a stage holds, (N, 4)."""


@dataclass(frozen=True)
class StageTimes:
    """Seconds of one micro-batch on a stage, (N, 4) or (N, 4, K); all with the scale's slowdown.

    Attributes
    ----------
    forward, backward
        Compute without recomputation.
    recompute
        Compute that recomputation adds to backward.
    exposed, total
        Communication by axis, forward and backward and recomputation.
    weight, least
        Part of backward that only gives gradients of weights, and the least of forward, gradients
        of inputs and these, layer by layer; (N, 4), 0 where the schedule does not part them.
    """

    forward: FloatArray
    backward: FloatArray
    recompute: FloatArray
    exposed: dict[str, FloatArray]
    total: dict[str, FloatArray]
    weight: FloatArray | float = 0.0
    least: FloatArray | float = 0.0

    def spared(self, shapes: Shapes) -> FloatArray | float:
        """Return what the schedule takes out of each stage's share of the fill, (N, 4) or 0."""
        if isinstance(self.weight, float):
            return 0.0
        column = (slice(None), None)
        return spared_seconds(shapes.pp[column], shapes.microbatches[column], self.weight,
                              np.asarray(self.least))  # fmt: skip

    @property
    def base(self) -> FloatArray:
        """Everything but data-parallel traffic, (N, 4, K)."""
        layer = (self.forward + self.backward)[..., None] + self.recompute
        return np.asarray(layer + sum(self.exposed.values()))


@dataclass(frozen=True)
class Laid:
    """Layers laid on stages.

    Attributes
    ----------
    shapes, stages
        Layouts and their stages.
    layers, core
        Times of the distinct layers, and which of them each shape has.
    slow
        Factor on every time, (N, 1).
    """

    shapes: Shapes
    stages: Stages
    layers: LayerTimes
    core: IntArray
    slow: FloatArray

    @cached_property
    def weights(self) -> Weights:
        """What each stage holds."""
        stages = self.stages
        return {
            "dense": stages.dense_layers.astype(np.float64),
            "moe": stages.moe_layers.astype(np.float64),
            "embedding": stages.has_embedding.astype(np.float64),
            "head": stages.has_head.astype(np.float64),
        }

    def summed(self, weights: Weights, pick: str, which: int | None = None) -> FloatArray:
        """Add a part of the layers of each stage up, seconds (N, 4)."""
        total = np.zeros_like(self.slow)
        for name, held in weights.items():
            if held.any():
                value = getattr(getattr(self.layers, name), pick)
                part = value if which is None else value[which]
                total = total + held * part[self.core, None]
        return np.asarray(total * self.slow)


def stage_times(
    job: Job, machine: Machine, laid: Laid, kinds: tuple[Recompute, ...], *, both: bool = True
) -> StageTimes:
    """Time one micro-batch on a stage of each class.

    ``both`` tells all traffic apart from the exposed; without it ``total`` is the exposed too.
    """
    weights, slow, profile = laid.weights, laid.slow, machine.profile
    finetune = job.finetune
    passes = 2 if finetune is not None and finetune.reference_model else 1
    after = weights if finetune is None else _with_backward(job, laid)
    forward = laid.summed(weights, "forward")
    backward = laid.summed(after, "backward")
    recompute = _recomputation(laid, after, forward if after is weights else None, kinds)
    repeats = np.array([float(kind == "full") for kind in kinds])
    axes = _axes(machine)
    sides: list[dict[str, FloatArray]] = []
    for which in (0, 1) if both else (0,):
        side = {}
        for axis, ratio in axes.items():
            there = laid.summed(weights, axis, which)
            back = there if after is weights else laid.summed(after, axis, which)
            side[axis] = passes * there[..., None] + back[..., None] * (ratio + repeats)
        sides.append(side)
    if laid.stages.recomputed.any():
        again = _recomputed(laid, after)
        recompute = recompute + _more_recomputation(laid, again, kinds)
        for which, side in enumerate(sides):
            for axis in axes:
                side[axis] += laid.summed(again, axis, which)[..., None] * (1 - repeats)
    sent = neighbour_seconds(job, machine, laid.shapes)
    for side, value in zip(sides, sent, strict=False):
        # A reference model sends forward only: half of what a trained one sends.
        sends = (1 + passes) / 2 * value[:, None] * slow * laid.stages.pipelined
        side["pp"] = sends[..., None] + 0 * repeats
    micro = profile.stack.microbatch_overhead_s * slow
    accumulate = profile.stack.accumulate_bytes / machine.hbm_bytes_per_s
    if np.any(accumulate > 0):
        micro = micro + accumulate * trained(job, laid.shapes, laid.stages).every
    times = StageTimes(passes * forward, backward + micro, recompute, sides[0], sides[-1])
    if profile.software.schedule != "zb-h1":
        return times
    return replace(times, weight=laid.summed(after, "weight"), least=laid.summed(after, "least"))


def least_layer_seconds(
    job: Job, machine: Machine, layers: LayerTimes, kinds: tuple[Recompute, ...]
) -> tuple[FloatArray, FloatArray]:
    """Bound what a dense and a mixture layer add to a micro-batch on any stage, seconds (cores,).

    Forward only where some layers may be frozen.
    """
    if job.finetune is not None:
        return layers.dense.forward, layers.moe.forward
    again = float(kinds[0] == "full")
    axes = _axes(machine)

    def seconds(part: Part) -> FloatArray:
        compute = (1 + again) * part.forward + part.backward
        sent = (getattr(part, axis)[0] * (1 + ratio + again) for axis, ratio in axes.items())
        return np.asarray(compute + sum(sent))

    return seconds(layers.dense), seconds(layers.moe)


def _axes(machine: Machine) -> dict[str, float]:
    """Return the backward volume over forward of each axis with traffic in every layer."""
    software = machine.profile.software
    axes = AXES if software.sequence_parallel else REDUCED
    return {**axes, "cp": context.BACKWARD_HEADS} if software.cp_comm == "all_to_all" else axes


def _with_backward(job: Job, laid: Laid) -> Weights:
    """Return the layers that have a backward pass."""
    left = layers_with_backward(job, laid.shapes, laid.stages)
    dense, moe = left.dense_layers, left.moe_layers
    trained_layers = {"dense": dense.astype(np.float64), "moe": moe.astype(np.float64)}
    return laid.weights | trained_layers


def _recomputation(
    laid: Laid, after: Weights, forward: FloatArray | None, kinds: tuple[Recompute, ...]
) -> FloatArray:
    """Return what each kind repeats of the layers with a backward pass, (N, 4, K)."""
    nothing = np.zeros(laid.stages.count.shape)
    parts = []
    for kind in kinds:
        if kind == "none":
            parts.append(nothing)
        elif kind == "selective":
            parts.append(laid.summed(after, "attention"))
        else:
            again = laid.summed(after, "forward") if forward is None else forward
            head = laid.layers.head.forward[laid.core, None] * laid.slow
            parts.append(again - laid.weights["head"] * head)
    return np.stack(parts, axis=-1)


def _recomputed(laid: Laid, after: Weights) -> Weights:
    """Return the layers that the stages recompute in full, whatever the kind."""
    return {
        "dense": np.minimum(laid.stages.recomputed_dense, after["dense"]),
        "moe": np.minimum(laid.stages.recomputed_moe, after["moe"]),
    }


def _more_recomputation(laid: Laid, again: Weights, kinds: tuple[Recompute, ...]) -> FloatArray:
    """Return what recomputing these layers in full adds to each kind, (N, 4, K)."""
    whole = laid.summed(again, "forward")
    known = {
        "none": whole,
        "selective": whole - laid.summed(again, "attention"),
        "full": 0.0 * whole,
    }
    return np.stack([known[kind] for kind in kinds], axis=-1)
