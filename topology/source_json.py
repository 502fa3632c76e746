"""Read JSON with the line and column of each value."""

from __future__ import annotations

import re
from bisect import bisect_right
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]
from typing import Any, NoReturn

from .errors import InputError, Problem
from .source import MAX_DEPTH, MAX_DIGITS, Loc, Positions, Source

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
# NaN and Infinity are no JSON, but Python writes them; the field's own check then refuses them.
_WORDS = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}


def load_json(text: str, path: str) -> Source:
    """Read JSON text.

    Parameters
    ----------
    text
        One JSON value.
    path
        Name for messages.

    Returns
    -------
    The data with the position of each value.

    Raises
    ------
    InputError
        SP100 with line and column for a syntax error, a duplicate key or deep nesting.
    """
    reader = _JsonReader(text, path)
    data, end = reader.value(reader.skip(0), ())
    if reader.skip(end) != len(text):
        reader.fail(reader.skip(end), "not valid JSON: text after the end.")
    return Source(path, data, reader.positions)


class _JsonReader:
    """Recursive descent over the text."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self.positions: Positions = {}
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def place(self, index: int) -> tuple[int, int]:
        line = bisect_right(self.starts, index)
        return line, index - self.starts[line - 1] + 1

    def fail(self, index: int, message: str) -> NoReturn:
        raise InputError(Problem(self.path, *self.place(index), "", "SP100", message))

    def skip(self, index: int) -> int:
        match = _SPACE.match(self.text, index)
        return match.end() if match else index

    def value(self, index: int, loc: Loc) -> tuple[Any, int]:
        self.positions.setdefault(loc, self.place(index))
        if len(loc) > MAX_DEPTH:
            self.fail(index, f"is nested more than {MAX_DEPTH} deep.")
        head = self.text[index : index + 1]
        if head == "{":
            return self.mapping(index + 1, loc)
        if head == "[":
            return self.sequence(index + 1, loc)
        if head == '"':
            return self.string(index)
        for word, constant in _WORDS.items():
            if self.text.startswith(word, index):
                return constant, index + len(word)
        return self.number(index)

    def number(self, index: int) -> tuple[int | float, int]:
        match = _NUMBER.match(self.text, index)
        if match is None:
            self.fail(index, "not valid JSON: a value is expected here.")
        if len(match[0]) > MAX_DIGITS:
            self.fail(index, f"a number of {len(match[0])} characters is too large.")
        whole = match[1] is None and match[2] is None
        return (int(match[0]) if whole else float(match[0])), match.end()

    def string(self, index: int) -> tuple[str, int]:
        try:
            text, end = scanstring(self.text, index + 1, True)
        except JSONDecodeError as error:
            self.fail(min(error.pos, len(self.text)), f"not valid JSON: {error.msg}.")
        return text, end

    def sequence(self, index: int, loc: Loc) -> tuple[list[Any], int]:
        items: list[Any] = []
        index = self.skip(index)
        if self.text[index : index + 1] == "]":
            return items, index + 1
        while True:
            item, index = self.value(self.skip(index), (*loc, len(items)))
            items.append(item)
            index = self.skip(index)
            if self.text[index : index + 1] == "]":
                return items, index + 1
            index = self.comma(index, "]")

    def mapping(self, index: int, loc: Loc) -> tuple[dict[str, Any], int]:
        items: dict[str, Any] = {}
        index = self.skip(index)
        if self.text[index : index + 1] == "}":
            return items, index + 1
        while True:
            start = self.skip(index)
            if self.text[start : start + 1] != '"':
                self.fail(start, "not valid JSON: a key in double quotes is expected here.")
            key, index = self.string(start)
            if key in items:
                self.fail(start, f"key '{key[:60]}' is given twice.")
            self.positions[(*loc, key)] = self.place(start)
            index = self.skip(index)
            if self.text[index : index + 1] != ":":
                self.fail(index, "not valid JSON: ':' is expected here.")
            items[key], index = self.value(self.skip(index + 1), (*loc, key))
            index = self.skip(index)
            if self.text[index : index + 1] == "}":
                return items, index + 1
            index = self.comma(index, "}")

    def comma(self, index: int, closing: str) -> int:
        if self.text[index : index + 1] != ",":
            self.fail(index, f"not valid JSON: ',' or '{closing}' is expected here.")
        return index + 1
