"""The machine: GPUs, clusters, communication levels; knows nothing of models or plans."""

from __future__ import annotations

from .cluster import Cluster, NodeGroup
from .errors import InputError, Problem, ShardplanError, UnsupportedError
from .hardware import Gpu, find_gpu, gpus
from .levels import Level, levels, members_per_domain, spanned_level
from .spec import ClusterSpec, GroupSpec, Price

__all__ = [
    "Cluster",
    "ClusterSpec",
    "Gpu",
    "GroupSpec",
    "InputError",
    "Level",
    "NodeGroup",
    "Price",
    "Problem",
    "ShardplanError",
    "UnsupportedError",
    "find_gpu",
    "gpus",
    "levels",
    "members_per_domain",
    "spanned_level",
]
