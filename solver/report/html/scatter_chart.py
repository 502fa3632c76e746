"""The scatter of plans: time against cost, or against GPUs where no price is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from topology.offers import KINDS
from topology.units import DAY, HOUR, MINUTE, show_usd

from .drawing import (
    GAP,
    LETTER,
    TICK_HEIGHT,
    Scale,
    axes,
    beside,
    cross,
    key,
    plain,
    svg,
    words,
)
from .page import text

HEIGHT, HEAD = 320, 40
"""Pixels of the plot, and above it."""
LINE, MARK = 16, 5
"""Pixels of a line of text, and of half a mark."""
SHAPES = ("●", "■", "▲")
"""Of the kinds of price where there are several, in the order of ``KINDS``."""
TIMES = ((DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes"), (1.0, "seconds"), (1e-3, "ms"))


@dataclass(frozen=True)
class Dot:
    """A plan in a scatter.

    Attributes
    ----------
    seconds, usd, gpus
        Where it stands.
    kind
        ``best``, ``front``, ``feasible`` or ``infeasible``.
    why
        What it is; shows on hover.
    price
        Kind of its price, which chooses the shape of its mark where there are several.
    """

    seconds: float
    usd: float | None
    gpus: int
    kind: str
    why: str
    price: str = ""


def unit_of(seconds: Sequence[float]) -> tuple[float, str]:
    """Return the largest unit of time that the longest of them fills, in seconds and by name."""
    longest = max(seconds, default=0.0)
    return next((unit for unit in TIMES if longest >= unit[0]), TIMES[-1])


def scatter(dots: Sequence[Dot], of: str, width: int) -> str:
    """Draw plans by time, of the run or of a step, and cost; those of the front name their GPUs."""
    if not dots:
        return ""
    priced = all(d.usd is not None for d in dots)
    cost = [d.usd if d.usd is not None else float(d.gpus) for d in dots]
    show = show_usd if priced else lambda v: f"{v:,.0f}"
    unit, name = unit_of([d.seconds for d in dots])
    y = Scale(cost, HEAD + HEIGHT, HEAD)
    x = Scale([d.seconds / unit for d in dots], beside(map(show, y.ticks(TICK_HEIGHT))),
              width - GAP)  # fmt: skip
    prices = [kind for kind in KINDS if any(dot.price == kind for dot in dots)]
    order = ("infeasible", "feasible", "front", "best")
    marks = []
    for dot, value in sorted(zip(dots, cost, strict=True), key=lambda p: order.index(p[0].kind)):
        mark = _mark(dot, prices, x.at(dot.seconds / unit), y.at(value))
        marks.append(f"<g><title>{text(dot.why)}</title>{mark}</g>")
    frame = axes(x, y, (f"{of}, {name}", "cost" if priced else "GPUs"), (plain, show))
    places = [(x.at(d.seconds / unit), y.at(v), d) for d, v in zip(dots, cost, strict=True)]
    names = [("fc", "best"), ("fa", "feasible"), ("fbad", "over a limit")]
    known = {d.kind for d in dots}
    shown = names if "infeasible" in known else names[:2]
    legend, end = key(shown, HEAD + HEIGHT + 64, width)
    if len(prices) > 1:
        said = ", ".join(f"{SHAPES[n]} {kind}" for n, kind in enumerate(prices))
        frame += words(width - GAP, HEAD - LINE, said, "end", "dim")
    return svg(width, end, "plans by time and cost", frame, *marks, *_labels(places, x, y), legend)


def _mark(dot: Dot, prices: Sequence[str], x: float, y: float) -> str:
    """Draw a cross, or a circle; a square and a triangle for the second and third kind of price."""
    if dot.kind == "infeasible":
        return cross(x, y)
    color, size = ("fc", 8) if dot.kind == "best" else ("fa", 5)
    shape = prices.index(dot.price) if dot.price in prices else 0
    if shape == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" class="{color}"/>'
    corner, side = f"M{x - size:.1f} {y + size:.1f}", 2 * size
    path = f"h{side}v-{side}h-{side}z" if shape == 1 else f"h{side}l-{size} -{side}z"
    return f'<path class="{color}" d="{corner}{path}"/>'


def _labels(places: Sequence[tuple[float, float, Dot]], across: Scale, up: Scale) -> list[str]:
    """Name the GPUs beside the dots of the front, the best plan first, where there is room."""
    front = [place for place in places if place[2].kind in ("front", "best")]
    taken = [_Area(x - MARK, y - MARK, x + MARK, y + MARK) for x, y, _ in places]
    drawn = []
    for x, y, dot in sorted(front, key=lambda place: place[2].kind):
        name = f"{dot.gpus:,} GPUs"
        long = len(name) * LETTER
        for left, base in ((x - long / 2, y - 12), (x - long / 2, y + 22), (x + 12, y + 4),
                           (x - 12 - long, y + 4), (x + 10, y + 18), (x + 10, y - 10)):  # fmt: skip
            area = _Area(left, base - LINE + 4, left + long, base + 3)
            inside = across.start < left and area.right < across.end + GAP and base < up.start
            if not inside or any(area.meets(other) for other in taken):
                continue
            taken.append(area)
            kind = "strong" * (dot.kind == "best")
            drawn.append(words(left + long / 2, base, name, "middle", kind))
            break
    return drawn


@dataclass(frozen=True)
class _Area:
    """A rectangle of the figure that something is drawn on."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Area) -> bool:
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.bottom <= other.top or other.bottom <= self.top)
