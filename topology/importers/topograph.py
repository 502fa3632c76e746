"""NVIDIA topograph's model files: switches, and blocks or nodes below them."""

from __future__ import annotations

import re
from typing import Any

from ..source import load_yaml
from .fabric import Tree
from .hosts import Hosts
from .imported import Dump, Imported

NAME = "topograph"
COMMAND = "a topograph model (switches:, blocks: or nodes:)"

MAX_BYTES = 1_000_000
_SWITCHES = re.compile(r"^switches[ \t]*:", re.MULTILINE)
_REST = re.compile(r"^(?:blocks|nodes|capacity_blocks)[ \t]*:", re.MULTILINE)
_DOMAIN = re.compile(r"/domain$|nvlink", re.IGNORECASE)


def matches(text: str) -> bool:
    """Tell whether the text has the two sections of a model."""
    return bool(_SWITCHES.search(text) and _REST.search(text))


def read(dump: Dump) -> Imported:
    """Read switches and the blocks at them.

    Raises
    ------
    InputError
        SP100 for YAML that cannot be read, SP130 where it holds no switch.
    """
    if len(dump.text) > MAX_BYTES:
        raise dump.refuse("is larger than 1 MB: not a topograph model.", f"Give {COMMAND}.")
    data = load_yaml(dump.text, dump.path).data
    data = data if isinstance(data, dict) else {}
    tree, hosts = Tree(), Hosts(dump)
    for name, body in _named(data.get("switches")):
        children, nodes = _names(body, "switches"), hosts.all(_names(body, "nodes"))
        tree.switch(name, children, nodes)
    for name, body in _named(data.get("blocks") or data.get("capacity_blocks")):
        nodes = hosts.all(_names(body, "nodes"))
        switch = str(body.get("switch") or "")[:200]
        if switch:
            tree.switch(switch, (), nodes)
        notes = body.get("annotations") or body.get("labels") or {}
        pairs = notes.items() if isinstance(notes, dict) else ()
        domain = [str(value) for key, value in pairs if _DOMAIN.search(key)]
        if domain or body.get("nvlink"):
            tree.block((domain or [str(body["nvlink"])])[0][:200], nodes)
        elif not switch:
            tree.block(name, nodes)
    if not tree.children:
        raise dump.refuse("holds no switch.", f"Give {COMMAND}.")
    tree.warnings += hosts.warnings
    return tree.facts(NAME, dump.notes)


def _is(value: Any) -> bool:
    return isinstance(value, dict)


def _named(value: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the entries of a mapping or list, with their names."""
    if isinstance(value, list):
        pairs = [(str(e.get("name", n)), e) for n, e in enumerate(value) if _is(e)]
    elif _is(value):
        pairs = [(str(name), body if _is(body) else {}) for name, body in value.items()]
    else:
        pairs = []
    return [(name[:200], body) for name, body in pairs]


def _names(body: dict[str, Any], key: str) -> tuple[str, ...]:
    value = body.get(key)
    if isinstance(value, dict):
        return tuple(map(str, value))
    return tuple(map(str, value)) if isinstance(value, list) else ()
