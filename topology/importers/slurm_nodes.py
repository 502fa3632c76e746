"""Slurm's node lists: ``sinfo``, and ``scontrol show node`` or NodeName lines of slurm.conf."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from .hosts import Hosts
from .imported import Dump, Imported, few

SINFO, SCONTROL = "sinfo", "scontrol"
SINFO_COMMAND = 'sinfo -N -o "%N %G %t"'
SCONTROL_COMMAND = "scontrol show node"

MOST_ROWS = 50_000
_LONGEST = 20_000  # characters of one node's record
_HEADER = re.compile(r"^.{0,200}\b(?:NODELIST|HOSTNAMES?|NODE_LIST)\b.{0,200}$", re.MULTILINE)
_NODE = re.compile(r"\bNodeName=(\S+)")
_GRES = re.compile(r"\b(?:gpu|gres/gpu)[:=]?(?:([A-Za-z][\w.+-]{0,60})[:=])?(\d{1,4})?(?=[,(\s]|$)")
_FIELD = re.compile(r"\b(Gres|CfgTRES|State)=(\S+)")
_COUNT = re.compile(r"\d{1,7}(?:/\d{1,7}){0,3}\+?")
_AWAY = ("down", "drain", "fail", "maint", "unk", "power", "not_resp", "no_resp", "boot")


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    gpu: str
    gpus: int
    state: str


def sinfo_matches(text: str) -> bool:
    """Tell whether the text has sinfo's header."""
    return _HEADER.search(text) is not None


def scontrol_matches(text: str) -> bool:
    """Tell whether the text names nodes as scontrol does."""
    return _NODE.search(text) is not None


def _gres(text: str) -> tuple[str, int]:
    """Return GPU type and count of a ``Gres`` or ``TRES`` value; slices of GPUs are left out."""
    best = ("", 0)
    for kind, count in _GRES.findall(text):
        if re.search(r"\dg\.\d", kind):  # a MIG slice, e.g. a100_1g.5gb
            continue
        found = (kind, int(count or 1))
        best = max(best, found, key=lambda item: item[1])
    return best


def read_sinfo(dump: Dump) -> Imported:
    """Read the rows below the header; other lines of a pasted session are passed over.

    Raises
    ------
    InputError
        SP130 where there is no header or no row.
    """
    header = _HEADER.search(dump.text)
    if header is None:
        raise dump.refuse("holds no sinfo header with NODELIST.", f"Run: {SINFO_COMMAND}.")
    columns = [word.upper() for word in header[0].split()]
    lines = [line for line in dump.text[header.end() :].split("\n") if line.strip()]
    rows: list[list[str]] = []
    joined = 0
    for line in lines:
        if rows and (rows[-1][-1].endswith(",") or line.lstrip().startswith(",")):
            rows[-1][-1] += line.strip()
            joined += 1
            continue
        words = line.split()
        if len(words) == len(columns) and _is_row(columns, words):
            rows.append(words)
    if len(rows) > MOST_ROWS:
        raise dump.refuse(f"has more than {MOST_ROWS:,} rows.", "Give one cluster's.")
    if not rows:
        raise dump.refuse("holds sinfo's header, but no row.", f"Run: {SINFO_COMMAND}.")
    hosts, nodes = Hosts(dump), dict[str, _Node]()
    for words in rows:
        value = dict(zip(columns, words, strict=True))
        listed = next(value[key] for key in columns if key.startswith(("NODELIST", "HOSTNAME")))
        kind, count = _gres(value.get("GRES", ""))
        for name in hosts.expand(listed):
            nodes[name] = _Node(name, kind, count, value.get("STATE", value.get("ST", "")))
    counts = {"rows": len(rows), "lines below the header": len(lines), "wrapped lines": joined}
    return _facts(dump, SINFO, nodes, hosts, counts)


def _is_row(columns: list[str], words: list[str]) -> bool:
    value = dict(zip(columns, words, strict=True))
    counts = [value[key] for key in columns if key.startswith("NODES")]
    return all(_COUNT.fullmatch(count) for count in counts)


def read_scontrol(dump: Dump) -> Imported:
    """Read the records, one line each or many.

    Raises
    ------
    InputError
        SP130 where there is no record.
    """
    starts = list(_NODE.finditer(dump.text))
    hosts, nodes = Hosts(dump), dict[str, _Node]()
    if len(starts) > MOST_ROWS:
        raise dump.refuse(f"has more than {MOST_ROWS:,} records.", "Give one cluster's.")
    ends = [start.start() for start in starts[1:]] + [len(dump.text)]
    for start, end in zip(starts, ends, strict=False):
        body = dump.text[start.end() : min(end, start.end() + _LONGEST)]
        value = {key: text for key, text in reversed(_FIELD.findall(body))}
        kind, count = _gres(value.get("Gres", ""))
        if not count:
            kind, count = _gres(value.get("CfgTRES", ""))
        for name in hosts.expand(start[1]):
            if name.upper() != "DEFAULT":
                nodes[name] = _Node(name, kind, count, value.get("State", ""))
    if not nodes:
        raise dump.refuse("holds no NodeName= record.", f"Run: {SCONTROL_COMMAND}.")
    return _facts(dump, SCONTROL, nodes, hosts, {"records": len(starts)})


def _facts(
    dump: Dump, name: str, nodes: dict[str, _Node], hosts: Hosts, counts: Mapping[str, object]
) -> Imported:
    warnings = [*dump.notes, *hosts.warnings]
    kinds = Counter((node.gpu, node.gpus) for node in nodes.values() if node.gpus)
    chosen = list(nodes.values())
    gpu, per_node = "", None
    if kinds:
        (gpu, per_node), number = max(kinds.items(), key=lambda kind: kind[0][1] * kind[1])
        chosen = [node for node in chosen if (node.gpu, node.gpus) == (gpu, per_node)]
        if number < len(nodes):
            others = [f"{n} x {count} {kind or 'GPUs'}" for (kind, count), n in kinds.items()]
            rest = f"; GPUs are {few(others)}" if len(kinds) > 1 else ""
            warnings.append(f"{number} of {len(nodes)} nodes have {per_node} {gpu} each{rest}")
    else:
        warnings.append(f"no GPU count (gres): run {SINFO_COMMAND} for it")
    away = [node.name for node in chosen if node.state.lower().startswith(_AWAY)]
    away += [n.name for n in chosen if n.name not in away and n.state.endswith(("*", "~", "#"))]
    if away:
        warnings.append(f"{len(away)} of {len(chosen)} nodes are down or drained: {few(away)}")
    return Imported(
        format=name,
        gpu=dump.gpu or gpu,
        nodes=tuple(node.name for node in chosen),
        node_count=len(chosen) or None,
        gpus_per_node=per_node,
        counts=counts,
        warnings=tuple(warnings),
    )
