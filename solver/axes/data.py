"""Data parallelism: splits the batch; ZeRO and HSDP split the states over its ranks."""

from __future__ import annotations

import numpy as np

from topology.cluster import NodeGroup

from ..degrees import BoolArray, IntArray, divisors
from ..job.job import Search
from .base import Degrees

ZERO_STAGES = (0, 1, 2, 3)
FULL_SHARDING = 3


def stages(search: Search) -> tuple[int, ...]:
    """Return the ZeRO stages to look at, ascending."""
    return ZERO_STAGES if search.zero is None else tuple(sorted(search.zero))


def replica_groups(group: NodeGroup, search: Search, largest_dp: int) -> tuple[int, ...]:
    """Return the numbers of HSDP replica groups to look at, from 2."""
    if not search.hsdp or FULL_SHARDING not in stages(search):
        return ()
    return tuple(d for d in divisors(largest_dp) if d > 1) if largest_dp > 1 else ()


def hsdp_fits(group: NodeGroup, shapes: Degrees, replicas: IntArray) -> BoolArray:
    """Whether ZeRO-3 inside ``dp / replicas`` ranks and copies across is a layout.

    The shard group, with the tensor and context ranks inside it, must fill whole NVLink domains or
    whole nodes, and be smaller than the data-parallel group.
    """
    inside = shapes.tp * shapes.cp * shapes.dp // replicas
    whole = (inside % group.nvlink_domain == 0) | (inside % group.gpus_per_node == 0)
    return np.asarray((shapes.dp % replicas == 0) & (shapes.dp > replicas) & whole)
