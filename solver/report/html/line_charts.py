"""Lines of a sweep along one axis, a figure for each combination of the fields that come first."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .drawing import (
    COLORS,
    GAP,
    LETTER,
    TICK_HEIGHT,
    Scale,
    axes,
    beside,
    key,
    plain,
    svg,
    words,
)
from .page import text
from .sweep_charts import Measure, Row, facets

PLOT, HEAD = 300, 40
"""Pixels of a plot, and above it."""
MOST_TICKS = 12
"""Values of the axis that are all written."""
MOST_PLOTS, MOST_POINTS = 8, 1200
"""Figures of one page, and points of all of them."""

Known = list[tuple[float, float, str]]
"""Place, value and layout of each point of a curve."""


@dataclass(frozen=True)
class Curve:
    """One line.

    Attributes
    ----------
    name
        What sets it apart.
    color
        Its place among the colours.
    known
        Its points in order.
    """

    name: str
    color: str
    known: Known


@dataclass(frozen=True)
class Plot:
    """One figure.

    Attributes
    ----------
    name
        What all of its lines have in common, empty where there is nothing.
    along
        The field along its axis.
    curves
        Its lines.
    """

    name: str
    along: str
    curves: tuple[Curve, ...]


def plots(rows: Sequence[Row], columns: Sequence[str], measure: Measure) -> list[Plot]:
    """Return the figures with lines of two points or more, along the first axis of numbers.

    Where there are more lines than colours, the fields that come first split them into figures.
    """
    along = _along(rows, columns)
    if along is None:
        return []
    others = [c for c in columns if c != along]
    first = next(
        n for n in range(len(others) + 1)
        if all(len(facets(some, others[n:])) <= len(COLORS) for _, some in facets(rows, others[:n]))
    )  # fmt: skip
    found = []
    for name, some in facets(rows, others[:first]):
        curves = _curves(some, along, others[first:], measure)
        if curves:
            shared, curves = _shared(name, curves)
            found.append(Plot(shared, along, tuple(curves)))
    return found


def shown(all_plots: Sequence[Plot]) -> list[Plot]:
    """Return as many figures as a page holds, such that every value comes as often as it can."""
    left, taken, seen = list(all_plots), list[Plot](), Counter[str]()
    room = MOST_POINTS
    while left and len(taken) < MOST_PLOTS:
        # The first field counts most: its values are all there before others come again.
        best = min(left, key=lambda plot: [seen[part] for part in plot.name.split(", ")])
        room -= sum(len(curve.known) for curve in best.curves)
        if taken and room < 0:
            break
        left.remove(best)
        taken.append(best)
        seen.update(best.name.split(", "))
    return [plot for plot in all_plots if plot in taken]


def lines(plot: Plot, measure: Measure, width: int) -> str:
    """Draw the measure along an axis; rings mark where the plan changes."""
    known = [curve.known for curve in plot.curves]
    every = sorted({a for points in known for a, _, _ in points})
    y = Scale([b for points in known for _, b, _ in points], HEAD + PLOT, HEAD)
    x = Scale(every, beside(map(plain, y.ticks(TICK_HEIGHT))), width - 2 * GAP)
    drawn = [_curve(curve.color, curve.known, x, y) for curve in plot.curves]
    places = _apart(every, x) if len(every) <= MOST_TICKS else ()
    frame = axes(x, y, (plot.along, measure.name), (plain, plain), places)
    title = words(0, 12, plot.name, kind="strong", room=width)
    kinds = [(f"f{curve.color}", curve.name) for curve in plot.curves]
    legend, end = key(kinds, HEAD + PLOT + 64, width)
    of = f": {plot.name}" if plot.name else ""
    label = f"{measure.name} along {plot.along}{of}"
    return svg(width, end, label, frame, title, *drawn, legend)


def _curves(
    rows: Sequence[Row], along: str, others: Sequence[str], measure: Measure
) -> list[Curve]:
    curves = []
    for color, (name, some) in zip(COLORS, facets(rows, others), strict=False):
        points = ((_number(r["labels"][along]), measure.of(r), r["plan"].get("layout", ""))
                  for r in some)  # fmt: skip
        known = sorted((a, b, plan) for a, b, plan in points if a is not None and b is not None)
        if len(known) > 1:
            curves.append(Curve(name or measure.name, color, known))
    return curves


def _shared(name: str, curves: Sequence[Curve]) -> tuple[str, list[Curve]]:
    """Return what the names of curves have in common, and the curves without it."""
    parts = [curve.name.split(", ") for curve in curves]
    alone = len(curves) == 1
    common = [] if alone else [p for p in parts[0] if all(p in other for other in parts[1:])]
    rest = [", ".join(p for p in own if p not in common) for own in parts]
    named = ", ".join(filter(None, (name, *common)))
    return named, [
        Curve(one, curve.color, curve.known) for one, curve in zip(rest, curves, strict=True)
    ]


def _along(rows: Sequence[Row], columns: Sequence[str]) -> str | None:
    """Return the first axis of numbers."""
    found = (c for c in columns if len({_number(r["labels"][c]) for r in rows} - {None}) > 1)
    return next(found, None)


def _apart(values: Sequence[float], x: Scale) -> list[float]:
    """Return the values whose labels do not overlap."""
    kept: list[float] = []
    for value in values:
        if not kept or x.at(value) - x.at(kept[-1]) > 5 * LETTER:
            kept.append(value)
    return kept


def _curve(color: str, known: Known, x: Scale, y: Scale) -> str:
    path = "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b, _ in known)
    parts, before = [f'<path class="curve s{color}" d="M{path}"/>'], known[0][2]
    for a, b, layout in known:
        changed = layout != before
        title = text(f"{layout}{' (changed)' if changed else ''}")
        at = f'cx="{x.at(a):.1f}" cy="{y.at(b):.1f}"'
        parts.append(f'<circle {at} r="3" class="f{color}"><title>{title}</title></circle>')
        if changed:
            parts.append(f'<circle {at} r="6" class="curve s{color}"/>')
        before = layout
    return "\n".join(parts)


def _number(value: Any) -> float | None:
    """Return a number, or the one at the start of a text such as 25GB/s."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    digits = "".join(itertools.takewhile(lambda c: c.isdigit() or c == ".", str(value)))
    # A name that starts with digits is no number.
    tail = str(value)[len(digits) :].strip()
    if not digits or digits.count(".") > 1 or len(tail) > 5:  # noqa: PLR2004 - longest unit, GiB/s
        return None
    return float(digits)
