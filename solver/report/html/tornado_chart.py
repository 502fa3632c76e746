"""The tornado: how much the optimum changes where each input is less or more, widest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .drawing import SLIM, TOP, Scale, beside, box, cross, key, svg, words

HALF, ROW = 15, 42
"""Pixels of one of the two bars of an input, and from one input to the next."""
ABOVE = 18
"""Pixels of an input's name above its bars."""


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
    slim = width < SLIM
    left = 0.0 if slim else beside(bar.name for bar in bars)
    said = beside(_said(*end) for bar in bars for end in bar.ends)
    low, high = min(0.0, *known), max(0.0, *known)
    # What is written stands outside of its bar, on the side that the bar points to.
    x = Scale([0.0, (high - low) or 1.0], left + (said if low < 0 else 4), width - said, zero=True)
    parts, y = [], float(TOP)
    for bar in bars:
        if slim:
            parts.append(words(0, y + 10, bar.name))
            y += ABOVE
        else:
            parts.append(words(left - 8, y + HALF + 4, bar.name, "end"))
        for half, place, kind in ((bar.less, y, "fa"), (bar.more, y + HALF, "fb")):
            parts += _half(*half, (x, low), place, kind) if half is not None else ()
        parts.append(f'<path class="axis" d="M{x.at(-low):.1f} {y - 4:.1f}v{2 * HALF + 6}"/>')
        y += ROW
    legend, end = key((("fa", "less"), ("fb", "more")), y + 8, width)
    return svg(width, end, "what moves the optimum", *parts, legend)


def _half(
    label: str, change: float | None, scale: tuple[Scale, float], y: float, kind: str
) -> Iterator[str]:
    x, low = scale
    middle, written = x.at(-low), _said(label, change)
    if change is None:
        yield cross(middle + 10, y + HALF / 2)
        yield words(middle + 22, y + 12, written, kind="dim")
        return
    there = x.at(change - low)
    yield box(min(there, middle), y, max(abs(there - middle), 1.5), HALF - 2, kind, written)
    at, anchor = (there - 6, "end") if change < 0 else (there + 6, "start")
    yield words(at, y + 12, written, anchor, "dim")


def _said(label: str, change: float | None) -> str:
    if change is None:
        return f"{label}: nothing fits"
    return f"{label}: {change:+.1%}".replace("-", "−")
