"""Communication levels: what a group of GPUs gets, by how far it spreads.

A level holds a number of GPUs and gives each of them a bandwidth when all of them communicate
across the parts of the level. The figures are min cuts on the graph of one representative unit
(`topology.graph.unit_graph`), so 16 GPUs and 16,384 cost the same.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .cluster import NodeGroup

Ints: TypeAlias = npt.NDArray[np.int64]

UNKNOWN = np.iinfo(np.int64).max
"""GPUs in use where nobody says how many: more than any level holds."""


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a node group.

    Attributes
    ----------
    name
        ``nvlink``, ``switch`` (one PCIe switch), ``pcie`` (a node without NVLink between all its
        GPUs), ``leaf`` or ``spine``.
    gpus
        Most GPUs that communicate within the level.
    bytes_per_s
        Per GPU and direction when all of them communicate across the level's parts.
    latency_s
        One step between two members of different parts, seconds.
    source
        Where the bandwidth is from.
    """

    name: str
    gpus: int
    bytes_per_s: float
    latency_s: float
    source: str


@functools.lru_cache(maxsize=4096)
def levels(group: NodeGroup) -> tuple[Level, ...]:
    """Return the levels of a group, inner to outer; the last one holds all its GPUs.

    A level that would hold no more GPUs than the one inside it is left out. A single GPU has one
    level of one GPU.
    """
    rates = _rates(unit_group(group))
    leaf = min(group.gpus, (group.leaf_nodes or group.nodes) * group.gpus_per_node)
    sizes = {
        "nvlink": min(group.nvlink_domain, group.gpus),
        "switch": group.pcie_switch_gpus,
        "pcie": group.gpus_per_node,
        "leaf": leaf,
        "spine": group.gpus,
    }
    found: list[Level] = []
    for name, size in sizes.items():
        if size > (found[-1].gpus if found else 1):
            rate, latency = rates[name]
            found.append(Level(name, size, rate, latency, _source(group, name)))
    if not found:
        found.append(Level("pcie", 1, group.gpu.pcie_bytes_per_s, 0.0, _source(group, "pcie")))
    return tuple(found)


def unit_group(group: NodeGroup) -> NodeGroup:
    """Return the smallest group with the structure of ``group``: two of everything that repeats."""
    domain, per_node = group.nvlink_domain, group.gpus_per_node
    leaf_nodes = group.leaf_nodes or group.nodes
    leaves = min(2, -(-group.nodes // leaf_nodes))
    inside = _twice(min(domain, per_node), group.pcie_switch_gpus, per_node)
    in_domain, switch = inside[min(domain, per_node)], inside[group.pcie_switch_gpus]
    if domain <= per_node:
        per_leaf = min(2, leaf_nodes)
    else:
        trays = min(2, domain // per_node)
        in_domain = trays * inside[per_node]
        # A rack whose trays hang on several leaves counts as one leaf: NVLink joins them anyway.
        per_leaf = trays * min(2, -(-leaf_nodes * group.gpus_per_node // domain))
        leaves = min(2, -(-group.gpus // max(domain, leaf_nodes * group.gpus_per_node)))
    per_node = inside[per_node]
    nics = max(per_node * group.nics // group.gpus_per_node, 1)
    if switch > 1:
        nics = per_node // switch if group.nics_at_switches else 1
    return dataclasses.replace(
        group,
        nodes=per_leaf * leaves,
        gpus_per_node=per_node,
        nvlink_domain=in_domain,
        leaf_nodes=per_leaf,
        nics_per_node=nics,
        rails=gcd(group.rails, nics),
        pcie_switch_gpus=switch,
        pcie_uplink_bytes_per_s=group.pcie_uplink_bytes_per_s * switch / group.pcie_switch_gpus,
        assumptions=(),
    )


def _twice(*sizes: int) -> dict[int, int]:
    """Return sizes nested like these, each at most twice the one inside it."""
    found, inside, small = {1: 1}, 1, 1
    for size in sorted(sizes):
        small *= min(2, size // inside)
        found[size], inside = small, size
    return found


@functools.lru_cache(maxsize=512)
def _rates(unit: NodeGroup) -> dict[str, tuple[float, float]]:
    """Return bandwidth per GPU (bytes/s) and latency (s) of each level that the unit has.

    Each level's parts are the units of the level inside it; the cut runs between two of them, with
    only the switches up to that level in place.
    """
    from . import graph as g  # noqa: PLC0415 - networkx only when a graph is needed

    whole = g.unit_graph(unit)
    node_part = max(unit.nvlink_domain, 1)
    host_part = max(node_part, unit.pcie_switch_gpus)
    leaf_part = max(node_part, unit.gpus_per_node)
    spine_part = (unit.leaf_nodes or unit.nodes) * unit.gpus_per_node
    scopes = {
        "nvlink": (1, (g.GPU, g.NVSWITCH)),
        "switch": (node_part, (g.GPU, g.NVSWITCH, g.PCIE)),
        "pcie": (host_part, (g.GPU, g.NVSWITCH, g.PCIE, g.HOST)),
        "leaf": (leaf_part, (g.GPU, g.NVSWITCH, g.PCIE, g.HOST, g.NIC, g.LEAF)),
        "spine": (spine_part, g.KINDS),
    }
    ends = {
        "nvlink": unit.nvlink_domain,
        "switch": unit.pcie_switch_gpus,
        "pcie": unit.gpus_per_node,
        "leaf": spine_part,
        "spine": unit.gpus,
    }
    rates = {}
    for name, (part, kinds) in scopes.items():
        if 2 * part <= ends[name]:
            scope = g.within(whole, *kinds)
            cut = g.cut_bytes_per_s(scope, range(part), range(part, 2 * part))
            rates[name] = cut / part, g.path_latency_s(scope, 0, part)
    return rates


_FIELD = {"nvlink": "intra", "leaf": "inter", "spine": "inter"}


def _source(group: NodeGroup, name: str) -> str:
    """Return where a level's bandwidth is from: an assumption's source, or ``given``."""
    if name in ("pcie", "switch"):
        return group.gpu.sources.get("pcie_bytes_per_s", "")
    field = _FIELD[name]
    return next((source for key, _, source in group.assumptions if key == field), "given")


def spanned_level(
    group: NodeGroup, ranks: npt.ArrayLike, stride: npt.ArrayLike, used: npt.ArrayLike = UNKNOWN
) -> Ints:
    """Return the index of the innermost level that holds communication groups of this form.

    A group has ``ranks`` members ``stride`` apart; groups of the form tile the cluster from rank 0
    (offsets 0 to stride - 1 within blocks of ranks × stride). The answer is for the worst placed
    one, so a group of 6 spans two nodes of 8 as soon as there is a second node; where no more GPUs
    than a level holds are ``used``, that level holds every group. Arrays broadcast.
    """
    ranks, stride = np.asarray(ranks, np.int64), np.asarray(stride, np.int64)
    used = np.asarray(used, np.int64)
    block = ranks * stride
    held = levels(group)
    result = np.full(np.broadcast_shapes(block.shape, used.shape), len(held) - 1, np.int64)
    for index in range(len(held) - 2, -1, -1):
        fits = (block <= held[index].gpus) & (held[index].gpus % block == 0)
        fits = fits | (used <= held[index].gpus)
        result = np.where(fits | (ranks == 1), index, result)
    return np.asarray(np.where(ranks == 1, 0, result), np.int64)


def members_per_domain(
    ranks: npt.ArrayLike,
    stride: npt.ArrayLike,
    domain: npt.ArrayLike,
    used: npt.ArrayLike = UNKNOWN,
) -> Ints:
    """Return how many members of a communication group share one domain of ``domain`` GPUs.

    Groups and ``used`` as in `spanned_level`; where the members fall unevenly it is the fewest in
    any domain that a group touches, as the domain with the fewest network links sets the pace.
    Arrays broadcast.

    Notes
    -----
    Members of one residue modulo ``stride`` form blocks of ``ranks`` in domains of domain / stride
    slots. Blocks and domains start at multiples of their greatest common divisor, which therefore
    is the smallest piece. A stride that does not divide the domain leaves single members.
    """
    ranks, stride = np.asarray(ranks, np.int64), np.asarray(stride, np.int64)
    domain = np.asarray(domain, np.int64)
    slots = np.where(domain % stride == 0, domain // stride, 1)
    fewest = np.gcd(ranks, np.maximum(slots, 1))
    return np.asarray(np.where(np.asarray(used, np.int64) <= domain, ranks, fewest), np.int64)
