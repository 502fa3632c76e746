"""Slurm's ``topology.yaml``: several topologies, of which the default one is taken."""

from __future__ import annotations

import re
from typing import Any

from ..source import load_yaml
from .fabric import Tree
from .hosts import Hosts
from .imported import Dump, Imported

NAME = "slurm-yaml"
COMMAND = "/etc/slurm/topology.yaml"

MAX_BYTES = 1_000_000
_START = re.compile(r"^\s*-\s+topology\s*:", re.MULTILINE)
_KINDS = ("tree", "block", "ring", "torus3d", "flat")
# Kind to the list in it, the key of a name, where hosts stand.
_LISTS = {
    "tree": ("switches", "switch"),
    "block": ("blocks", "block"),
    "ring": ("rings", "ring"),
    "torus3d": ("toruses", "name"),
}


def matches(text: str) -> bool:
    """Tell whether the text is a list of topologies."""
    return _START.search(text) is not None


def read(dump: Dump) -> Imported:
    """Read the default topology, the first where none is marked.

    Raises
    ------
    InputError
        SP100 for YAML that cannot be read, SP130 where it holds no topology.
    """
    if len(dump.text) > MAX_BYTES:
        raise dump.refuse("is larger than 1 MB: not a topology.yaml.", f"Use {COMMAND}.")
    data = load_yaml(dump.text, dump.path).data
    entries = [e for e in data if isinstance(e, dict)] if isinstance(data, list) else []
    kinds = [next((k for k in _KINDS if k in entry), "none") for entry in entries]
    if not entries or set(kinds) == {"none"}:
        kinds_known = ", ".join(_KINDS)
        raise dump.refuse(f"holds no topology ({kinds_known}).", f"Use {COMMAND}.")
    chosen = next((n for n, e in enumerate(entries) if e.get("cluster_default") is True), 0)
    tree = _tree(dump, kinds[chosen], entries[chosen])
    if len(entries) > 1:
        name = str(entries[chosen].get("topology", chosen))[:60]
        tree.warnings.append(f"{len(entries)} topologies: {name} is read")
    facts = tree.facts(NAME, dump.notes)
    counts = {**facts.counts, "topologies": len(entries), "kinds": kinds}
    return Imported(**{f: getattr(facts, f) for f in Imported.__slots__} | {"counts": counts})


def _tree(dump: Dump, kind: str, entry: dict[str, Any]) -> Tree:
    tree, hosts = Tree(kind="block" if kind in ("tree", "flat", "none") else kind), Hosts(dump)
    key, naming = _LISTS.get(kind, ("", ""))
    body = entry.get(kind)
    items = body.get(key) if isinstance(body, dict) else None
    for item in items if isinstance(items, list) else []:
        if not isinstance(item, dict) or naming not in item:
            tree.warnings.append(f"an entry of {key} without {naming} is left out")
            continue
        name, nodes = str(item[naming])[:200], hosts.expand(str(item.get("nodes") or ""))
        if kind == "tree":
            tree.switch(name, hosts.expand(str(item.get("children") or "")), nodes)
        else:
            tree.block(name, nodes)
    tree.warnings += hosts.warnings
    return tree
