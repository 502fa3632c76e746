"""A cluster as an SVG: boxes inside boxes, one a communication level, alike ones counted.

Each box names the bandwidth that a GPU gets when all GPUs below it talk across its parts. Of many
alike parts a few are drawn and the others counted, so that 2,000 nodes take as much room as 20.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from xml.sax.saxutils import escape

from topology.cluster import Cluster, NodeGroup
from topology.levels import Level, levels
from topology.units import show_bandwidth

ALL_DRAWN, SOME_DRAWN, ABREAST = 8, 3, 4
"""Alike parts that are all drawn; else so many of them; rows of GPUs."""
WIDEST = 860
"""Pixels from which parts go into another row."""
GPU, GAP, HEAD, PAD = 18, 6, 20, 8
"""Sizes in pixels: side of a GPU, gap, height of a title, padding of a box."""
LETTER = 6.6
"""Width of a letter of 12-pixel sans-serif text, pixels; a bit above the average."""

_STYLE = """
  text { font: 12px sans-serif; fill: #1f2937 }
  rect { stroke: #6b7280; fill: none; rx: 4px }
  .gpu { fill: #86c5a4; stroke: #2f6f52 }
  .nvlink { fill: #e3f1ea } .pcie, .switch, .node { fill: #f1f3f5 } .leaf { fill: #e4edf8 }
  .spine { fill: #f7efdd } .more { stroke-dasharray: 4 3 } .page { fill: #fff; stroke: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #e5e7eb } .page { fill: #111827 } .nvlink { fill: #1d3a2d } .leaf { fill: #1d2c44 }
    .pcie, .switch, .node { fill: #1f2937 } .spine { fill: #3d3320 } .gpu { fill: #2f6f52 }
  }
"""
_WORDS = {
    "nvlink": "NVLink",
    "switch": "PCIe switch",
    "pcie": "host links",
    "leaf": "one leaf",
    "spine": "spine",
}


@dataclass(frozen=True, slots=True)
class _Box:
    """A rectangle with a title over parts in rows."""

    kind: str
    title: str
    rows: tuple[tuple[_Box, ...], ...]

    @property
    def width(self) -> float:
        rows = (sum(part.width for part in row) + GAP * (len(row) - 1) for row in self.rows)
        return max(max(rows, default=0.0), LETTER * len(self.title)) + 2 * PAD

    @property
    def height(self) -> float:
        rows = sum(max(part.height for part in row) + GAP for row in self.rows)
        return HEAD + rows + PAD / 2

    def draw(self, x: float, y: float) -> Iterable[str]:
        yield (
            f'<rect class="{self.kind}" x="{x:g}" y="{y:g}" width="{self.width:g}" '
            f'height="{self.height:g}"/>'
        )
        yield f'<text x="{x + PAD:g}" y="{y + HEAD - 6:g}">{escape(self.title)}</text>'
        down = y + HEAD
        for row in self.rows:
            right = x + PAD
            for part in row:
                yield from part.draw(right, down)
                right += part.width + GAP
            down += max(part.height for part in row) + GAP


@dataclass(frozen=True, slots=True)
class _Gpus(_Box):
    """GPUs side by side, without a box around them."""

    count: int = 1

    @property
    def width(self) -> float:
        return float(self.count * (GPU + GAP) - GAP)

    @property
    def height(self) -> float:
        return float(GPU)

    def draw(self, x: float, y: float) -> Iterable[str]:
        for number in range(self.count):
            at = x + number * (GPU + GAP)
            yield f'<rect class="gpu" x="{at:g}" y="{y:g}" width="{GPU}" height="{GPU}"/>'


def to_svg(cluster: Cluster) -> str:
    """Draw a cluster."""
    boxes = [_group(group) for group in cluster.groups]
    page = _Box(
        "page", f"{cluster.name}: bandwidth per GPU and direction", tuple((b,) for b in boxes)
    )
    width, height = page.width, page.height
    title = escape(page.title)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:g}" '
            f'height="{height:g}" viewBox="0 0 {width:g} {height:g}">',
            f"<title>{title}</title>",
            f"<style>{_STYLE}</style>",
            *page.draw(0, 0),
            "</svg>",
            "",
        )
    )


def _group(group: NodeGroup) -> _Box:
    """Draw the outermost level of a group with everything inside it."""
    sizes = {level.gpus: level for level in levels(group)}
    bounds = sorted({*sizes, group.gpus_per_node}, reverse=True)
    return _part(group, sizes, bounds)


def _part(group: NodeGroup, sizes: dict[int, Level], bounds: list[int]) -> _Box:
    size, level = bounds[0], sizes.get(bounds[0])
    node = "node" if size == group.gpus_per_node else ""
    if level is None:
        kind, words = "node", f"node of {size:,}"
    else:
        rate = show_bandwidth(level.bytes_per_s)
        kind = level.name
        words = f"{node or f'{size:,} GPUs'}, {_WORDS[level.name]} {rate}"
    if len(bounds) == 1:
        whole, rest = divmod(size, ABREAST * 2)
        counts = [ABREAST * 2] * min(whole, ABREAST)
        counts += [rest] if rest and whole < ABREAST else []
        parts: list[_Box] = [_Gpus("gpu", "", (), number) for number in counts]
        if sum(counts) < size:
            parts.append(_more(size - sum(counts), "GPUs"))
        return _Box(kind, words, tuple((part,) for part in parts))
    inner = _part(group, sizes, bounds[1:])
    count = -(-size // bounds[1])
    shown = count if count <= ALL_DRAWN else SOME_DRAWN
    below = [inner] * shown
    if shown < count:
        below.append(_more(count - shown, "alike"))
    abreast = max(int((WIDEST + GAP) // (inner.width + GAP)), 1)
    cut = [tuple(below[n : n + abreast]) for n in range(0, len(below), abreast)]
    return _Box(kind, words, tuple(cut))


def _more(count: int, what: str) -> _Box:
    return _Box("more", f"and {count:,} more {what}", ())
