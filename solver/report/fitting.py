"""Fit a table into a width: fold text, shorten heads, then leave out what matters least."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from textwrap import wrap

from rich.cells import cell_len

from .blocks import Column, Sheet

WIDE_GAP, NARROW_GAP = 2, 1
"""Blanks between columns, where there is room and where there is little."""
_TEXT = 14
"""Columns that a cell of text keeps where it has as many: below, it reads as a list of words."""
_WORD = 26
"""Columns of the longest word that is kept whole in a cell; the last unit of a sum has fewer."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Columns that fit with their widths, the gap between them, and heads of those left out."""

    columns: tuple[Column, ...]
    widths: tuple[int, ...]
    gap: int
    left_out: tuple[str, ...] = ()


def fit(sheet: Sheet, columns: tuple[Column, ...], width: int) -> Fit | None:
    """Return how a table keeps within ``width``; None where nothing helps.

    Numbers and heads are never broken; text folds between words and after commas. First text folds,
    then gaps are narrowed, then heads shortened, then columns go: those of `Column.drop` 1 first.
    """
    for gap, kept in _tries(columns):
        widths = _widths(sheet, kept, width - gap * (len(kept) - 1))
        if widths is not None:
            keys = {column.key for column in kept}
            gone = tuple(column.head for column in columns if column.key not in keys)
            return Fit(kept, widths, gap, gone)
    return None


def _tries(columns: tuple[Column, ...]) -> Iterator[tuple[int, tuple[Column, ...]]]:
    yield WIDE_GAP, columns
    yield NARROW_GAP, columns
    kept = tuple(_brief(column) for column in columns)
    yield NARROW_GAP, kept
    for column in sorted((c for c in kept if c.drop), key=lambda c: c.drop):
        kept = tuple(c for c in kept if c is not column)
        yield NARROW_GAP, kept


def _brief(column: Column) -> Column:
    return replace(column, head=column.short or column.head, show=column.brief or column.show)


def _widths(sheet: Sheet, columns: tuple[Column, ...], room: int) -> tuple[int, ...] | None:
    """Return the widths of columns that share ``room``: the widest texts give way first."""
    least, widths = [], []
    for column in columns:
        head = max(map(cell_len, column.head.split() or [""]))
        cells = [column.cell(row) for row in sheet.rows]
        most = max(map(cell_len, cells), default=0)
        if not column.folds:
            least.append(max(head, most))
        else:
            word = max((cell_len(p.rstrip()) for c in cells for p in _pieces(c)), default=0)
            least.append(max(head, min(word, _WORD), min(most, _TEXT)))
        widths.append(max(least[-1], most, cell_len(column.head)))
    if sum(least) > room:
        return None
    while sum(widths) > room:
        spare = [(w, -i) for i, (w, low) in enumerate(zip(widths, least, strict=True)) if w > low]
        widths[-max(spare)[1]] -= 1
    return tuple(widths)


def _pieces(text: str) -> list[str]:
    """Split a text where a line may end: after blanks, and after commas outside numbers."""
    return re.split(r"(?<=\s)(?=\S)|(?<=,)(?=[^\s\d])", text)


def folded(text: str, width: int) -> str:
    """Fold a cell; what has no place to break is cut."""
    lines = [""]
    for piece in _pieces(text):
        if lines[-1] and cell_len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(part for line in lines for part in wrap(line, width) or [""])


def headed(head: str, width: int) -> str:
    """Fold a head between its words."""
    return "\n".join(wrap(head, width, break_long_words=False, break_on_hyphens=False))
