"""Figures of a sweep: heat maps over two axes, and lines along one with the plan changes marked."""

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
    COLORS,
    GAP,
    LETTER,
    LOG_FROM,
    SLIM,
    TICK_HEIGHT,
    TOP,
    Scale,
    axes,
    beside,
    box,
    cross,
    key,
    plain,
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
PLOT, HEAD = 300, 40
"""Pixels of a plot, and above it."""
MOST_TICKS = 12
"""Values of the axis that are all written."""


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
        return f"{_short(self.down)} by {_short(self.across)}{ends}"


def maps_of(rows: Sequence[Row], columns: Sequence[str]) -> tuple[int, int]:
    """Return how many maps are drawn, and how many there would be."""
    if len(columns) < 2:  # noqa: PLR2004 - a map has two sides
        return 0, 0
    facets = _facets(rows, columns[:-2])
    ends = itertools.accumulate(min(len(some), MOST_SIDE**2) for _, some in facets)
    return max(sum(end <= MOST_CELLS for end in ends), 1), len(facets)


def heat_maps(rows: Sequence[Row], columns: Sequence[str], measure: Measure, width: int) -> str:
    """Draw a map over the two last axes for each combination of the others."""
    drawn_maps, _ = maps_of(rows, columns)
    if not drawn_maps:
        return ""
    *others, down, across = columns
    parts, x, y, lowest = [], 0.0, float(TOP), 0.0
    for name, some in _facets(rows, others)[:drawn_maps]:
        one = _Map(name or measure.name, some, down, across, measure)
        drawn, (wide, high) = _map(one, x, y, width)
        if x > 0 and x + wide > width:  # into the next row of maps
            x, y, lowest = 0.0, lowest, 0.0
            drawn, (wide, high) = _map(one, x, y, width)
        parts.append(drawn)
        x, lowest = x + wide + 2 * GAP, max(lowest, y + high + GAP)
    return svg(width, lowest, f"{measure.name} over {down} and {across}", *parts)


def _facets(rows: Sequence[Row], names: Sequence[str]) -> list[tuple[str, list[Row]]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        label = ", ".join(f"{_short(n)} {row['labels'][n]}" for n in names)
        found.setdefault(label, []).append(row)
    return list(found.items())


def _short(name: str) -> str:
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


def lines(rows: Sequence[Row], columns: Sequence[str], measure: Measure, width: int) -> str:
    """Draw the measure along the first axis of numbers; rings mark where the plan changes."""
    along = _along(rows, columns)
    if along is None:
        return ""
    curves = _curves(rows, along, [c for c in columns if c != along], measure)
    if not curves:
        return ""
    every = sorted({a for _, known in curves for a, _, _ in known})
    shared, names = _shared([name for name, _ in curves])
    y = Scale([b for _, known in curves for _, b, _ in known], HEAD + PLOT, HEAD)
    x = Scale(every, beside(map(plain, y.ticks(TICK_HEIGHT))), width - 2 * GAP)
    drawn = [_curve(COLORS[n], known, x, y) for n, (_, known) in enumerate(curves)]
    places = _apart(every, x) if len(every) <= MOST_TICKS else ()
    frame = axes(x, y, (along, measure.name), (plain, plain), places)
    title = words(0, 12, shared, kind="strong", room=width)
    kinds = [(f"f{COLORS[n]}", name) for n, name in enumerate(names)]
    legend, end = key(kinds, HEAD + PLOT + 64, width)
    return svg(width, end, f"{measure.name} along {along}", frame, title, *drawn, legend)


Known = list[tuple[float, float, str]]


def _curves(
    rows: Sequence[Row], along: str, others: Sequence[str], measure: Measure
) -> list[tuple[str, Known]]:
    """Return the curves with two points or more: name, and place, value and layout of each."""
    curves = []
    for name, some in itertools.islice(_facets(rows, others), len(COLORS)):
        points = ((_number(r["labels"][along]), measure.of(r), r["plan"].get("layout", ""))
                  for r in some)  # fmt: skip
        known = sorted((a, b, plan) for a, b, plan in points if a is not None and b is not None)
        if len(known) > 1:
            curves.append((name or measure.name, known))
    return curves


def _shared(names: Sequence[str]) -> tuple[str, list[str]]:
    """Return what the names of curves have in common, and the names without it."""
    parts = [name.split(", ") for name in names]
    common = [part for part in parts[0] if all(part in other for other in parts[1:])]
    if len(names) == 1:
        return "", list(names)
    rest = [", ".join(p for p in own if p not in common) for own in parts]
    return ", ".join(common), rest


def curves_of(rows: Sequence[Row], columns: Sequence[str]) -> tuple[int, int]:
    """Return how many curves are drawn at most, and how many there would be."""
    along = _along(rows, columns)
    count = len(_facets(rows, [c for c in columns if c != along])) if along else 0
    return min(count, len(COLORS)), count


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
