"""The page of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..blocks import Report
from .page import block_html, figure, page
from .sweep_charts import Row, heat_maps, lines, measure_of

KEPT = ("gpus", "layout", "mfu", "peak_bytes", "step_s", "usd", "wall_clock_s")
"""What of each plan is embedded; the store has all."""


def sweep_page(title: str, report: Report, rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Return the page of a sweep.

    Parameters
    ----------
    title
        Heading.
    report
        Its table.
    rows, columns
        One row a point (labels, status, reason, plan), and the labels' names in order.
    """
    measure = measure_of(rows)
    heat = f"{measure.name} of the best plan; a cross has none, hover says why."
    along = f"{measure.name} of the best plan; a ring marks where the plan changes."
    sections = [
        ("Sweep", block_html(report.blocks[0])),
        ("Maps", figure(heat_maps(rows, columns, measure), heat)),
        ("Lines", figure(lines(rows, columns, measure), along)),
        ("Points", "".join(map(block_html, report.blocks[1:]))),
    ]
    points: list[dict[str, Any]] = [
        {"labels": row["labels"], "status": row["status"],
         "plan": {k: row["plan"][k] for k in KEPT if k in row["plan"]}}
        for row in rows
    ]  # fmt: skip
    heads = {key: value for key, value in report.data.items() if key != "points"}
    return page(title, sections, {**heads, "points": points})
