"""Kubernetes node labels: GPU feature discovery, topograph, custom columns of kubectl.

Labels are taken wherever they stand: ``kubectl get nodes -o json`` or ``yaml``, ``--show-labels``,
``describe``, or a table of ``-o custom-columns``.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from .imported import Dump, Imported

NAME = "kubernetes"
COMMAND = "kubectl get nodes --show-labels"

_PREFIX = (
    r"(?:nvidia\.com/gpu|amd\.com/gpu|[\w.-]{0,60}topograph\.run/"
    r"|node\.kubernetes\.io/instance-type|kubernetes\.io/hostname)"
)
_ANY = re.compile(r"(?:nvidia|amd)\\?\.com/gpu|topograph\.run/")
_LABEL = re.compile(
    rf"(?<![\w./])({_PREFIX}[\w./-]{{0,60}})"
    r"[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?([\w.+-]{1,200})"
)
_ITEM = re.compile(r"^[ \t]*(?:- )?[\"']?kind[\"']?[ \t]*:[ \t]*[\"']?Node\b", re.MULTILINE)
_NAME = re.compile(r"^Name:\s+(\S{1,253})", re.MULTILINE)
_TABLE = re.compile(r"^(?:NODE|NAME)[ \t]+\S.*$", re.MULTILINE)
_PRODUCT, _COUNT, _CLIQUE = (
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.count",
    "nvidia.com/gpu.clique",
)
_DOMAINS = (_CLIQUE, "accelerator.topograph.run/domain")
_LEAVES = ("fabric.topograph.run/tier-0",)
_SKU = "node.kubernetes.io/instance-type"
_SKU_VALUE = re.compile(r"instance-type=([\w.-]{2,60})")
_LAST_NUMBER = re.compile(r"\.(\d{1,2})$")


def matches(text: str) -> bool:
    """Tell whether the text names labels of GPU nodes."""
    return _ANY.search(text) is not None


@dataclass(slots=True)
class _Node:
    name: str = ""
    labels: dict[str, str] = field(default_factory=dict)


def read(dump: Dump) -> Imported:
    """Read GPU product, count, NVLink clique and leaf of each node.

    Raises
    ------
    InputError
        SP130 where labels are named but none has a value.
    """
    nodes = _nodes(dump.text)
    if not any(node.labels for node in nodes):
        message = "names node labels, but gives none a value."
        raise dump.refuse(message, f"Run: {COMMAND}.")
    warnings = list(dump.notes)
    with_gpu = [node for node in nodes if _gpus(node) or _clique(node)] or nodes
    kinds = Counter((node.labels.get(_PRODUCT, ""), _gpus(node)) for node in with_gpu)
    (gpu, count), number = max(kinds.items(), key=lambda kind: (kind[0][1] or 1) * kind[1])
    if number < len(with_gpu):
        warnings.append(
            f"{number} of {len(with_gpu)} GPU nodes are {count} x {gpu}: those are taken"
        )
        with_gpu = [n for n in with_gpu if (n.labels.get(_PRODUCT, ""), _gpus(n)) == (gpu, count)]
    if count is None:
        warnings.append(f"no label {_COUNT}: GPUs per node are left open")
    domains = Counter(filter(None, map(_clique, with_gpu)))
    leaves = Counter(filter(None, (node.labels.get(_LEAVES[0]) for node in with_gpu)))
    for what, groups in (("NVLink domains", domains), ("leaf switches", leaves)):
        if len(set(groups.values())) > 1:
            least, most = min(groups.values()), max(groups.values())
            warnings.append(f"{what} hold {least} to {most} nodes: the smallest is taken")
    return Imported(
        format=NAME,
        gpu=dump.gpu or re.sub(r"-(?:SHARED|MIG-.*)$", "", gpu),
        nodes=tuple(dict.fromkeys(node.name for node in with_gpu if node.name)),
        node_count=len(with_gpu),
        gpus_per_node=count,
        blocks=len(domains) or None,
        block_nodes=tuple(domains.values()),
        rack_domains=bool(domains),
        switches=len(leaves) or None,
        leaf_nodes=tuple(leaves.values()),
        warnings=tuple(warnings),
    )


def _clique(node: _Node) -> str:
    return next((node.labels[key] for key in _DOMAINS if key in node.labels), "")


def _gpus(node: _Node) -> int | None:
    """Return the GPUs of a node by label, else by its instance type (``BM.GPU.GB200.4``)."""
    text = node.labels.get(_COUNT, "")
    if text.isascii() and text.isdigit() and 0 < len(text) < 5:  # noqa: PLR2004
        return int(text) or None
    sku = node.labels.get(_SKU, "")
    match = _LAST_NUMBER.search(sku) if "GPU" in sku.upper() else None
    return int(match[1]) or None if match else None


def _nodes(text: str) -> list[_Node]:
    """Return the nodes: items of a list, lines of a table, or one for loose labels."""
    table = _TABLE.search(text)
    if table and ("LABELS" in table[0] or "CLIQUE" in table[0].upper()):
        return _rows(text, table)
    starts = [match.start() for match in _ITEM.finditer(text)]
    if not starts:
        starts = [match.start() for match in _NAME.finditer(text)]
    # In YAML and JSON written by kubectl the keys are sorted: kind stands before metadata.
    edges = [*starts, len(text)] if starts else [0, len(text)]
    return [_node(text[a:b]) for a, b in pairwise(edges)]


def _node(text: str) -> _Node:
    labels = {key: value for key, value in _LABEL.findall(text) if "capacity" not in key}
    name = _NAME.search(text)
    return _Node(name[1] if name else labels.get("kubernetes.io/hostname", ""), labels)


def _rows(text: str, header: re.Match[str]) -> list[_Node]:
    columns = header[0].split()
    sku = _SKU_VALUE.search(text[: header.start()])
    nodes = []
    for line in text[header.end() :].split("\n"):
        words = line.split()
        if len(words) < len(columns):
            continue
        labels = dict(_LABEL.findall(line))
        for column, word in zip(columns, words, strict=False):
            key = {"CLIQUE": _CLIQUE, "PRODUCT": _PRODUCT, "COUNT": _COUNT}.get(column.upper())
            if key and word != "<none>":
                labels[key] = word
        if sku:
            labels.setdefault(_SKU, sku[1])
        nodes.append(_Node(words[0], labels))
    return nodes
