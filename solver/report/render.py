"""Write a report as a table for people, JSON, JSON lines, CSV or Markdown."""

from __future__ import annotations

import csv
import io
import json
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .blocks import Block, Column, Facts, Plain, Report, Sheet
from .fitting import WIDE_GAP, Fit, fit, folded, headed

PROSE_WIDTH = 110
"""Columns that running text takes where no width is given."""
_LEAST_TEXT = 20
"""Columns that text beside a label needs to be read."""
_UNBOUNDED = 10_000
"""A console this wide never cuts a table."""


def render(report: Report, form: str, *, width: int | None = None, color: bool = False) -> str:
    """Write a report.

    Parameters
    ----------
    report
        What to write.
    form
        One of `FORMATS`, or of the report's own texts.
    width
        Columns that a table may take; None lets it have what it needs.
    color
        Whether a table carries ANSI styles.

    Returns
    -------
    The text, with a newline at the end unless it is empty.
    """
    if form in report.texts:
        return report.texts[form]()
    if form == "table":
        return _table(report.blocks, width, color)
    return _WRITERS[form](report)


def to_json(data: Any) -> str:
    """Write JSON with sorted keys; what is not finite becomes null."""
    return json.dumps(finite(data), sort_keys=True, indent=2, ensure_ascii=False) + "\n"


def finite(data: Any) -> Any:
    """Replace NaN and infinities, which JSON does not know, by None."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return data


def _json(report: Report) -> str:
    return to_json(report.data)


def _jsonl(report: Report) -> str:
    lines = (json.dumps(finite(row), sort_keys=True, ensure_ascii=False) for row in report.records)
    return "".join(line + "\n" for line in lines)


def _csv(report: Report) -> str:
    names = list(dict.fromkeys(key for row in report.records for key in row))
    if not names:
        return ""
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(report.records)
    return out.getvalue()


def _markdown(report: Report) -> str:
    return "\n".join(map(_markdown_block, report.blocks))


def _markdown_block(block: Block) -> str:
    if isinstance(block, str):
        return block + "\n"
    title = f"### {block.title}\n\n" if block.title else ""
    if isinstance(block, Facts):
        return title + "".join(f"- **{label}**: {text}\n" for label, text in block.rows)
    if isinstance(block, Plain):
        return f"{title}```text\n{block.text}\n```\n"
    columns = _telling(block)
    heads = [column.head for column in columns]
    rules = ["---:" if column.align == "right" else ":---" for column in columns]
    rows = [[column.cell(row) for column in columns] for row in block.rows]
    return title + "".join(_pipes(cells) for cells in (heads, rules, *rows))


def _pipes(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


_WRITERS: dict[str, Callable[[Report], str]] = {
    "json": _json,
    "jsonl": _jsonl,
    "csv": _csv,
    "md": _markdown,
}
FORMATS = ("table", *_WRITERS)


def _table(blocks: tuple[Block, ...], width: int | None, color: bool) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        width=_UNBOUNDED,
        color_system="standard" if color else None,
        no_color=not color,
        force_terminal=color,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},  # the caller has settled width and colour already
    )
    for number, block in enumerate(blocks):
        if number:
            console.print()
        _print(console, block, width)
    lines = out.getvalue().splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _print(console: Console, block: Block, width: int | None) -> None:
    prose = min(width or PROSE_WIDTH, PROSE_WIDTH)
    if isinstance(block, str):
        console.print(Text(textwrap.fill(block, prose)), soft_wrap=True)
        return
    if block.title:
        title = textwrap.fill(block.title, width) if width else block.title
        console.print(Text(title, "bold"), soft_wrap=True)
    if isinstance(block, Plain):
        console.print(Text(block.text), soft_wrap=True)
    elif isinstance(block, Facts):
        _print_facts(console, block, prose)
    else:
        _print_sheet(console, block, width)


def _print_facts(console: Console, facts: Facts, prose: int) -> None:
    indent = max((len(label) for label, _ in facts.rows), default=0) + 2
    below = prose - indent < _LEAST_TEXT
    indent = 2 if below else indent
    room = prose - indent
    for label, text in facts.rows:
        lines = [line for part in text.split("\n") for line in textwrap.wrap(part, room) or [""]]
        body = f"\n{' ' * indent}".join(lines)
        head = f"{textwrap.fill(label, prose)}\n{' ' * indent}" if below else label.ljust(indent)
        line = Text.assemble((head, "bold"), body)
        console.print(line, soft_wrap=True)


def _print_sheet(console: Console, sheet: Sheet, width: int | None) -> None:
    """Print a table; row by row where its numbers do not fit side by side."""
    columns = _telling(sheet)
    if width is None or console.measure(_built(sheet, _natural(columns))).maximum <= width:
        console.print(_built(sheet, _natural(columns)))
        return
    found = fit(sheet, columns, width)
    if found is None:
        for row in sheet.rows:
            cells = tuple((column.head, column.cell(row)) for column in columns)
            _print_facts(console, Facts(cells), width)
        return
    console.print(_built(sheet, found))
    if found.left_out:
        text = f"Left out at this width: {', '.join(found.left_out)}."
        console.print(Text(textwrap.fill(text, width), "dim"), soft_wrap=True)


def _natural(columns: tuple[Column, ...]) -> Fit:
    return Fit(columns, (_UNBOUNDED,) * len(columns), WIDE_GAP)


def _telling(sheet: Sheet) -> tuple[Column, ...]:
    """Return the columns that say something: the same at any width, and when piped."""
    return tuple(
        column
        for column in sheet.columns
        if column.usual is None or any(column.cell(r) != column.usual for r in sheet.rows)
    )


def _built(sheet: Sheet, found: Fit) -> Table:
    padding = (0, found.gap - 1, 0, 1)
    table = Table(box=None, pad_edge=False, padding=padding, header_style="bold")
    for column, width in zip(found.columns, found.widths, strict=True):
        table.add_column(headed(column.head, width), justify=column.align, no_wrap=True)
    for index, row in enumerate(sheet.rows):
        style = sheet.styles[index] if sheet.styles else ""
        cells = [
            folded(column.cell(row), width) if column.folds else column.cell(row)
            for column, width in zip(found.columns, found.widths, strict=True)
        ]
        table.add_row(*map(Text, cells), style=style)
    return table
