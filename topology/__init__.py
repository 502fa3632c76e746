"""The machine: GPUs, clusters, communication levels; knows nothing of models or plans."""

from __future__ import annotations

from .cluster import Cluster, NodeGroup
from .collectives import (
    collective_seconds,
    hierarchical_all_reduce_seconds,
    ring_bytes_per_s,
)
from .curves import bus_bandwidth
from .errors import InputError, Problem, ShardplanError, UnsupportedError
from .hardware import Gpu, find_gpu, gpus
from .levels import Level, levels, members_per_domain, spanned_level
from .offers import Offer, Price, PriceKind
from .spec import ClusterSpec, GroupSpec

__all__ = [
    "Cluster",
    "ClusterSpec",
    "Gpu",
    "GroupSpec",
    "InputError",
    "Level",
    "NodeGroup",
    "Offer",
    "Price",
    "PriceKind",
    "Problem",
    "ShardplanError",
    "UnsupportedError",
    "bus_bandwidth",
    "collective_seconds",
    "find_gpu",
    "gpus",
    "hierarchical_all_reduce_seconds",
    "levels",
    "members_per_domain",
    "ring_bytes_per_s",
    "spanned_level",
]
