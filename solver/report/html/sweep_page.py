"""The page of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ..blocks import Facts, Report
from ..cells import figures
from .drawing import figure
from .line_charts import lines, plots, shown
from .page import block_html, folded, page, tiles
from .sweep_charts import Measure, Row, heat_maps, maps_of, measure_of

KEPT = ("gpus", "layout", "mfu", "peak_bytes", "step_s", "usd", "wall_clock_s")
"""What of each plan is embedded; the store has all."""
MOST_EMBEDDED, MOST_WITHOUT = 1000, 200
"""Points of which this is embedded, and points without a plan that are listed."""


def sweep_page(
    title: str, report: Report, rows: Sequence[Row], columns: Sequence[str], fastest: bool
) -> str:
    """Return the page of a sweep.

    Parameters
    ----------
    title
        Heading.
    report
        Its table.
    rows, columns
        One row a point (labels, status, reason, plan), and the labels' names in order.
    fastest
        Whether the plans are those with the least time.
    """
    measure = measure_of(rows, fastest)
    name = f"{measure.name[:1].upper()}{measure.name[1:]}"
    name += "" if "plan" in name else ", of the best plan"
    heat = f"{name}, in each map from pale to strong; a cross has no plan"
    along = f"{name}; a ring marks where the plan changes"
    heat += _part(maps_of(rows, columns))
    sections = [
        ("Points at a glance", _glance(rows, measure) + block_html(report.blocks[0])),
        ("Maps", figure(lambda width: heat_maps(rows, columns, measure, width), heat)),
        ("Lines", _lines(rows, columns, measure, along)),
        ("Points", "".join(map(block_html, report.blocks[1:])) + _without(rows)),
    ]
    points: list[dict[str, Any]] = [
        {"labels": row["labels"], "status": row["status"],
         "plan": {k: row["plan"][k] for k in KEPT if k in row["plan"]}}
        for row in rows[:MOST_EMBEDDED]
    ]  # fmt: skip
    heads = {key: value for key, value in report.data.items() if key != "points"}
    return page(title, sections, {**heads, "points": points})


def _lines(rows: Sequence[Row], columns: Sequence[str], measure: Measure, said: str) -> str:
    """Return the figures with lines, and below the last of them what they are."""
    every = plots(rows, columns, measure)
    drawn = shown(every)
    part = f". {len(drawn):,} of {len(every):,} figures, of as many values as they can show."
    captions = [""] * (len(drawn) - 1) + [said + (part if len(drawn) < len(every) else ".")]
    return "".join(
        figure(partial(lines, plot, measure), caption)
        for plot, caption in zip(drawn, captions, strict=False)
    )


def _glance(rows: Sequence[Row], measure: Measure) -> str:
    """Return how many points have a plan, and the ends of the measure with the points there."""
    found = [(value, row) for row in rows if (value := measure.of(row)) is not None]
    each = [(f"{len(rows):,}", "points"), (f"{len(rows) - len(found):,}", "without a plan")]
    for said, pick in (("least", min), ("most", max)):
        if found:
            value, row = pick(found, key=lambda pair: pair[0])
            each.append((figures(value), f"{said} {measure.name}: {labels_of(row)}"))
    return tiles(each)


def _without(rows: Sequence[Row]) -> str:
    """List the points without a plan and why, for paper and for screens without hover."""
    found = [row for row in rows if not row["plan"]]
    if not found:
        return ""
    said = tuple(
        (labels_of(r), f"{r['status']}: {r['reason'] or '–'}") for r in found[:MOST_WITHOUT]
    )
    return folded(f"Points without a plan ({len(found):,})", block_html(Facts(said)))


def labels_of(row: Row) -> str:
    """Name a point by the short names of its fields."""
    named = ((name.rpartition(".")[2], value) for name, value in row["labels"].items())
    return ", ".join(f"{name} {value}" for name, value in named)


def _part(counts: tuple[int, int]) -> str:
    """Say where not all is drawn."""
    drawn, count = counts
    return f". The first {drawn:,} of {count:,}." if drawn < count else "."
