"""Slurm's ``topology.conf``: switches (tree), blocks or rings, also inside a ConfigMap."""

from __future__ import annotations

import re

from .fabric import Tree
from .hosts import Hosts
from .imported import Dump, Imported

NAME = "slurm-conf"
COMMAND = "scontrol show topoconf, or /etc/slurm/topology.conf"

MOST_RECORDS = 50_000
_RECORD = re.compile(r"\b(Switch|Block|Ring)Name\s?=\s?(\S{1,4000})", re.IGNORECASE)
_FIELD = re.compile(r"\b(Nodes|Switches)\s?=\s?(\S+)", re.IGNORECASE)


def matches(text: str) -> bool:
    """Tell whether the text names switches, blocks or rings."""
    return _RECORD.search(text) is not None


def read(dump: Dump) -> Imported:
    """Read the tree or the blocks.

    Raises
    ------
    InputError
        SP130 where there is no record, or ClusterShell is missing for its host lists.
    """
    tree, hosts = Tree(), Hosts(dump)
    for line in dump.text.replace("\\\n", " ").split("\n"):
        line = line.split("#", 1)[0]  # noqa: PLW2901 - a comment ends the line
        record = _RECORD.search(line)
        if record is None:
            continue
        if len(tree.children) + len(tree.blocks) > MOST_RECORDS:
            raise dump.refuse(f"has more than {MOST_RECORDS:,} records.", "Give one cluster's.")
        fields = {key.lower(): value for key, value in _FIELD.findall(line)}
        nodes = hosts.expand(fields.get("nodes", ""))
        for name in hosts.expand(record[2]):
            if record[1].lower() == "switch":
                tree.switch(name, hosts.expand(fields.get("switches", "")), nodes)
            else:
                tree.kind = record[1].lower()
                tree.block(name, nodes)
    if not tree.children and not tree.blocks:
        raise dump.refuse("holds no SwitchName, BlockName or RingName.", f"Use {COMMAND}.")
    tree.warnings += hosts.warnings
    return tree.facts(NAME, dump.notes)
