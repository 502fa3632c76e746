"""Parts of SVG figures: scales, axes, ticks, keys.

Every figure is a function of its width and is drawn twice, for a screen that has room and for a
telephone: letters keep their size, what stands beside the bars goes above them.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence

from .page import text

WIDE, NARROW = 1000, 358
"""Pixels of the two forms of a figure; the page shows the second on screens below 640."""
SLIM = 600
"""A figure below this width puts labels above its bars."""
TOP, GAP = 12, 16
"""Pixels above a figure, and between a bar and what is written beside it."""
LETTER = 8.3
"""Width of a letter of 13-pixel text in a wide font (DejaVu Sans), pixels, above the average."""
COLORS = "abcdefgh"
"""Classes of the page's colours: f followed by one fills, s draws."""
LABEL = 60
"""Characters of a label inside a figure."""
SAMPLE, LINE, MOST_LINES = 18, 16, 4
"""Pixels of a coloured box of a key with the room beside it, and of a line of its name; lines."""
TICK_WIDTH, TICK_HEIGHT = 90, 45
"""Pixels that a label of an axis takes, with the room around it."""
LOG_FROM = 8
"""Values that lie further apart than this factor are drawn by their logarithm."""

Draw = Callable[[int], str]
Show = Callable[[float], str]


class Scale:
    """Values to pixels, linear or by logarithm."""

    def __init__(self, values: Iterable[float], start: float, end: float, zero: bool = False):
        found = [v for v in values if math.isfinite(v)] or [0.0]
        low, high = (0.0 if zero else min(found)), max(found)
        self.log = not zero and low > 0 and high / low > LOG_FROM
        pad = 0.0 if zero else (high - low) * 0.06 or abs(high) * 0.1 or 1.0
        self.low, self.high = (low / 1.1, high * 1.1) if self.log else (low - pad, high + pad)
        if not self.log and low >= 0:
            self.low = max(self.low, 0.0)
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high = (math.log(v) if self.log else v for v in (self.low, self.high))
        here = math.log(value) if self.log else value
        return self.start + (here - low) / ((high - low) or 1.0) * (self.end - self.start)

    def ticks(self, room: float) -> list[float]:
        """Return round values along the scale, each with so many pixels for its label."""
        most = max(int(abs(self.end - self.start) // room), 2)
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            for factors in ((1, 2, 5), (1,)):
                every = [m * 10.0**e for e in range(first, last + 1) for m in factors]
                inside = [v for v in every if self.low <= v <= self.high]
                if len(inside) <= most:
                    return inside
            return inside[:: -(-len(inside) // most)]
        span = self.high - self.low
        least = 10.0 ** math.floor(math.log10(span / most))
        steps = [least * m for m in (1, 2, 5, 10, 20)]
        enough = next(n for n, step in enumerate(steps) if span / step <= most)
        # A wide step may leave one value alone, which says nothing of the scale.
        found = (self._multiples(steps[n]) for n in range(enough, -1, -1))
        return next((values for values in found if len(values) > 1), self._multiples(least))

    def _multiples(self, step: float) -> list[float]:
        first = math.ceil(self.low / step)
        return [step * i for i in range(first, math.floor(self.high / step) + 1)]


def figure(draw: Draw, caption: str) -> str:
    """Return a drawing in both forms with what it says below; nothing where there is none."""
    roomy, slim = draw(WIDE), draw(NARROW)
    if not roomy:
        return ""
    said = f"<figcaption>{text(caption, 1000)}</figcaption>" if caption else ""
    return (
        f'<figure><div class="roomy">{roomy}</div><div class="slim">{slim}</div>{said}</figure>\n'
    )


def svg(width: float, height: float, label: str, *parts: str) -> str:
    """Return a figure."""
    inside = "\n".join(parts)
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{text(label)}" '
        f'xmlns="http://www.w3.org/2000/svg">{inside}</svg>'
    )


def words(
    x: float, y: float, value: object, anchor: str = "start", kind: str = "", room: float = 0.0
) -> str:
    """Return a line of text, cut where it would be wider than its room."""
    longest = min(int(room / LETTER), LABEL) if room else LABEL
    if len(str(value)) > longest:
        longest = max(longest - 1, 2)  # an ellipsis is wider than a letter
    shown = text(value, longest)
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{shown}</text>'


def box(x: float, y: float, width: float, height: float, kind: str, title: str = "") -> str:
    """Return a rectangle that says what it is on hover."""
    hover = f"<title>{text(title)}</title>" if title else ""
    size = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}"'
    return f'<rect {size} class="{kind}">{hover}</rect>'


def plain(value: float) -> str:
    """Show a round value of an axis."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"  # noqa: PLR2004 - separators


def cross(x: float, y: float) -> str:
    """Return the mark of what breaks a limit or has no plan."""
    return f'<path class="bad" d="M{x - 5:.1f} {y - 5:.1f}l10 10m-10 0l10 -10"/>'


def beside(labels: Iterable[str]) -> float:
    """Return the pixels that labels to the left of a figure take."""
    return max((len(label) for label in labels), default=0) * LETTER + GAP / 2


def axes(
    x: Scale, y: Scale, titles: tuple[str, str], shows: tuple[Show, Show],
    places: Sequence[float] = (),
) -> str:  # fmt: skip
    """Return both axes with ticks, those of x at the given places, and titles."""
    parts = [f'<path class="axis" d="M{x.start:.1f} {y.end:.1f}V{y.start:.1f}H{x.end:.1f}"/>']
    for value in y.ticks(TICK_HEIGHT):
        line = f"M{x.start:.1f} {y.at(value):.1f}H{x.end:.1f}"
        parts.append(f'<path class="grid" d="{line}"/>')
        parts.append(words(x.start - 8, y.at(value) + 4, shows[1](value), "end", "dim"))
    for value in places or x.ticks(TICK_WIDTH):
        parts.append(words(x.at(value), y.start + 18, shows[0](value), "middle", "dim"))
    parts.append(words((x.start + x.end) / 2, y.start + 40, titles[0], "middle"))
    parts.append(words(0, y.end - 12, titles[1]))
    return "\n".join(parts)


def key(names: Sequence[tuple[str, str]], y: float, width: float) -> tuple[str, float]:
    """Return coloured boxes with names in columns, broken where they are long, and their end."""
    letters = min(int((width - SAMPLE) / LETTER), LABEL)
    broken = [(kind, _broken(name, letters)) for kind, name in names]
    longest = max((len(line) for _, lines in broken for line in lines), default=0)
    step = SAMPLE + LETTER * longest + GAP
    columns = max(int((width + GAP) // step), 1)
    parts = []
    for first in range(0, len(broken), columns):
        row = broken[first : first + columns]
        for n, (kind, lines) in enumerate(row):
            parts.append(box(n * step, y - 11, 13, 13, kind))
            parts += [words(n * step + SAMPLE, y + i * LINE, s) for i, s in enumerate(lines)]
        y += 22 + LINE * (max(len(lines) for _, lines in row) - 1)
    return "\n".join(parts), y - 22 + GAP


def _broken(name: str, letters: int) -> list[str]:
    """Return a name as lines; what does not fit into a few of them is cut."""
    return textwrap.wrap(name, letters, max_lines=MOST_LINES, placeholder=" …") or [""]
