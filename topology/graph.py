"""The cluster as a networkx graph: GPUs, their share of the network, switches, and links.

Vertices are tuples ``(kind, group, index)`` with the kinds of `KINDS`. An edge carries
``bandwidth_bytes_per_s`` (per direction; links are full duplex) and ``latency_s``. This is the only
module that imports networkx; `topology` imports it only when a graph is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import networkx as nx

from .cluster import Cluster, NodeGroup
from .levels import unit_group

Vertex: TypeAlias = tuple[str, int, int]
Link: TypeAlias = tuple[Vertex, Vertex, float, float]

GPU, NVSWITCH, PCIE, HOST = "gpu", "nvswitch", "pcie", "host"
NIC, LEAF, SPINE = "nic", "leaf", "spine"
KINDS = (GPU, NVSWITCH, PCIE, HOST, NIC, LEAF, SPINE)

# Seconds of one step between two neighbours, split over the edges of its path. NVLink: 1 µs a step,
# the slope of measured all-gather start-up times over 1, 3, 7 steps (A100 10.8, 12.9, 17.0 µs; H100
# 6.0, 8.2, 11.8 µs). PCIe and network: assumed, 2 and 5 µs, of the size of the latencies in NCCL's
# tuning tables; two H100 nodes on InfiniBand start an all-reduce in 35 µs against 18 in one.
NVLINK_EDGE_S = 0.5e-6
HOST_EDGE_S = 1.0e-6
SWITCH_EDGE_S = HOST_EDGE_S / 2
NIC_EDGE_S = 0.5e-6
LEAF_EDGE_S = 1.0e-6
SPINE_EDGE_S = 0.5e-6


def _node_links(group: NodeGroup, g: int) -> Iterator[Link]:
    """Yield the links inside nodes and NVLink domains."""
    pcie, nvlink = group.gpu.pcie_bytes_per_s, group.nvlink_bytes_per_s
    behind = group.pcie_switch_gpus
    for i in range(group.gpus):
        host = (HOST, g, i // group.gpus_per_node)
        if behind == 1:
            yield (GPU, g, i), host, pcie, HOST_EDGE_S
        else:
            yield (GPU, g, i), (PCIE, g, i // behind), pcie, SWITCH_EDGE_S
            if i % behind == 0:
                yield (PCIE, g, i // behind), host, group.pcie_uplink_bytes_per_s, SWITCH_EDGE_S
        if group.nvlink_domain > 1:
            yield (GPU, g, i), (NVSWITCH, g, i // group.nvlink_domain), nvlink, NVLINK_EDGE_S


def _network_links(group: NodeGroup, g: int, *, spine: bool) -> Iterator[Link]:
    """Yield the links from hosts to the network.

    A GPU gets no more of the network than its host link carries. Adapters sit behind the PCIe
    switches where each can have as many, else at the host. The adapters of a node go to the rails'
    leaves one after the other.
    """
    nics, rails, per_leaf = group.nics, group.rails, group.leaf_nodes or group.nodes
    rate = group.inter_bytes_per_s * group.gpus_per_node / nics
    for i in range(group.nodes * nics):
        node = i // nics
        leaf = node // per_leaf * rails + i % nics % rails
        behind = (HOST, g, node)
        if group.nics_at_switches:
            behind = (PCIE, g, i * group.pcie_switches // nics)
        yield behind, (NIC, g, i), rate, NIC_EDGE_S
        yield (NIC, g, i), (LEAF, g, leaf), rate, LEAF_EDGE_S
    if spine:
        up = per_leaf * group.gpus_per_node * group.inter_bytes_per_s
        for leaf in range(-(-group.nodes // per_leaf) * rails):
            yield (LEAF, g, leaf), (SPINE, 0, 0), up / group.oversubscription / rails, SPINE_EDGE_S


def build_graph(cluster: Cluster) -> nx.Graph[Vertex]:
    """Return the whole cluster, every GPU a vertex.

    Several groups meet at the spine. For drawing, exporting and checking; the planner itself works
    on `topology.levels`, whose graph does not grow with the cluster.
    """
    leaves = sum(-(-group.nodes // (group.leaf_nodes or group.nodes)) for group in cluster.groups)
    graph: nx.Graph[Vertex] = nx.Graph(name=cluster.name)
    for g, group in enumerate(cluster.groups):
        _add(graph, _node_links(group, g))
        if cluster.nodes > 1:
            _add(graph, _network_links(group, g, spine=leaves > 1))
    for (kind, group_index, _), data in graph.nodes(data=True):
        data["kind"], data["group"] = kind, group_index
    return graph


def _add(graph: nx.Graph[Vertex], links: Iterable[Link]) -> None:
    graph.add_edges_from(
        (u, v, {"bandwidth_bytes_per_s": rate, "latency_s": latency})
        for u, v, rate, latency in links
    )


def unit_graph(group: NodeGroup) -> nx.Graph[Vertex]:
    """Return the graph of `unit_group`: at most 16 GPUs, whatever the size of the cluster."""
    return build_graph(Cluster("unit", (unit_group(group),)))


def cut_bytes_per_s(graph: nx.Graph[Vertex], left: Iterable[int], right: Iterable[int]) -> float:
    """Return the min cut between two sets of GPUs of group 0, bytes/s per direction."""
    flow: nx.Graph[Vertex] = nx.Graph()
    flow.add_edges_from(
        (u, v, {"capacity": data["bandwidth_bytes_per_s"]}) for u, v, data in graph.edges(data=True)
    )
    source, sink = ("source", 0, 0), ("sink", 0, 0)
    flow.add_edges_from((source, (GPU, 0, i)) for i in left)  # no capacity: unlimited
    flow.add_edges_from((sink, (GPU, 0, i)) for i in right)
    return float(nx.minimum_cut_value(flow, source, sink))


def path_latency_s(graph: nx.Graph[Vertex], left: int, right: int) -> float:
    """Return the latency of the quickest path between two GPUs of group 0, seconds."""
    ends = (GPU, 0, left), (GPU, 0, right)
    return float(nx.shortest_path_length(graph, *ends, weight="latency_s"))


def within(graph: nx.Graph[Vertex], *kinds: str) -> nx.Graph[Vertex]:
    """Return the part of the graph that has only vertices of these kinds."""
    return graph.subgraph([v for v in graph if v[0] in kinds])


def pair_bytes_per_s(graph: nx.Graph[Vertex], left: int, right: int) -> float:
    """Return the widest path between two GPUs of group 0, bytes/s: a pair alone on the machine."""
    tree = nx.maximum_spanning_tree(graph, weight="bandwidth_bytes_per_s")
    path = nx.shortest_path(tree, (GPU, 0, left), (GPU, 0, right))
    return min(float(tree.edges[edge]["bandwidth_bytes_per_s"]) for edge in nx.utils.pairwise(path))
