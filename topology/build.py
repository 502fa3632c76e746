"""From what was said about a node group to the group itself; every default taken is recorded."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from .catalogue import in_system
from .cluster import NodeGroup
from .hardware import Gpu, find_gpu
from .offers import offers_of
from .units import show_bandwidth, show_bytes

if TYPE_CHECKING:
    from .spec import GroupSpec

Taken = list[tuple[str, str, str]]

_NON_BLOCKING = (
    "assumed, nothing is known of the switches: all nodes at full rate at any distance; "
    "set cluster.oversubscription and cluster.leaf_nodes"
)


def build_group(spec: GroupSpec) -> NodeGroup:
    """Return the node group that a checked spec describes."""
    gpu, per_node = in_system(find_gpu(spec.gpu), spec.system), spec.per_node
    nodes = node_count(spec.nodes, spec.gpus, per_node)
    taken: Taken = []
    if spec.system is not None:
        taken.append(("gpus_per_node", str(per_node), gpu.sources["gpus_per_node"]))
    if spec.gpus_per_node is None:
        taken.append(("gpus_per_node", str(per_node), gpu.sources["gpus_per_node"]))
    domain, nvlink = _fabric(spec, gpu, nodes, taken)
    inter = _network(spec, gpu, nodes, taken)
    gpu = _memory(spec, gpu, taken)
    if nodes > 1 and "oversubscription" not in spec.model_fields_set:
        taken.append(("oversubscription", "1", _NON_BLOCKING))
    leaf_nodes = spec.leaf_nodes
    if leaf_nodes is None and spec.oversubscription > 1 and nodes > 1:
        leaf_nodes = 1
        taken.append(("leaf_nodes", "1", "assumed: every node behind its own oversubscribed link"))
    price, offers = spec.price, offers_of(spec.prices or {})
    group = NodeGroup(
        gpu=gpu,
        nodes=nodes,
        gpus_per_node=per_node,
        nvlink_domain=domain,
        nvlink_bytes_per_s=nvlink,
        inter_bytes_per_s=inter,
        oversubscription=spec.oversubscription,
        leaf_nodes=leaf_nodes,
        host_bytes=spec.host_memory,
        nics_per_node=spec.nics_per_node,
        rails=spec.rails or 1,
        pcie_switch_gpus=spec.pcie_switch_gpus or 1,
        pcie_uplink_bytes_per_s=gpu.pcie_bytes_per_s,
        price_usd_per_gpu_hour=price.usd_per_gpu_hour if price else None,
        price_kind=price.kind if price else "",
        price_source=price.source if price else "",
        price_date=price.date if price else "",
        offers=offers,
        assumptions=tuple(taken),
    )
    return group.under(offers[0].kind) if offers else group


def _fabric(spec: GroupSpec, gpu: Gpu, nodes: int, taken: Taken) -> tuple[int, float]:
    """Return NVLink domain (GPUs) and bandwidth (bytes/s per GPU per direction)."""
    nvlink = gpu.nvlink_bytes_per_s if spec.intra is None else spec.intra
    domain = spec.nvlink_domain or default_domain(gpu, spec.per_node, spec.per_node * nodes)
    if nvlink == 0 or domain == 1:
        return 1, 0.0
    if spec.nvlink_domain is None:
        taken.append(("nvlink_domain", str(domain), gpu.sources["nvlink_domain"]))
    if spec.intra is None:
        taken.append(("intra", show_bandwidth(nvlink), gpu.sources["nvlink_bytes_per_s"]))
    return domain, nvlink


def _network(spec: GroupSpec, gpu: Gpu, nodes: int, taken: Taken) -> float:
    """Return the network share of one GPU, bytes/s per direction."""
    if spec.inter is not None:
        kind, rate = spec.inter
        return rate / spec.per_node if kind == "per_node" else rate
    if nodes > 1:
        shown = show_bandwidth(gpu.inter_bytes_per_s)
        taken.append(("inter", shown, gpu.sources["inter_bytes_per_s"]))
    return gpu.inter_bytes_per_s


def _memory(spec: GroupSpec, gpu: Gpu, taken: Taken) -> Gpu:
    """Return the GPU with the usable memory that was given."""
    if spec.usable_memory is not None:
        return dataclasses.replace(gpu, usable_bytes=spec.usable_memory, usable_measured=True)
    value = show_bytes(gpu.usable_bytes, binary=True)
    taken.append(("usable_memory", value, gpu.sources["usable_bytes"]))
    return gpu


def default_domain(gpu: Gpu, per_node: int, gpus: int) -> int:
    """Return the NVLink domain of the GPU's kind that nodes of ``per_node`` GPUs can hold.

    A rack (NVL72) takes whole nodes up to its size, spread evenly over the racks where they divide
    (512 GPUs of 4 a tray: 8 racks of 16 trays, domains of 64); boards and bridges take what divides
    a node; a kind without NVLink takes the node, which counts only where a bandwidth is given.
    """
    if gpu.nvlink_domain > gpu.gpus_per_node:
        most, nodes = max(1, gpu.nvlink_domain // per_node), gpus // per_node
        racks = -(-nodes // most)
        trays = nodes // racks if nodes % racks == 0 else most
        return trays * per_node
    if gpu.nvlink_domain == 1:
        return per_node
    return math.gcd(gpu.nvlink_domain, per_node)


def node_count(nodes: int | None, gpus: int | None, per_node: int) -> int:
    """Return the nodes from either count.

    Raises
    ------
    ValueError
        Where both disagree, both are missing, or the GPUs do not fill whole nodes.
    """
    if nodes is not None and gpus is not None and nodes * per_node != gpus:
        total = nodes * per_node
        msg = (
            f"{nodes} nodes of {per_node} GPUs are {total}, not gpus: {gpus}; write one of the two."
        )
        raise ValueError(msg)
    if nodes is not None:
        return nodes
    if gpus is None:
        msg = "neither nodes nor gpus is given; write e.g. nodes: 8."
        raise ValueError(msg)
    if gpus % per_node:
        below = gpus // per_node * per_node
        choice = f"{below} or {below + per_node}" if below else str(per_node)
        msg = (
            f"gpus: {gpus} does not fill nodes of {per_node} GPUs "
            f"({gpus / per_node:g} nodes). Use {choice}, or set gpus_per_node."
        )
        raise ValueError(msg)
    return gpus // per_node


def check_domain(domain: int | None, per_node: int, gpus: int) -> None:
    """Raise ``ValueError`` where an NVLink domain cuts through nodes or exceeds the cluster."""
    if domain is None:
        return
    if domain > gpus:
        msg = f"nvlink_domain {domain:,} exceeds the cluster's {gpus:,} GPUs; write at most {gpus}."
        raise ValueError(msg)
    if per_node % domain and domain % per_node:
        msg = (
            f"nvlink_domain {domain} neither divides a node of {per_node} GPUs nor holds whole "
            f"nodes; write a divisor or a multiple of {per_node}."
        )
        raise ValueError(msg)
