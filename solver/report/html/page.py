"""The page around the figures, and blocks of a report as HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape
from typing import Any

from ..blocks import Block, Column, Facts, Plain, Sheet
from ..render import finite
from ..resolved import tool_version
from ..stored import EMBEDDED
from .style import STYLE

LONGEST = 300
"""Characters of a text that are shown; names come from files and can be of any length."""

LONGEST_CELL = 40
"""Characters from which a cell of a table may break into lines."""

_BETWEEN = re.compile(r",(?=[a-z_]+=)")

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Content security policy: nothing is fetched and nothing runs."""


def page(title: str, sections: Iterable[tuple[str, str]], data: Any) -> str:
    """Write the page.

    Parameters
    ----------
    title
        Its heading.
    sections
        Heading and HTML of each; one without HTML is left out.
    data
        What is embedded for programs, as JSON.
    """
    body = "\n".join(
        f"<section><h2>{text(head)}</h2>\n{html}</section>" for head, html in sections if html
    )
    # "<" would let a name end the element; JSON can write it otherwise.
    inside = json.dumps(finite(data), sort_keys=True, ensure_ascii=False).replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(title)}</title><style>{STYLE}</style></head>
<body><h1>{text(title)}</h1>
{body}
<footer>Written by shardplan {text(tool_version())}. The page holds its data as JSON and fetches
nothing.</footer>
{EMBEDDED}{inside}</script>
</body></html>
"""


def text(value: object, longest: int = LONGEST) -> str:
    """Return text that is safe anywhere in the page, cut where it is too long to read."""
    shown = _cut(str(value), longest)
    return escape("".join(c if c.isprintable() else " " for c in shown), quote=True)


def picture(source: str, alternative: str, caption: str) -> str:
    """Return an image, which scrolls where it is wider than the screen."""
    image = f'<img alt="{text(alternative)}" src="{source}">'
    caption = text(caption, 1000)
    return f'<figure><div class="wide">{image}</div><figcaption>{caption}</figcaption></figure>\n'


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Return labels with what belongs to them."""
    pairs = "".join(f"<dt>{text(a)}</dt><dd>{broken(b)}</dd>" for a, b in rows)
    return f"<dl>{pairs}</dl>\n"


def broken(value: object, longest: int = 2000) -> str:
    """Return text that breaks between the parts of a layout, not inside one."""
    return _BETWEEN.sub(",<wbr>", text(value, longest))


def tiles(rows: Iterable[tuple[str, str]]) -> str:
    """Return the figures that matter most, large, each with what it is."""
    each = "".join(f'<div class="tile"><b>{text(a)}</b>{text(b)}</div>' for a, b in rows)
    return f'<div class="tiles">{each}</div>\n'


def card(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return a box with a title and facts."""
    return f'<div class="card"><h3>{text(title)}</h3>{facts(rows)}</div>'


def folded(title: str, html: str) -> str:
    """Return what is hidden until it is asked for, by the browser alone."""
    return f"<details><summary>{text(title)}</summary>{html}</details>\n"


def code(value: str) -> str:
    """Return a text as it is, every blank and line break of it."""
    return f"<pre>{escape(value)}</pre>\n"


def block_html(block: Block) -> str:
    """Return any block of a report."""
    if isinstance(block, str):
        return f"<p>{text(block, 2000)}</p>\n"
    head = f"<h3>{text(block.title)}</h3>" if block.title else ""
    if isinstance(block, Facts):
        return head + facts(block.rows)
    if isinstance(block, Plain):
        return head + code(block.text)
    return head + _table(block)


def _table(sheet: Sheet) -> str:
    """Write a sheet; a column that says the same nothing in every row is left out."""
    columns = [
        c for c in sheet.columns
        if c.usual is None or any(c.cell(row) != c.usual for row in sheet.rows)
    ]  # fmt: skip
    heads = "".join(f'<th class="{_side(c)}">{text(c.head)}</th>' for c in columns)
    rows = "".join(
        f"<tr>{''.join(_cell(column, column.cell(row)) for column in columns)}</tr>"
        for row in sheet.rows
    )
    return f'<div class="wide"><table><tr>{heads}</tr>{rows}</table></div>\n'


def _side(column: Column) -> str:
    return "n" if column.align == "right" else "t"


def _cell(column: Column, shown: str) -> str:
    kind = "l" if len(shown) > LONGEST_CELL else _side(column)
    return f'<td class="{kind}">{broken(shown, LONGEST)}</td>'


def _cut(value: str, longest: int) -> str:
    return value if len(value) <= longest else f"{value[: longest - 1]}…"
