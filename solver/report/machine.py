"""A cluster: its tree of nodes and its communication levels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from topology.cluster import Cluster, NodeGroup
from topology.levels import Level, levels
from topology.units import show_bandwidth, show_seconds

from ..job.named import named_cluster
from .blocks import Column, Facts, Report, Sheet
from .cells import count, things
from .drawing import to_svg
from .graphs import to_dot, to_graphml

LEVEL_NAMES = {
    "nvlink": "NVLink domain",
    "switch": "PCIe switch",
    "pcie": "node (host links)",
    "leaf": "network below one leaf",
    "spine": "network across leaves",
}


def show_topology(cluster: str) -> Report:
    """Report a cluster by shorthand or file."""
    return topology_report(named_cluster(cluster))


def topology_report(cluster: Cluster) -> Report:
    """Report levels with bandwidth per GPU and direction, as a table, a tree or the graph."""
    rows = tuple(row for n, group in enumerate(cluster.groups) for row in _level_rows(group, n))
    columns = (
        Column("group", "group", count, usual="0"),
        Column("level", "level", align="left"),
        Column("gpus", "GPUs", count),
        Column("bytes_per_s", "per GPU and direction", show_bandwidth),
        Column("latency_s", "latency", show_seconds),
        Column("source", "source", align="left"),
    )
    assumed = tuple(_assumed(cluster.groups))
    heading = Facts(
        (("Cluster", cluster.name), ("Groups", "\n".join(map(_group_title, cluster.groups))))
    )
    body = Sheet(columns, rows, "Levels, inner to outer")
    notes = (Facts(assumed, "Taken, not given"),) if assumed else ()
    data = {
        "name": cluster.name,
        "gpus": cluster.gpus,
        "nodes": cluster.nodes,
        "groups": [_group_data(group) for group in cluster.groups],
    }
    texts = {
        "tree": lambda: draw_tree(cluster) + "\n",
        "dot": lambda: to_dot(cluster),
        "graphml": lambda: to_graphml(cluster),
        "svg": lambda: to_svg(cluster),
    }
    return Report((heading, body, *notes), data, rows, texts)


def _level_rows(group: NodeGroup, number: int) -> Iterable[dict[str, Any]]:
    for level in levels(group):
        yield {
            "group": number,
            "level": level.name,
            "gpus": level.gpus,
            "bytes_per_s": level.bytes_per_s,
            "latency_s": level.latency_s,
            "source": level.source,
        }


def _assumed(groups: tuple[NodeGroup, ...]) -> Iterable[tuple[str, str]]:
    for group in groups:
        for name, value, source in group.assumptions:
            yield f"* {name}", f"{value} · {source}"


def _group_data(group: NodeGroup) -> dict[str, Any]:
    return {
        "gpu": group.gpu.id,
        "nodes": group.nodes,
        "gpus_per_node": group.gpus_per_node,
        "nvlink_domain": group.nvlink_domain,
        "nvlink_bytes_per_s": group.nvlink_bytes_per_s,
        "inter_bytes_per_s": group.inter_bytes_per_s,
        "oversubscription": group.oversubscription,
        "leaf_nodes": group.leaf_nodes,
        "nics_per_node": group.nics_per_node,
        "rails": group.rails,
        "pcie_switch_gpus": group.pcie_switch_gpus,
        "training_measured": group.gpu.training_measured,
        "levels": [row | {"group": None} for row in _level_rows(group, 0)],
        "assumptions": [
            {"field": name, "value": value, "source": source}
            for name, value, source in group.assumptions
        ],
    }


def draw_tree(cluster: Cluster) -> str:
    """Draw the levels of each group as a tree, outer to inner, alike branches drawn once."""
    lines = [cluster.name]
    for number, group in enumerate(cluster.groups):
        last = number == len(cluster.groups) - 1
        lines.append(f"{'└─' if last else '├─'} {_group_title(group)}")
        lines += _branch(group, "   " if last else "│  ")
    return "\n".join(lines)


def _group_title(group: NodeGroup) -> str:
    unmeasured = "" if group.gpu.training_measured else " (unmeasured)"
    return f"{things(group.nodes, 'node')} × {group.gpus_per_node} {group.gpu.name}{unmeasured}"


def _branch(group: NodeGroup, indent: str) -> list[str]:
    lines = []
    size = group.gpus
    for level in reversed(levels(group)):
        times = -(-size // level.gpus)
        lines.append(f"{indent}└─ {_level_title(level, times)}")
        indent, size = indent + "   ", level.gpus
    lines.append(f"{indent}└─ {size} × {group.gpu.name}")
    return lines


def _level_title(level: Level, times: int) -> str:
    repeated = f"{times:,} × " if times > 1 else ""
    rate = f"{show_bandwidth(level.bytes_per_s)} per GPU and direction"
    return (
        f"{repeated}{LEVEL_NAMES[level.name]} of {level.gpus:,} GPUs: {rate}, "
        f"{show_seconds(level.latency_s)}"
    )
