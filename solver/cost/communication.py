"""Times of an axis's traffic on the links that its groups run over."""

from __future__ import annotations

import numpy as np

from topology.levels import levels, spanned_level

from ..axes.base import Traffic
from ..axes.pipeline import message_bytes
from ..job.job import Job
from .kernels import pass_seconds
from .machine import Machine, Reach
from .shapes import Shapes
from .ticks import FloatArray


def total_seconds(machine: Machine, traffic: Traffic) -> FloatArray:
    """Forward time of an axis's traffic, shape (N,).

    Ring collectives take calls · ((n - 1)/n · (bytes + b) / B + latency), where B is the ring's
    bandwidth and b the size at half of it (measured curves, profiles/gpus.yaml). Direct traffic
    takes the longer of its part inside the NVLink domain and its part through the NICs.
    """
    stack, ranks = machine.profile.stack, traffic.ranks
    reach = machine.reach(ranks, traffic.stride, traffic.used)
    bandwidth = machine.bytes_per_s(reach, fabric=stack.fabric_efficiency, link=stack.tp_bandwidth)
    share = (ranks - 1) / ranks
    half = machine.profile.gpu.collective_half_bytes
    ring = traffic.calls * (share * (traffic.ring_bytes + half) / bandwidth + stack.tp_latency_s)
    return np.asarray(
        ring
        + _direct_seconds(machine, traffic, reach)
        + pass_seconds(machine, traffic.memory_bytes)
    )


def _direct_seconds(machine: Machine, traffic: Traffic, reach: Reach) -> FloatArray:
    rates = np.array([level.bytes_per_s for level in levels(machine.group)])
    inside = traffic.inside_bytes / machine.link_bytes_per_s
    outside = traffic.outside_bytes / (rates[reach.level] * machine.profile.stack.fabric_efficiency)
    return np.maximum(inside, outside)


def exposed_and_total(
    machine: Machine, traffic: Traffic, exposed: float
) -> tuple[FloatArray, FloatArray]:
    """Forward time on the critical path and in all; ``exposed`` is the share that is not hidden."""
    total = total_seconds(machine, traffic)
    return exposed * total, total


def neighbour_seconds(job: Job, machine: Machine, shapes: Shapes) -> tuple[FloatArray, FloatArray]:
    """Time that a stage exchanges with its neighbours for one micro-batch, exposed and total.

    Each virtual stage receives an activation and a gradient. A plain pipeline waits for both; an
    interleaved one sends while it computes and waits for a share (fitted).
    """
    stack = machine.profile.stack
    rates = np.array([level.bytes_per_s for level in levels(machine.group)])
    spanned = spanned_level(machine.group, shapes.pp, shapes.stage_stride, shapes.gpus)
    outside = rates[spanned] * stack.fabric_efficiency
    rate = np.where(spanned == 0, machine.link_bytes_per_s, outside)
    once = message_bytes(job, shapes) / rate + stack.p2p_latency_s
    total = np.where(shapes.pp > 1, 2 * shapes.vpp * once, 0.0)
    return np.where(shapes.vpp > 1, stack.p2p_exposed, stack.p2p_plain_exposed) * total, total


def crossing_seconds(job: Job, machine: Machine, shapes: Shapes) -> FloatArray:
    """Time that a stage waits for a neighbour on other nodes, whatever lies between, exposed.

    As `neighbour_seconds` over the outermost level: what a boundary between node groups takes.
    """
    stack = machine.profile.stack
    rate = levels(machine.group)[-1].bytes_per_s
    rate = min(rate * stack.fabric_efficiency, machine.group.inter_bytes_per_s)
    once = message_bytes(job, shapes) / rate + stack.p2p_latency_s
    return np.asarray(stack.p2p_plain_exposed * 2 * shapes.vpp * once)
