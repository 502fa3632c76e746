"""What a report is made of, before any format is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a sheet.

    Attributes
    ----------
    key
        Where the value stands in a row.
    head
        Title for people, with the unit.
    show
        Value to text.
    align
        Numbers stand right, text left.
    usual
        Shown value that says nothing; where every row shows it the column is left out.
    short, brief
        Title and value to text in a table that does not fit.
    drop
        Place in the order in which columns are left out of a table that still does not fit, 1
        first; 0 stays.
    wraps
        Whether a value on the right may be folded, as text on the left always is: a number and its
        unit.
    """

    key: str
    head: str
    show: Callable[[Any], str] = str
    align: Literal["left", "right"] = "right"
    usual: str | None = None
    short: str = ""
    brief: Callable[[Any], str] | None = None
    drop: int = 0
    wraps: bool = False

    @property
    def folds(self) -> bool:
        """Whether a narrow table may fold a value between its words."""
        return self.wraps or self.align == "left"

    def cell(self, row: Mapping[str, Any]) -> str:
        """Return the text of this column in a row; a dash where there is no value."""
        value = row.get(self.key)
        return "–" if value is None else self.show(value)


@dataclass(frozen=True, slots=True)
class Sheet:
    """Rows and columns; ``styles`` are names of rich styles, one a row, or empty."""

    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Any], ...]
    title: str = ""
    styles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """Labels with what belongs to them, one a line."""

    rows: tuple[tuple[str, str], ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Plain:
    """Text whose line breaks and blanks matter: drawings and formulas."""

    text: str
    title: str = ""


Block: TypeAlias = str | Facts | Plain | Sheet


@dataclass(frozen=True, slots=True)
class Report:
    """One answer in every form.

    Attributes
    ----------
    blocks
        For people, in reading order.
    data
        For programs: what ``--format json`` prints, in base units.
    records
        The rows that ``jsonl`` and ``csv`` print.
    texts
        Forms of its own, by name: a tree, a graph, YAML; written when asked for.
    notes
        What goes to stderr beside it.
    """

    blocks: tuple[Block, ...]
    data: Any
    records: tuple[Mapping[str, Any], ...] = ()
    texts: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
