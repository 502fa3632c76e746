"""Figures of a sweep: heat maps over two axes, and lines along one with the plan changes marked."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..cells import figures
from .drawing import COLORS, LABEL, LEFT, RIGHT, TOP, WIDTH, Scale, axes, box, key, svg, words
from .page import text

Row = Mapping[str, Any]
MOST_FACETS = 24
"""Maps or lines of one page; the table has the rest."""
MOST_SIDE = 60
"""Values along a side of a map."""
SHADES = 9


@dataclass(frozen=True)
class Measure:
    """A quantity of the best plan: its field and its name."""

    field: str
    name: str


def measure_of(rows: Sequence[Row]) -> Measure:
    """Return what the figures show: cost where every plan has one, else wall-clock time."""
    plans = [row["plan"] for row in rows if row["plan"]]
    if plans and all(plan.get("usd") is not None for plan in plans):
        return Measure("usd", "cost, USD")
    return Measure("wall_clock_s", "wall-clock time, s")


def heat_maps(rows: Sequence[Row], columns: Sequence[str], measure: Measure) -> str:
    """Draw a map over the two last axes for each combination of the others."""
    if len(columns) < 2:  # noqa: PLR2004 - a map has two sides
        return ""
    *others, down, across = columns
    values = [v for row in rows if (v := row["plan"].get(measure.field)) is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    parts, y = [], float(TOP)
    for name, some in itertools.islice(_facets(rows, others), MOST_FACETS):
        drawn, height = _map(some, (down, across), measure, (low, high), y, name)
        parts.append(drawn)
        y += height
    return svg(y + 10, f"{measure.name} over {down} and {across}", *parts)


def _facets(rows: Sequence[Row], names: Sequence[str]) -> list[tuple[str, list[Row]]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        label = ", ".join(f"{n.rpartition('.')[2]} {row['labels'][n]}" for n in names)
        found.setdefault(label, []).append(row)
    return list(found.items())


def _map(
    rows: Sequence[Row], sides: tuple[str, str], measure: Measure, ends: tuple[float, float],
    top: float, name: str,
) -> tuple[str, float]:  # fmt: skip
    down, across = sides
    ys = list(dict.fromkeys(str(row["labels"][down]) for row in rows))[:MOST_SIDE]
    xs = list(dict.fromkeys(str(row["labels"][across]) for row in rows))[:MOST_SIDE]
    side = (WIDTH - LEFT - RIGHT) / max(len(xs), 1)
    parts = [
        words(8, top + 14, name or measure.name),
        words(LEFT, top + 34, across, "start", "dim"),
    ]
    parts += [
        words(LEFT + side * (i + 0.5), top + 54, x, "middle", "dim") for i, x in enumerate(xs)
    ]
    parts.append(words(8, top + 54, down, "start", "dim"))
    base = top + 62
    for row in rows:
        i, j = str(row["labels"][across]), str(row["labels"][down])
        if i not in xs or j not in ys:
            continue
        x, y = LEFT + side * xs.index(i), base + 26 * ys.index(j)
        parts.append(_cell(row, measure, ends, (x, y, side)))
    parts += [words(LEFT - 8, base + 26 * n + 18, y, "end") for n, y in enumerate(ys)]
    return "\n".join(parts), 62 + 26 * len(ys) + 24


def _cell(
    row: Row, measure: Measure, ends: tuple[float, float], place: tuple[float, float, float]
) -> str:
    x, y, side = place
    value, low, high = row["plan"].get(measure.field), *ends
    if value is None:
        why = text(f"{row['status']}: {row['reason'] or ''}")
        cross = f'<path class="bad" d="M{x + side / 2 - 5:.1f} {y + 8:.1f}l10 10m-10 0l10 -10"/>'
        return f"<g><title>{why}</title>{cross}</g>"
    shade = round((value - low) / ((high - low) or 1.0) * (SHADES - 1)) + 1
    title = text(f"{measure.name} {value:,.4g}: {row['plan'].get('layout', '')}")
    frame = box(x, y, side - 2, 24, "fa").replace("<rect", f'<rect fill-opacity=".{shade}"')
    shown = words(x + side / 2, y + 17, figures(value), "middle") if side > 40 else ""  # noqa: PLR2004
    return f"<g><title>{title}</title>{frame}{shown}</g>"


def lines(rows: Sequence[Row], columns: Sequence[str], measure: Measure) -> str:
    """Draw the measure along the first axis of numbers; rings mark where the plan changes."""
    along = next((c for c in columns if len({_number(r["labels"][c]) for r in rows} - {None}) > 1),
                 None)  # fmt: skip
    if along is None:
        return ""
    others = [c for c in columns if c != along]
    curves = []
    for name, some in itertools.islice(_facets(rows, others), len(COLORS)):
        points = [(_number(r["labels"][along]), r["plan"].get(measure.field),
                   r["plan"].get("layout", "")) for r in some]  # fmt: skip
        known = sorted(p for p in points if p[0] is not None and p[1] is not None)
        if len(known) > 1:
            curves.append((name or measure.name, known))
    if not curves:
        return ""
    x = Scale([p[0] or 0.0 for _, known in curves for p in known], LEFT, WIDTH - RIGHT)
    y = Scale([p[1] for _, known in curves for p in known], 330, TOP + 20)
    drawn = [_curve(COLORS[n], known, x, y) for n, (_, known) in enumerate(curves)]
    frame = axes(x, y, (along, measure.name), (lambda v: f"{v:,.4g}", lambda v: f"{v:,.4g}"))
    names = [(f"f{COLORS[n]}", name[:LABEL]) for n, (name, _) in enumerate(curves)]
    height = 410 + 20 * len(names)
    return svg(height, f"{measure.name} along {along}", frame, *drawn, key(names, 400))


def _curve(color: str, known: Sequence[tuple[Any, Any, str]], x: Scale, y: Scale) -> str:
    path = "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b, _ in known)
    parts, before = [f'<path class="curve s{color}" d="M{path}"/>'], known[0][2]
    for a, b, layout in known:
        changed = layout != before
        size, kind = (7, "ring") if changed else (3, f"f{color}")
        title = text(f"{layout}{' (changed)' if changed else ''}")
        parts.append(f'<circle cx="{x.at(a):.1f}" cy="{y.at(b):.1f}" r="{size}" class="{kind}">'
                     f"<title>{title}</title></circle>")  # fmt: skip
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
