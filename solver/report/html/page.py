"""The page around the figures, and blocks of a report as HTML."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from typing import Any

from ..blocks import Block, Facts, Plain, Sheet
from ..render import finite
from ..stored import EMBEDDED

LONGEST = 300
"""Characters of a text that are shown; names come from files and can be of any length."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Content security policy: nothing is fetched and nothing runs."""

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2937; --dim: #4b5563; --page: #fff; --card: #f3f4f6;
  --line: #9ca3af; --a: #2563a8; --b: #b45309; --c: #2f7d57; --d: #7c3aed; --e: #be123c;
  --f: #0e7490; --g: #6b7280; --h: #a16207; --bad: #b91c1c }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e7eb; --dim: #a9b1bd; --page: #111827;
  --card: #1f2937; --line: #6b7280; --a: #6aa9e9; --b: #f0a85c; --c: #6cc497; --d: #b79af5;
  --e: #f47c93; --f: #5cc4d8; --g: #9ca3af; --h: #d9b45c; --bad: #f87171 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 75rem; font: 16px/1.5 system-ui, sans-serif;
  color: var(--ink); background: var(--page); overflow-wrap: anywhere }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; margin-top: 2rem }
figure { margin: 1rem 0 } figcaption { color: var(--dim); font-size: .9rem }
.wide { overflow-x: auto } .wide svg { min-width: 640px; width: 100%; height: auto; display: block }
.cards { display: flex; flex-wrap: wrap; gap: 1rem }
.card { background: var(--card); border-radius: 8px; padding: .75rem 1rem; flex: 1 1 15rem }
.card h3 { margin: 0 0 .3rem; font-size: 1rem } .card dl { margin: 0 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem .8rem; margin: .5rem 0 }
dt { color: var(--dim) } dd { margin: 0 }
table { border-collapse: collapse; font-size: .9rem }
th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap }
th { text-align: left; color: var(--dim) } td.n { text-align: right }
pre { overflow-x: auto } svg text { font: 13px system-ui, sans-serif; fill: var(--ink) }
svg .dim { fill: var(--dim) } svg .axis { stroke: var(--line); fill: none }
svg .bad { stroke: var(--bad); fill: none; stroke-width: 2 }
svg .limit { stroke: var(--bad); stroke-dasharray: 5 4; stroke-width: 2 }
svg .fa { fill: var(--a) } svg .fb { fill: var(--b) } svg .fc { fill: var(--c) }
svg .fd { fill: var(--d) } svg .fe { fill: var(--e) } svg .ff { fill: var(--f) }
svg .fg { fill: var(--g) } svg .fh { fill: var(--h) } svg .ring { fill: none; stroke: var(--ink) }
svg .sa { stroke: var(--a) } svg .sb { stroke: var(--b) } svg .sc { stroke: var(--c) }
svg .sd { stroke: var(--d) } svg .se { stroke: var(--e) } svg .sf { stroke: var(--f) }
svg .sg { stroke: var(--g) } svg .sh { stroke: var(--h) } svg .curve { fill: none; stroke-width: 2 }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr } dt { margin-top: .4rem } }
@media print { body { max-width: none; font-size: 11pt } .card, figure { break-inside: avoid }
  .wide { overflow: visible } .wide svg { min-width: 0 } }
"""


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
<title>{text(title)}</title><style>{_STYLE}</style></head>
<body><h1>{text(title)}</h1>
{body}
{EMBEDDED}{inside}</script>
</body></html>
"""


def text(value: object, longest: int = LONGEST) -> str:
    """Return text that is safe anywhere in the page, cut where it is too long to read."""
    shown = str(value)
    if len(shown) > longest:
        shown = f"{shown[: longest - 1]}…"
    return escape("".join(c if c.isprintable() else " " for c in shown), quote=True)


def figure(svg: str, caption: str) -> str:
    """Return a drawing with what it says below it; wide ones scroll on a small screen."""
    if not svg:
        return ""
    caption = text(caption, 1000)
    return f'<figure><div class="wide">{svg}</div><figcaption>{caption}</figcaption></figure>\n'


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Return labels with what belongs to them."""
    pairs = "".join(f"<dt>{text(a)}</dt><dd>{text(b, 2000)}</dd>" for a, b in rows)
    return f"<dl>{pairs}</dl>\n"


def card(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return a box with a title and facts."""
    return f'<div class="card"><h3>{text(title)}</h3>{facts(rows)}</div>'


def block_html(block: Block) -> str:
    """Return any block of a report."""
    if isinstance(block, str):
        return f"<p>{text(block, 2000)}</p>\n"
    head = f"<h3>{text(block.title)}</h3>" if block.title else ""
    if isinstance(block, Facts):
        return head + facts(block.rows)
    if isinstance(block, Plain):
        return f"{head}<pre>{escape(block.text)}</pre>\n"
    return head + _table(block)


def _table(sheet: Sheet) -> str:
    heads = "".join(f"<th>{text(column.head)}</th>" for column in sheet.columns)
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td class="{"n" if c.align == "right" else "t"}">{text(c.cell(row))}</td>'
            for c in sheet.columns
        )
        + "</tr>"
        for row in sheet.rows
    )
    return f'<div class="wide"><table><tr>{heads}</tr>{rows}</table></div>\n'
