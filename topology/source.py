"""Read YAML and JSON so that every value keeps its line and column.

The reader takes a plain subset: one document, text keys, no anchors, aliases, merge keys or tags,
no duplicate keys. Numbers follow YAML 1.2, so ``1e11`` is a number and ``yes`` is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .errors import InputError, Problem
from .numbers import plain

Loc = tuple[str | int, ...]
Positions = dict[Loc, tuple[int, int]]

MAX_FILE_BYTES = 4_000_000
"""Far above any problem or model file, small enough to read in a moment."""
MAX_DEPTH = 32
"""Nesting that no real file reaches; keeps the reader away from the recursion limit."""
MAX_DIGITS = 400
"""A longer number overflows a float (1.8e308) many times over."""

MAX_ECHO = 200
"""A longer line is not repeated in a message."""

_INT = re.compile(r"[-+]?[0-9]+(_[0-9]+)*")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", "+.inf", ".Inf", ".INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Source:
    """The contents of one file and where each value stands.

    Attributes
    ----------
    path
        Name of the file, for messages.
    data
        Plain mappings, lists, text, numbers, truth values and None.
    positions
        Location to line and column, both from 1.
    flags
        Location to the flag that set it in place of the file.
    """

    path: str
    data: Any
    positions: Mapping[Loc, tuple[int, int]]
    flags: Mapping[Loc, str] = field(default_factory=dict)

    def at(self, loc: Loc) -> tuple[int, int]:
        """Line and column of a location, or of the nearest part around it; (0, 0) for none."""
        for end in range(len(loc), -1, -1):
            if loc[:end] in self.positions:
                return self.positions[loc[:end]]
        return (0, 0)

    def fault(self, loc: Loc, code: str, message: str, hint: str = "") -> Problem:
        """Describe one fault at a location: the flag that set it, else its line in the file."""
        flag = next(
            (self.flags[loc[:n]] for n in range(len(loc), 0, -1) if loc[:n] in self.flags), ""
        )
        if flag:
            return Problem(flag, 0, 0, dotted(loc), code, message, hint)
        line, column = self.at(loc)
        return Problem(self.path, line, column, dotted(loc), code, message, hint)


def dotted(loc: Loc) -> str:
    """Write a location as ``training.seq_len`` or ``search.tp[1]``."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{plain(part)}"
    return text.removeprefix(".")


def read_text(path: str | Path) -> str:
    """Read a text file.

    Raises
    ------
    InputError
        SP100 where there is no such file, it cannot be read, is too large or is not UTF-8.
    """
    name = str(path)
    try:
        file = Path(path)
        if file.is_dir():
            raise InputError(Problem(name, 0, 0, "", "SP100", "is a folder.", "Name a file in it."))
        with file.open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        hint = "Check the name and the folder."
        raise InputError(Problem(name, 0, 0, "", "SP100", "no such file.", hint)) from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(Problem(name, 0, 0, "", "SP100", f"cannot be read: {reason}.")) from None
    if len(raw) > MAX_FILE_BYTES:
        message = f"is larger than {MAX_FILE_BYTES // 1_000_000} MB: not such a file."
        raise InputError(Problem(name, 0, 0, "", "SP100", message))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        message = f"is not UTF-8 text (byte {error.start})."
        raise InputError(
            Problem(name, line, 0, "", "SP100", message, "Save it as UTF-8.")
        ) from None


def load_yaml(text: str, path: str) -> Source:
    """Read YAML text.

    Parameters
    ----------
    text
        One document.
    path
        Name for messages.

    Returns
    -------
    The data with the position of each value; data None for an empty text.

    Raises
    ------
    InputError
        SP100 with line and column for a syntax error and for what the plain subset leaves out.
    """
    reader = _YamlReader(path)
    try:
        data = reader.document(iter(yaml.parse(text, Loader=_LOADER)))
    except yaml.MarkedYAMLError as error:
        raise InputError(_syntax(error, text, path)) from None
    except (yaml.YAMLError, ValueError) as error:  # unreadable characters carry no mark
        reason = str(getattr(error, "reason", "") or "unreadable character")
        message = f"is not valid YAML: {reason}."
        raise InputError(Problem(path, 0, 0, "", "SP100", message)) from None
    return Source(path, data, reader.positions)


def _syntax(error: yaml.MarkedYAMLError, text: str, path: str) -> Problem:
    """Describe a syntax error with its line and a caret."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    rows = text.splitlines()
    shown = ""
    if 0 < line <= len(rows) and len(rows[line - 1]) < MAX_ECHO:
        shown = f"\n    {rows[line - 1]}\n    {' ' * (column - 1)}^"
    message = f"not valid YAML: {error.problem or error.context}.{shown}"
    return Problem(path, line, column, "", "SP100", message)


def _place(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


class _YamlReader:
    """Builds plain data from parser events and notes positions."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.positions: Positions = {}

    def fail(self, event: Any, message: str, hint: str = "") -> InputError:
        return InputError(Problem(self.path, *_place(event), "", "SP100", message, hint))

    def document(self, events: Iterator[Any]) -> Any:
        data, documents = None, 0
        for event in events:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            documents += 1
            if documents > 1:
                raise self.fail(event, "holds more than one document.", "Keep the first one.")
            data = self.value(next(events), events, ())
        return data

    def value(self, event: Any, events: Iterator[Any], loc: Loc) -> Any:
        self.positions.setdefault(loc, _place(event))
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise self.fail(event, "anchors and aliases are not read.", "Write the value out.")
        if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            raise self.fail(event, "tags are not read.", "Write the plain value.")
        if len(loc) > MAX_DEPTH:
            raise self.fail(event, f"is nested more than {MAX_DEPTH} deep.")
        if isinstance(event, yaml.ScalarEvent):
            return self.scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return self.sequence(events, loc)
        return self.mapping(events, loc)

    def sequence(self, events: Iterator[Any], loc: Loc) -> list[Any]:
        items: list[Any] = []
        for event in events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self.value(event, events, (*loc, len(items))))
        return items

    def mapping(self, events: Iterator[Any], loc: Loc) -> dict[str, Any]:
        items: dict[str, Any] = {}
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            if not isinstance(event, yaml.ScalarEvent):
                raise self.fail(event, "a key must be plain text.", "Write 'name: value'.")
            key = event.value
            if key in items:
                first = self.positions[(*loc, key)][0]
                message = f"key '{plain(key)}' is given twice, first in line {first}."
                raise self.fail(event, message, "Keep one.")
            self.positions[(*loc, key)] = _place(event)
            items[key] = self.value(next(events), events, (*loc, key))
        return items

    def scalar(self, event: Any) -> object:
        text: str = event.value
        if not event.implicit[0]:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if not (_INT.fullmatch(text) or _FLOAT.fullmatch(text)):
            return text
        if len(text) > MAX_DIGITS:
            raise self.fail(event, f"a number of {len(text)} characters is too large.")
        return int(text) if _INT.fullmatch(text) else float(text)
