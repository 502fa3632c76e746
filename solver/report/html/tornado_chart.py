"""The tornado: how much the optimum changes where each input is less or more, widest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .drawing import SLIM, TOP, Scale, beside, box, cross, key, svg, words

HALF, BETWEEN = 15, 12
"""Pixels of one of the two bars of an input, and between two inputs."""
LINE = 17
"""Pixels of a line of text above a bar."""
LEAST = 160
"""Pixels of bars below which what is said of them goes above them."""


@dataclass(frozen=True)
class Bar:
    """One input.

    Attributes
    ----------
    name
        Input and its value.
    less, more
        What it is changed to, and the change of the optimum as a share, None where nothing fits;
        no pair where the input has no such value.
    """

    name: str
    less: tuple[str, float | None] | None
    more: tuple[str, float | None] | None

    @property
    def ends(self) -> tuple[tuple[str, float | None], ...]:
        """The pairs that there are."""
        return tuple(end for end in (self.less, self.more) if end is not None)


def tornado(bars: Sequence[Bar], width: int) -> str:
    """Draw inputs by what they move, to both sides of the optimum as it is."""
    known = [change for bar in bars for _, change in bar.ends if change is not None]
    if not known:
        return ""
    low, high = min(0.0, *known), max(0.0, *known)
    left = beside(bar.name for bar in bars)
    said = beside(_said(*end) for bar in bars for end in bar.ends)
    # What is written stands outside of its bar, on the side that the bar points to.
    first, last = left + (said if low < 0 else 4), width - said
    stacked = width < SLIM or last - first < LEAST
    if stacked:
        first, last = 2.0, width - 2.0
    scale = _Zero(Scale([0.0, (high - low) or 1.0], first, last, zero=True), low)
    parts, y = [], float(TOP)
    for bar in bars:
        if stacked:
            parts.append(words(0, y + 10, bar.name, kind="strong", room=width))
            y += LINE
        else:
            parts.append(words(left - 8, y + HALF + 4, bar.name, "end"))
        for half, kind in ((bar.less, "fa"), (bar.more, "fb")):
            if half is not None and stacked:
                parts += _above(*half, scale, y, kind)
                y += LINE
            elif half is not None:
                parts += _abreast(*half, scale, y, kind)
            y += 0 if half is None and stacked else HALF
        if not stacked:
            parts.append(scale.line(y - 2 * HALF - 4, 2 * HALF + 6))
        y += BETWEEN
    legend, end = key((("fa", "less"), ("fb", "more")), y + 8, width)
    return svg(width, end, "what moves the optimum", *parts, legend)


@dataclass(frozen=True)
class _Zero:
    """Changes to pixels, to both sides of none."""

    scale: Scale
    low: float

    def at(self, change: float) -> float:
        return self.scale.at(change - self.low)

    def bar(self, change: float, y: float, kind: str, title: str) -> str:
        ends = sorted((self.at(0.0), self.at(change)))
        return box(ends[0], y, max(ends[1] - ends[0], 1.5), HALF - 2, kind, title)

    def line(self, y: float, height: float) -> str:
        return f'<path class="axis" d="M{self.at(0.0):.1f} {y:.1f}v{height:g}"/>'


def _abreast(label: str, change: float | None, zero: _Zero, y: float, kind: str) -> Iterator[str]:
    """Return a bar with what it says beyond its end."""
    written, middle = _said(label, change), zero.at(0.0)
    if change is None:
        yield cross(middle + 10, y + HALF / 2)
        yield words(middle + 22, y + 12, written, kind="dim")
        return
    yield zero.bar(change, y, kind, written)
    at, anchor = (zero.at(change) - 6, "end") if change < 0 else (zero.at(change) + 6, "start")
    yield words(at, y + 12, written, anchor, "dim")


def _above(label: str, change: float | None, zero: _Zero, y: float, kind: str) -> Iterator[str]:
    """Return a bar below what it says."""
    written = _said(label, change)
    yield words(0, y + 11, written, kind="dim", room=zero.scale.end)
    if change is None:
        yield cross(zero.at(0.0) + 10, y + LINE + HALF / 2)
    else:
        yield zero.bar(change, y + LINE, kind, written)
    yield zero.line(y + LINE - 2, HALF + 2)


def _said(label: str, change: float | None) -> str:
    if change is None:
        return f"{label}: nothing fits"
    return f"{label}: {change:+.1%}".replace("-", "−")
