"""Figures of a sweep: heat maps over two axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from topology.units import DAY

from ..cells import figures
from ..plan_rows import of_one_step
from .drawing import (
    GAP,
    LETTER,
    LOG_FROM,
    SLIM,
    TOP,
    beside,
    box,
    cross,
    svg,
    words,
)
from .page import text

Row = Mapping[str, Any]
MOST_CELLS, MOST_SIDE = 1600, 40
"""Cells of all maps of one page, and values along a side of a map; the table has the rest."""
FAINTEST, STRONGEST = 0.08, 0.55
"""Opacities of the least and the greatest value: letters stay readable on both."""
CELL_WIDTH, CELL_HEIGHT = 110, 26
"""Pixels of a cell at most, and of a row."""
MOST_LEFT = 110
"""Pixels of the names of the rows at most."""


@dataclass(frozen=True)
class Measure:
    """A quantity of the best plan: its field, its name with the unit, and the unit's size."""

    field: str
    name: str
    unit: float

    def of(self, row: Row) -> float | None:
        """Return the quantity of a point; None where it has no plan."""
        value = row["plan"].get(self.field)
        return None if value is None else value / self.unit


def measure_of(rows: Sequence[Row], fastest: bool) -> Measure:
    """Return what the figures show: cost where every plan has one, else wall-clock time.

    ``fastest`` says that the plans are those with the least time, which can cost more than others.
    """
    plans = [row["plan"] for row in rows if row["plan"]]
    step = bool(plans) and all(map(of_one_step, plans))
    if plans and all(plan.get("usd") is not None for plan in plans):
        of = " of a step" * step + " of the fastest plan" * fastest
        return Measure("usd", f"cost{of}, USD", 1.0)
    if step:
        return Measure("step_s", "time of a step, s", 1.0)
    return Measure("wall_clock_s", "wall-clock time, days", DAY)


@dataclass(frozen=True)
class _Map:
    """One map: its points, its two axes, and how its values become shades."""

    name: str
    rows: Sequence[Row]
    down: str
    across: str
    measure: Measure

    def values(self, axis: str) -> list[str]:
        return list(dict.fromkeys(str(row["labels"][axis]) for row in self.rows))[:MOST_SIDE]

    @cached_property
    def ends(self) -> tuple[float, float] | None:
        """Least and greatest value."""
        found = [v for row in self.rows if (v := self.measure.of(row)) is not None]
        return (min(found), max(found)) if found else None

    def shade(self, value: float) -> float:
        low, high = self.ends or (value, value)
        if low > 0 and high / low > LOG_FROM:
            low, high, value = math.log(low), math.log(high), math.log(value)
        part = (value - low) / ((high - low) or 1.0)
        return FAINTEST + part * (STRONGEST - FAINTEST)

    @property
    def said(self) -> str:
        """What is along the sides, and between what the values lie."""
        ends = "" if self.ends is None else f": {' to '.join(map(figures, self.ends))}"
        return f"{short(self.down)} by {short(self.across)}{ends}"


def maps_of(rows: Sequence[Row], columns: Sequence[str]) -> tuple[int, int]:
    """Return how many maps are drawn, and how many there would be."""
    if len(columns) < 2:  # noqa: PLR2004 - a map has two sides
        return 0, 0
    every = facets(rows, columns[:-2])
    ends = itertools.accumulate(min(len(some), MOST_SIDE**2) for _, some in every)
    return max(sum(end <= MOST_CELLS for end in ends), 1), len(every)


def heat_maps(rows: Sequence[Row], columns: Sequence[str], measure: Measure, width: int) -> str:
    """Draw a map over the two last axes for each combination of the others."""
    drawn_maps, _ = maps_of(rows, columns)
    if not drawn_maps:
        return ""
    *others, down, across = columns
    parts, x, y, lowest = [], 0.0, float(TOP), 0.0
    for name, some in facets(rows, others)[:drawn_maps]:
        one = _Map(name or measure.name, some, down, across, measure)
        drawn, (wide, high) = _map(one, x, y, width)
        if x > 0 and x + wide > width:  # into the next row of maps
            x, y, lowest = 0.0, lowest, 0.0
            drawn, (wide, high) = _map(one, x, y, width)
        parts.append(drawn)
        x, lowest = x + wide + 2 * GAP, max(lowest, y + high + GAP)
    return svg(width, lowest, f"{measure.name} over {down} and {across}", *parts)


def facets(rows: Sequence[Row], names: Sequence[str]) -> list[tuple[str, list[Row]]]:
    """Return the points of each combination of some labels, with its name, in order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        label = ", ".join(f"{short(n)} {row['labels'][n]}" for n in names)
        found.setdefault(label, []).append(row)
    return list(found.items())


def short(name: str) -> str:
    """Return a field without its sections."""
    return name.rpartition(".")[2]


def _map(one: _Map, x: float, top: float, width: int) -> tuple[str, tuple[float, float]]:
    """Return a map and its size."""
    ys, xs = one.values(one.down), one.values(one.across)
    left = min(beside(ys), MOST_LEFT)
    side = min((width - left) / max(len(xs), 1), CELL_WIDTH)
    longest = max(len(one.name), len(one.said))
    size = max(left + side * len(xs), min(LETTER * longest, width))
    base = top + 56
    parts = [words(x, top + 12, one.name, kind="strong", room=size)]
    parts.append(words(x, top + 30, one.said, kind="dim", room=size))
    every = _every(xs, side)
    for i, name in list(enumerate(xs))[::every]:
        # A name with room for several columns begins with its own.
        at, anchor = (i + 0.5, "middle") if every == 1 else (i, "start")
        room = side * min(every, len(xs) - i)
        parts.append(words(x + left + side * at, base - 6, name, anchor, "dim", room))
    for row in one.rows:
        here, there = str(row["labels"][one.across]), str(row["labels"][one.down])
        if here in xs and there in ys:
            place = x + left + side * xs.index(here), base + CELL_HEIGHT * ys.index(there)
            parts.append(_cell(row, one, place, side, width > SLIM))
    for n, name in enumerate(ys):
        parts.append(words(x + left - 8, base + CELL_HEIGHT * n + 17, name, "end", "dim", left))
    return "\n".join(parts), (size, 56 + CELL_HEIGHT * len(ys))


def _every(names: Sequence[str], side: float) -> int:
    """Return of how many columns one is named: names take 10 letters at most."""
    longest = min(max(map(len, names), default=1), 10) * LETTER
    return max(math.ceil(longest / side), 1)


def _cell(row: Row, one: _Map, place: tuple[float, float], side: float, hover: bool) -> str:
    (x, y), value = place, one.measure.of(row)
    if value is None:
        why = text(f"{row['status']}: {row['reason'] or ''}")
        return f"<g><title>{why}</title>{cross(x + side / 2, y + 12)}</g>"
    title = f"{one.measure.name} {value:,.4g}: {row['plan'].get('layout', '')}" if hover else ""
    frame = box(x, y, side - 2, CELL_HEIGHT - 2, "fa", title)
    frame = frame.replace("<rect", f'<rect fill-opacity="{one.shade(value):.2f}"')
    shown = figures(value)
    fits = len(shown) * LETTER < side
    written = words(x + side / 2, y + 17, shown, "middle") if fits else ""
    return f"{frame}{written}"
