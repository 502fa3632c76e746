"""Typed reading of rows of a table of runs."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MAX_FIELD = 10**12
"""Largest number that any column may hold."""
MAX_FIELD_BYTES = 2**24
"""Longest field that is read."""


class RefusedError(Exception):
    """A row that cannot be priced; the message says why."""


class Row:
    """Typed reading of one row; a value that cannot be read refuses the row."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = {k: v.strip() for k, v in values.items() if isinstance(v, str)}

    def text(self, *names: str, default: str = "") -> str:
        """Return the first value given among the columns ``names``."""
        return next((self.values[n] for n in names if self.values.get(n)), default)

    def number(self, *names: str, default: float | None = None) -> float:
        """Return the first number given among the columns ``names``."""
        text = self.text(*names)
        if not text:
            if default is None:
                raise RefusedError(f"{names[0]} is missing")
            return default
        try:
            value = float(text)
        except ValueError:
            raise RefusedError(f"{names[0]} is not a number: {text[:40]!r}") from None
        if not math.isfinite(value) or not 0 <= value <= MAX_FIELD:
            raise RefusedError(f"{names[0]} is out of range: {text[:40]}")
        return value

    def count(self, *names: str, default: float | None = None, least: int = 1) -> int:
        """Return a whole number of at least ``least``."""
        value = self.number(*names, default=default)
        if value != int(value) or value < least:
            raise RefusedError(f"{names[0]} must be a whole number from {least}: {value:g}")
        return int(value)


def read_rows(path: Path) -> Iterator[dict[str, str | None]]:
    """Read a CSV file; quotes and line ends as they come."""
    csv.field_size_limit(MAX_FIELD_BYTES)
    with path.open(encoding="utf-8", errors="replace", newline="") as stream:
        yield from csv.DictReader(line.replace("\0", "") for line in stream)
