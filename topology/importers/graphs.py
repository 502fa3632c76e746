"""Graphs of the machine: networkx node-link JSON, and GraphML as ``topology show`` writes it.

Vertices have a kind (``gpu nvswitch host nic leaf spine``), edges a bandwidth per direction.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError, Problem
from ..units import GB
from .imported import Dump, Imported, few
from .xml_events import hear

JSON, GRAPHML = "node-link", "graphml"
JSON_COMMAND = "json.dumps(networkx.node_link_data(graph, edges='links'))"
GRAPHML_COMMAND = "shardplan topology show CLUSTER --format graphml, or networkx.write_graphml"

MOST_VERTICES = 400_000
_KINDS = {
    "gpu": "gpu",
    "nvswitch": "nvswitch",
    "nvlink": "nvswitch",
    "host": "host",
    "node": "host",
    "server": "host",
    "cpu": "host",
    "nic": "nic",
    "hca": "nic",
    "leaf": "leaf",
    "tor": "leaf",
    "spine": "spine",
    "core": "spine",
}
# Names of a bandwidth on an edge and its unit in bytes/s.
_RATES = {
    "bandwidth_bytes_per_s": 1.0,
    "bytes_per_s": 1.0,
    "bw_gbs": GB,
    "bandwidth_gb_s": GB,
    "bandwidth_gbps": GB / 8,
    "gbps": GB / 8,
}
_MOST_RATE = 1e14
_NODES = re.compile(r'"nodes"\s{0,9}:\s{0,9}\[')


@dataclass(slots=True)
class _Graph:
    kinds: dict[str, str] = field(default_factory=dict)
    around: defaultdict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    models: Counter[str] = field(default_factory=Counter)


def json_matches(text: str) -> bool:
    """Tell whether the text is JSON with a list of nodes; the links may stand far below."""
    return text.lstrip()[:1] == "{" and _NODES.search(text) is not None


def graphml_matches(text: str) -> bool:
    """Tell whether the text is GraphML."""
    return "<graphml" in text


def read_json(dump: Dump) -> Imported:
    """Read node-link JSON.

    Raises
    ------
    InputError
        SP130 for broken JSON; SP111 for a link to a vertex that is not defined.
    """
    try:
        data = json.loads(dump.text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 0)
        reason = getattr(error, "msg", None) or str(error)[:100]
        raise dump.refuse(
            f"is not valid JSON: {reason}.", f"Write it by {JSON_COMMAND}.", line
        ) from None
    data = data if isinstance(data, dict) else {}
    vertices = [(v.get("id"), v) for v in _dicts(data.get("nodes"))]
    edges = [
        (e.get("source"), e.get("target"), e)
        for e in _dicts(data.get("links") or data.get("edges"))
    ]
    return _facts(dump, JSON, _graph(dump, vertices, edges))


def _dicts(value: Any) -> list[dict[str, Any]]:
    items = value if isinstance(value, list) else []
    return [item for item in items[:MOST_VERTICES] if isinstance(item, dict)]


def read_graphml(dump: Dump) -> Imported:
    """Read GraphML.

    Raises
    ------
    InputError
        SP130 for broken XML, entities and document types; SP111 for an edge to no vertex.
    """
    target = _GraphMl()
    cut = hear(dump, dump.text, target, f"Write it by {GRAPHML_COMMAND}.")
    if cut:
        raise dump.refuse(f"is not whole: {cut}.", f"Write it by {GRAPHML_COMMAND}.")
    return _facts(dump, GRAPHML, _graph(dump, target.vertices, target.edges))


class _GraphMl:
    """Target of the XML reader: vertices, edges and their data."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.vertices: list[tuple[Any, dict[str, Any]]] = []
        self.edges: list[tuple[Any, Any, dict[str, Any]]] = []
        self.open: dict[str, Any] = {}
        self.key = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "key":
            self.names[attributes.get("id", "")] = attributes.get("attr.name", "")
        elif tag == "node":
            self.open = {}
            self.vertices.append((attributes.get("id"), self.open))
        elif tag == "edge":
            self.open = {}
            self.edges.append((attributes.get("source"), attributes.get("target"), self.open))
        elif tag == "data":
            self.key = self.names.get(attributes.get("key", ""), "")

    def end(self, tag: str) -> None:
        if tag == "data":
            self.key = ""

    def data(self, text: str) -> None:
        if self.key:
            self.open[self.key] = self.open.get(self.key, "") + text


def _graph(
    dump: Dump,
    vertices: Iterable[tuple[Any, dict[str, Any]]],
    edges: Iterable[tuple[Any, Any, dict[str, Any]]],
) -> _Graph:
    graph = _Graph()
    for key, data in vertices:
        name = _name(key)
        graph.kinds[name] = _kind(name, data)
        model = str(data.get("model") or data.get("gpu") or "")[:80]
        if graph.kinds[name] == "gpu" and model:
            graph.models[model] += 1
    for source, target, data in edges:
        ends = _name(source), _name(target)
        lost = [end for end in ends if end not in graph.kinds]
        if lost:
            a, b = (end[:60] for end in ends)
            message = f"link {a} - {b} names '{lost[0][:60]}', which is not defined."
            raise InputError(
                Problem(dump.path, 0, 0, "", "SP111", message, "Define every vertex in nodes.")
            )
        rate = _rate(data)
        for a, b in (ends, ends[::-1]):
            graph.around[a][b] = graph.around[a].get(b, 0.0) + rate
    return graph


def _name(key: Any) -> str:
    return "/".join(map(str, key)) if isinstance(key, list) else str(key)


def _kind(name: str, data: dict[str, Any]) -> str:
    word = str(data.get("kind") or data.get("type") or name).lower()[:200]
    match = re.match(r"[^a-z]*([a-z]+)", word)
    return _KINDS.get(match[1] if match else "", "")


def _rate(data: dict[str, Any]) -> float:
    for key, unit in _RATES.items():
        if key in data and not isinstance(data[key], bool):
            try:
                value = float(data[key]) * unit
            except (TypeError, ValueError, OverflowError):
                return 0.0
            return value if 0 < value <= _MOST_RATE else 0.0
    return 0.0


def _facts(dump: Dump, form: str, graph: _Graph) -> Imported:
    by_kind = defaultdict[str, list[str]](list)
    for name, kind in graph.kinds.items():
        by_kind[kind].append(name)
    if not by_kind["gpu"]:
        hint = "Give vertices a kind: gpu, nvswitch, host, nic, leaf or spine."
        raise dump.refuse("holds no vertex of kind gpu.", hint)
    parts = _components(graph)
    if len(parts) > 1:
        shown = few([f"{{{few(part, 2)}}}" for part in parts])
        message = f"has {len(parts)} components ({shown}): a training group cannot span them."
        raise InputError(
            Problem(dump.path, 0, 0, "", "SP111", message, "Add the links between them.")
        )
    warnings = list(dump.notes)
    per_host = _sizes(graph, "host", "gpu", warnings, "hosts")
    domains = _sizes(graph, "nvswitch", "gpu", warnings, "NVLink domains")
    per_node = min(per_host) if per_host else len(by_kind["gpu"])
    nodes = len(per_host) or 1
    nics = [_towards(graph, nic, "host") for nic in by_kind["nic"]]
    return Imported(
        format=form,
        gpu=dump.gpu or (graph.models.most_common(1)[0][0] if graph.models else ""),
        nodes=tuple(by_kind["host"]),
        node_count=nodes,
        gpus_per_node=per_node,
        nvlink_domain=min(domains) if domains else 1 if per_host else None,
        nvlink_gpu_bytes_per_s=_least(graph, "gpu", "nvswitch"),
        nics=len(nics) // nodes or None,
        inter_node_bytes_per_s=min(nics) * len(nics) / nodes if nics and min(nics) > 0 else None,
        switches=len(by_kind["leaf"]) + len(by_kind["spine"]) or None,
        leaf_nodes=_leaf_nodes(graph, by_kind["leaf"]),
        oversubscription=_oversubscription(graph, by_kind["leaf"]),
        counts={"vertices": len(graph.kinds), "gpus": len(by_kind["gpu"])},
        warnings=tuple(warnings),
    )


def _components(graph: _Graph) -> list[list[str]]:
    left, parts = set(graph.kinds), []
    for start in graph.kinds:
        if start not in left:
            continue
        left.discard(start)
        part, queue = [start], [start]
        while queue:
            new = [name for name in graph.around[queue.pop()] if name in left]
            left.difference_update(new)
            part += new
            queue += new
        parts.append(part)
    return parts


def _sizes(graph: _Graph, at: str, what: str, warnings: list[str], name: str) -> list[int]:
    """Return how many vertices of a kind are next to each vertex of another, none left out."""
    sizes = [
        sum(graph.kinds[other] == what for other in graph.around[vertex])
        for vertex, kind in graph.kinds.items()
        if kind == at
    ]
    sizes = [size for size in sizes if size]
    if len(set(sizes)) > 1:
        warnings.append(f"{name} hold {min(sizes)} to {max(sizes)} GPUs: the smallest is taken")
    return sizes


def _towards(graph: _Graph, name: str, kind: str) -> float:
    """Return what a vertex has towards all of a kind, bytes/s."""
    return sum(rate for peer, rate in graph.around[name].items() if graph.kinds[peer] == kind)


def _least(graph: _Graph, one: str, other: str) -> float | None:
    """Return what the worst vertex of a kind has towards another kind, bytes/s."""
    sums = [_towards(graph, name, other) for name, kind in graph.kinds.items() if kind == one]
    return min(sums) if sums and min(sums) > 0 else None


def _leaf_nodes(graph: _Graph, leaves: list[str]) -> tuple[int, ...]:
    """Return the hosts below each leaf, over adapters or directly."""
    sizes = []
    for leaf in leaves:
        below = {name for name in graph.around[leaf] if graph.kinds[name] in ("nic", "host")}
        hosts = {name for name in below if graph.kinds[name] == "host"}
        for nic in below - hosts:
            hosts |= {name for name in graph.around[nic] if graph.kinds[name] == "host"}
        sizes.append(len(hosts))
    return tuple(size for size in sizes if size)


def _oversubscription(graph: _Graph, leaves: list[str]) -> float | None:
    ratios = []
    for leaf in leaves:
        up = _towards(graph, leaf, "spine")
        down = _towards(graph, leaf, "nic") + _towards(graph, leaf, "host")
        if up > 0 and down > 0:
            ratios.append(max(1.0, down / up))
    return max(ratios) if ratios else None
