"""Data parallelism: splits the batch; ZeRO and HSDP split the states over its ranks."""

from __future__ import annotations

import numpy as np

from topology.cluster import NodeGroup

from ..degrees import BoolArray, IntArray, divisors
from ..job.search import Search
from .base import Degrees

ZERO_STAGES = (0, 1, 2, 3)
FULL_SHARDING = 3
MOST_WITH_LATE_WEIGHTS = 1
"""The stack of ZB-H1 shards optimizer states at most (Megatron-LM's distributed optimizer)."""


def stages(search: Search) -> tuple[int, ...]:
    """Return the ZeRO stages to look at, ascending."""
    listed = ZERO_STAGES if search.zero is None else tuple(sorted(search.zero))
    allowed = search.keeps("zero", np.array(listed))
    if search.zero_bubble:
        allowed &= np.array(listed) <= MOST_WITH_LATE_WEIGHTS
    return tuple(stage for stage, keep in zip(listed, allowed, strict=True) if keep)


def replica_groups(group: NodeGroup, search: Search, largest_dp: int) -> tuple[int, ...]:
    """Return the numbers of HSDP replica groups to look at, from 2."""
    if not search.hsdp or FULL_SHARDING not in stages(search):
        return ()
    counts = np.array([d for d in divisors(largest_dp) if d > 1], dtype=np.int64)
    return tuple(int(d) for d in counts[search.keeps("dp_replicate", counts)])


def hsdp_fits(group: NodeGroup, shapes: Degrees, replicas: IntArray) -> BoolArray:
    """Whether ZeRO-3 inside ``dp / replicas`` ranks and copies across is a layout.

    The shard group, with the tensor and context ranks inside it, must fill whole NVLink domains or
    whole nodes, and be smaller than the data-parallel group.
    """
    inside = shapes.tp * shapes.cp * shapes.dp // replicas
    whole = (inside % group.nvlink_domain == 0) | (inside % group.gpus_per_node == 0)
    return np.asarray((shapes.dp % replicas == 0) & (shapes.dp > replicas) & whole)
