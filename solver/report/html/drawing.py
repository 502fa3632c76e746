"""Parts of SVG figures: frames, axes, ticks, keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from .page import text

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 900, 110, 20, 20, 50
"""Pixels: of a figure, and of its margins."""
COLORS = "abcdefgh"
"""Classes of the page's colours: f followed by one fills, s draws."""
LABEL = 60
"""Characters of a label inside a figure."""


class Scale:
    """Values to pixels, linear or by logarithm."""

    def __init__(self, values: Iterable[float], start: float, end: float, zero: bool = False):
        found = [v for v in values if math.isfinite(v)] or [0.0]
        low, high = (0.0 if zero else min(found)), max(found)
        self.log = not zero and low > 0 and high / low > 20  # noqa: PLR2004 - over a decade
        pad = 0.0 if zero else (high - low) * 0.06 or abs(high) * 0.1 or 1.0
        self.low, self.high = (low / 1.1, high * 1.1) if self.log else (low - pad, high + pad)
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high = (math.log(v) if self.log else v for v in (self.low, self.high))
        here = math.log(value) if self.log else value
        return self.start + (here - low) / ((high - low) or 1.0) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return round values along the scale."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            every = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
            return [v for v in every if self.low <= v <= self.high]
        span = self.high - self.low
        step = 10 ** math.floor(math.log10(span / 4))
        step *= next(m for m in (1, 2, 5, 10) if span / (step * m) <= 6)  # noqa: PLR2004 - labels
        first = math.ceil(self.low / step)
        return [step * i for i in range(first, math.floor(self.high / step) + 1)]


Show = Callable[[float], str]


def svg(height: float, label: str, *parts: str) -> str:
    """Return a figure of the common width."""
    inside = "\n".join(parts)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{text(label)}" '
        f'xmlns="http://www.w3.org/2000/svg">{inside}</svg>'
    )


def words(x: float, y: float, value: object, anchor: str = "start", kind: str = "") -> str:
    """Return a line of text."""
    shown = text(value, LABEL)
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{shown}</text>'


def box(x: float, y: float, width: float, height: float, kind: str, title: str = "") -> str:
    """Return a rectangle that says what it is on hover."""
    hover = f"<title>{text(title)}</title>" if title else ""
    size = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}"'
    return f'<rect {size} class="{kind}">{hover}</rect>'


def axes(x: Scale, y: Scale, titles: tuple[str, str], shows: tuple[Show, Show]) -> str:
    """Return both axes with ticks and titles."""
    parts = [f'<path class="axis" d="M{x.start:.1f} {y.end:.1f}V{y.start:.1f}H{x.end:.1f}"/>']
    for value in x.ticks():
        parts.append(words(x.at(value), y.start + 18, shows[0](value), "middle", "dim"))
    for value in y.ticks():
        parts.append(words(x.start - 8, y.at(value) + 4, shows[1](value), "end", "dim"))
    parts.append(words((x.start + x.end) / 2, y.start + 40, titles[0], "middle"))
    parts.append(words(x.start - 100, y.end - 6, titles[1]))
    return "\n".join(parts)


def key(names: Sequence[tuple[str, str]], y: float, x: float = LEFT) -> str:
    """Return coloured boxes with names, in rows."""
    parts = []
    for kind, name in names:
        wide = 30 + 7.5 * len(name[:LABEL])
        if x + wide > WIDTH and x > LEFT:
            x, y = LEFT, y + 20
        parts += [box(x, y - 11, 13, 13, kind), words(x + 18, y, name)]
        x += wide
    return "\n".join(parts)
