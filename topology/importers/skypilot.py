"""SkyPilot task files: ``accelerators: H100:8`` and ``num_nodes``, at whatever depth.

Read by lines, as task files hold scripts, several documents and templates that no strict reader
takes.
"""

from __future__ import annotations

import re

from .imported import Dump, Imported, few

NAME = "skypilot"
COMMAND = "a SkyPilot task with accelerators: H100:8"

_KEY = re.compile(r"^([ \t-]{0,200})[\"']?accelerators[\"']?[ \t]*:[ \t]*(.*)$", re.MULTILINE)
_NODES = re.compile(r"^[ \t]*[\"']?num_nodes[\"']?[ \t]*:[ \t]*[\"']?(\d{1,9})\b", re.MULTILINE)
_ITEM = re.compile(r"([A-Za-z][\w.-]{0,60})[\"']?\s*(?::\s*[\"']?(\d{1,6})(?!\w))?")
_MOST_LINES = 50


def matches(text: str) -> bool:
    """Tell whether the text has an accelerators key."""
    return _KEY.search(text) is not None


def read(dump: Dump) -> Imported:
    """Read the first accelerator and the number of nodes.

    Raises
    ------
    InputError
        SP130 where no accelerator is named.
    """
    warnings = list(dump.notes)
    found = [item for key in list(_KEY.finditer(dump.text))[:_MOST_LINES] for item in _items(key)]
    choices = list(dict.fromkeys(found))
    if not choices:
        raise dump.refuse("has accelerators, but names no GPU.", "Write e.g. accelerators: H100:8.")
    gpu, count = choices[0]
    if len(choices) > 1:
        warnings.append(f"several choices ({few([f'{g}:{n}' for g, n in choices])}): the first one")
    if dump.gpu and dump.gpu.lower() != gpu.lower():
        warnings.append(f"the file says {gpu}, {dump.gpu} is taken as given")
    nodes = _NODES.search(dump.text)
    return Imported(
        format=NAME,
        gpu=dump.gpu or gpu,
        node_count=max(1, int(nodes[1])) if nodes else 1,
        gpus_per_node=count,
        warnings=tuple(warnings),
    )


def _items(key: re.Match[str]) -> list[tuple[str, int]]:
    """Return the accelerators of one key: on its line, or in the deeper lines below it."""
    text = _plain(key[2])
    if not text:
        depth = len(key[1])
        for line in key.string[key.end() + 1 :].split("\n", _MOST_LINES)[:_MOST_LINES]:
            body = _plain(line)
            indent = len(line) - len(line.lstrip())
            dash = body.startswith("-")
            if body and (indent < depth or (indent == depth and not dash)):
                break
            text += " , " + body.lstrip("- ")
    items = [_ITEM.fullmatch(part.strip("{}[]\"' \t-")) for part in text.split(",")]
    return [(item[1], max(1, int(item[2] or 1))) for item in items if item and _is_gpu(item[1])]


def _plain(text: str) -> str:
    return re.sub(r"(?:^|\s)#.*", "", text).strip()


def _is_gpu(name: str) -> bool:
    return not name.lower().startswith(("null", "none", "tpu", "cpu"))
