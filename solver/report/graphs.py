"""The full cluster graph as Graphviz DOT or GraphML."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from typing import Any

from topology.cluster import Cluster
from topology.errors import InputError, Problem

MOST_DRAWN = 20_000
"""GPUs of the largest cluster that is written out vertex by vertex."""

_SHAPES = {
    "gpu": "box",
    "nvswitch": "ellipse",
    "host": "house",
    "pcie": "trapezium",
    "nic": "cds",
    "leaf": "hexagon",
    "spine": "octagon",
}
_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
_NODE_KEYS = (("kind", "string"), ("group", "int"))
_EDGE_KEYS = (("bandwidth_bytes_per_s", "double"), ("latency_s", "double"))


def _graph(cluster: Cluster) -> Any:
    if cluster.gpus > MOST_DRAWN:
        message = f"{cluster.gpus:,} GPUs are too many to write one by one (at most {MOST_DRAWN:,})"
        hint = "Use --format json or tree, which show levels; or draw a smaller cluster."
        raise InputError(Problem("topology", 0, 0, "cluster", "SP109", f"{message}.", hint))
    from topology.graph import build_graph  # noqa: PLC0415 - networkx only where it is needed

    return build_graph(cluster)


def _name(vertex: tuple[str, int, int]) -> str:
    kind, group, index = vertex
    return f"{kind}_{group}_{index}"


def to_dot(cluster: Cluster) -> str:
    """Write DOT; edges carry GB/s per direction."""
    graph = _graph(cluster)
    title = cluster.name.replace("\\", "\\\\").replace('"', '\\"')
    lines = [f'graph "{title}" {{', "  rankdir=BT;"]
    lines += [f"  {_name(v)} [shape={_SHAPES[v[0]]}];" for v in graph.nodes]
    for u, v, data in graph.edges(data=True):
        rate = data["bandwidth_bytes_per_s"]
        lines.append(f'  {_name(u)} -- {_name(v)} [label="{rate / 1e9:g} GB/s"];')
    return "\n".join([*lines, "}", ""])


def to_graphml(cluster: Cluster) -> str:
    """Write GraphML with bandwidth (bytes/s per direction) and latency (s) on each edge."""
    graph = _graph(cluster)
    root = ET.Element("graphml", xmlns=_NAMESPACE)
    for target, keys in (("node", _NODE_KEYS), ("edge", _EDGE_KEYS)):
        for name, kind in keys:
            attributes = {"id": name, "for": target, "attr.name": name, "attr.type": kind}
            ET.SubElement(root, "key", attributes)
    body = ET.SubElement(root, "graph", id=cluster.name, edgedefault="undirected")
    for vertex, data in graph.nodes(data=True):
        _data(ET.SubElement(body, "node", id=_name(vertex)), data, _NODE_KEYS)
    for u, v, data in graph.edges(data=True):
        _data(ET.SubElement(body, "edge", source=_name(u), target=_name(v)), data, _EDGE_KEYS)
    ET.indent(root)
    out = io.StringIO()
    ET.ElementTree(root).write(out, encoding="unicode", xml_declaration=True)
    return out.getvalue() + "\n"


def _data(element: ET.Element, values: Any, keys: tuple[tuple[str, str], ...]) -> None:
    for name, _ in keys:
        ET.SubElement(element, "data", key=name).text = str(values[name])
