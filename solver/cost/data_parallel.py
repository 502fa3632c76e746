"""Data-parallel traffic: what a micro-batch waits for, and what is left when the step drains.

Shapes of arrays: N shapes, 4 stage classes, K recomputations, Z shardings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..axes.data import FULL_SHARDING
from ..job.job import Job
from .machine import Machine
from .memory.states import Weights, shard_ranks
from .shapes import Shapes, Shardings
from .stages import Stages
from .ticks import FloatArray, IntArray

GATHERED_BYTES = 2.0
"""Parameters travel in 16 bit."""
HIDING_MICROBATCHES = 2
"""Micro-batches at either end of the step that once-a-step traffic hides behind (fitted)."""
SHARDED_GRADIENTS = 2
"""ZeRO stage from which every micro-batch scatters its gradients."""
GATHERS = 3
"""ZeRO-3 traffic of a layer: gather forward, gather backward, scatter of the gradient."""


@dataclass(frozen=True)
class DataTraffic:
    """Seconds of data-parallel traffic; each array broadcasts to (N, 4, K, Z).

    Attributes
    ----------
    microbatch_exposed, microbatch_total
        Of each micro-batch (ZeRO 2 and 3).
    step_exposed, step_total
        Once a step, after the pipeline has drained.
    """

    microbatch_exposed: FloatArray
    microbatch_total: FloatArray
    step_exposed: FloatArray
    step_total: FloatArray


@dataclass(frozen=True)
class Passes:
    """Seconds of one micro-batch on a stage, forward (N, 4, 1) and backward (N, 4, K)."""

    forward: FloatArray
    backward: FloatArray


def data_traffic(
    job: Job, machine: Machine, shapes: Shapes, shardings: Shardings, stages: Stages,
    weights: Weights, passes: Passes,
) -> DataTraffic:  # fmt: skip
    """Price the traffic of every sharding against the compute that it may hide under."""
    pricing = _Pricing(job, machine, shapes, shardings, stages, weights)
    forward, backward = passes.forward[..., None], passes.backward[..., None]
    zero = shardings.zero[:, None, None, :]
    ahead, back, sent = _each(machine, pricing, zero, forward, backward)
    step_gather, step_scatter = pricing.once(zero)
    batches = np.minimum(shapes.microbatches, HIDING_MICROBATCHES)[:, None, None, None]
    overlap = machine.profile.dp_overlap * batches
    vocabulary = pricing.vocabulary_share()
    left = (
        np.maximum(step_scatter - overlap * backward, vocabulary * step_scatter)
        + np.maximum(step_gather - overlap * forward, vocabulary * step_gather)
    )  # fmt: skip
    return DataTraffic(
        ahead + back,
        sent,
        left,
        np.broadcast_to(step_gather + step_scatter, left.shape),
    )


def _each(
    machine: Machine, pricing: _Pricing, zero: IntArray, forward: FloatArray, backward: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Traffic of each micro-batch: exposed forward, exposed backward, and in all."""
    scatters, full = zero >= SHARDED_GRADIENTS, zero == FULL_SHARDING
    if not scatters.any():
        none = np.zeros(np.broadcast_shapes(forward.shape, backward.shape, zero.shape))
        return none, none, none
    per_layer = pricing.gather_latency()
    gather = np.where(full, pricing.gather() + per_layer, 0.0)
    back = gather + np.where(scatters, pricing.scatter() + per_layer, 0.0)
    return _hide(machine, gather, forward), _hide(machine, back, backward), gather + back


def _hide(machine: Machine, traffic: FloatArray, compute: FloatArray) -> FloatArray:
    """Return what a pass waits for: traffic beyond the compute it may hide under, and contention.

    Gathers share the GPU with compute: a part of what is hidden still slows it.
    """
    stack = machine.profile.stack
    hidden = np.minimum(traffic, stack.fsdp_overlap * compute)
    return np.asarray(traffic - hidden + stack.fsdp_contention * hidden)


class _Pricing:
    """Bandwidths and volumes of the groups of each sharding; arrays (N, 4, 1, Z)."""

    def __init__(
        self, job: Job, machine: Machine, shapes: Shapes, shardings: Shardings, stages: Stages,
        weights: Weights,
    ) -> None:  # fmt: skip
        self.job, self.machine, self.shapes = job, machine, shapes
        self.shardings, self.weights, self.trained = shardings, weights, weights.trained
        self.layers = stages.layers[:, :, None, None]
        self.dense_ranks, self.expert_ranks = shard_ranks(shapes, shardings)
        self._spread()

    def _spread(self) -> None:
        """Find how far the groups reach.

        Where stages lie between replicas, a dense group is blocks of CP ranks far apart.
        """
        shapes, used = self.shapes, self.shapes.gpus[:, None]
        split = ((shapes.order > 0) & (shapes.pp > 1))[:, None]
        stride, apart = shapes.tp[:, None], (shapes.ep * shapes.etp)[:, None]
        ranks, experts = self.dense_ranks.astype(np.int64), self.expert_ranks.astype(np.int64)
        if split.any():
            block = np.where(split, shapes.cp[:, None], 1)
            inner = (block, stride)
            stride = np.where(split, shapes.replica_stride[:, None], stride)
            apart = np.where(split, apart * shapes.pp[:, None], apart)
            ranks = np.maximum(ranks // block, 1)
            self.dense_reach = self.machine.reach(ranks, stride, used, inner)
        else:
            self.dense_reach = self.machine.reach(ranks, stride, used)
        self.expert_reach = self.machine.reach(experts, apart, used)
        self.replica_reach = self.machine.reach(self.shardings.replicas, stride * ranks, used)

    def _seconds(
        self, dense: FloatArray, expert: FloatArray, fabric: float, link: float
    ) -> FloatArray:
        """Ring time of (n - 1)/n of the bytes, both kinds one after the other."""
        total = np.zeros(1)
        for volume, ranks, reach in (
            (dense, self.dense_ranks, self.dense_reach),
            (expert, self.expert_ranks, self.expert_reach),
        ):
            rate = self.machine.bytes_per_s(reach, fabric=fabric, link=link)
            total = total + volume[..., None] * ((ranks - 1) / ranks / rate)[:, None, None, :]
        return np.asarray(total)

    def _volumes(self, byte_width: float) -> tuple[FloatArray, FloatArray]:
        return (
            byte_width * self.trained.dense[:, :, None],
            byte_width * self.trained.expert[:, :, None],
        )

    def gather(self) -> FloatArray:
        """Gather of all of a stage's weights inside the shard group."""
        stack = self.machine.profile.stack
        dense, expert = self._volumes(GATHERED_BYTES)
        frozen = self.weights.frozen
        dense, expert = dense + frozen.dense[:, :, None], expert + frozen.expert[:, :, None]
        return self._seconds(dense, expert, stack.fsdp_fabric, stack.fsdp_link)

    def scatter(self) -> FloatArray:
        """Reduce-scatter of all of a stage's gradients inside the shard group."""
        stack = self.machine.profile.stack
        width = float(self.job.recipe.grad_bytes)
        return self._seconds(*self._volumes(width), stack.fsdp_fabric, stack.fsdp_link)

    def gather_latency(self) -> FloatArray:
        """Start-up of the per-layer collectives, which grows with the group once it leaves a node.

        A collective a layer: base + hop · ranks (fitted on fully sharded runs).
        """
        stack = self.machine.profile.stack
        hops = self.dense_ranks * (self.dense_reach.level > 0)
        start = stack.fsdp_latency_s + stack.hop_latency_s * hops
        return np.asarray(self.layers * start[:, None, None, :])

    def once(self, zero: IntArray) -> tuple[FloatArray, FloatArray]:
        """Gather and scatter that run once a step, for each ZeRO stage.

        0: all-reduce of gradients, as scatter and gather of them. 1: scatter gradients, gather
        weights. 2: gather weights. 3: nothing, but HSDP's all-reduce of owned gradients.
        """
        stack = self.machine.profile.stack
        width = float(self.job.recipe.grad_bytes)
        fabric = stack.fabric_efficiency
        gradients = self._seconds(*self._volumes(width), fabric, 1.0)
        weights = self._seconds(*self._volumes(GATHERED_BYTES), fabric, 1.0)
        gather = np.where(zero == 0, gradients, np.where(zero < FULL_SHARDING, weights, 0.0))
        scatter = np.where(zero < SHARDED_GRADIENTS, gradients, 0.0)
        scatter = scatter + np.where(zero == FULL_SHARDING, self._replicate(width), 0.0)
        hops = (self.dense_ranks - 1)[:, None, None, :] * self.layers
        return gather + np.where(zero < FULL_SHARDING, stack.tensor_hop_s * hops, 0.0), scatter

    def _replicate(self, width: float) -> FloatArray:
        """HSDP: all-reduce of a rank's gradient shard over the replicas."""
        replicas = np.asarray(self.shardings.replicas, dtype=np.float64)
        owned = (
            self.trained.dense[:, :, None] / self.dense_ranks[:, None, :]
            + self.trained.expert[:, :, None] / self.expert_ranks[:, None, :]
        )
        fabric = self.machine.profile.stack.fabric_efficiency
        rate = self.machine.bytes_per_s(self.replica_reach, fabric=fabric)
        share = 2 * (replicas - 1) / replicas
        return np.asarray(width * (owned * (share / rate)[:, None, :])[:, :, None, :])

    def vocabulary_share(self) -> FloatArray:
        """Share of a stage's parameters in embedding and head, whose traffic nothing hides."""
        held = self.trained
        whole = np.maximum(held.dense + held.expert, 1.0)  # an empty class holds nothing
        return np.asarray((held.vocabulary / whole)[:, :, None, None])
