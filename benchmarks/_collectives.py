"""Measured collectives of a table: rows to sets, each a curve of one group on one fabric."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from solver.calibration.rows import RefusedError, Row, read_rows
from topology.collectives import KINDS, bus_factor
from topology.group_times import Measured, Spread
from topology.hardware import Gpu, find_gpu
from topology.units import GB

MICROSECOND = 1e-6
ASSUMED_LINK = 32e9
"""Bytes/s of a board's host link where the table gives none: PCIe Gen4 x16. It cancels out where a
set is read from its own points, and such sets are left out where it would not."""
TRANSPORTS = (("EFA", "efa"), ("TCPX", "tcp"))
"""Transport by what a fabric's name holds; anything else is InfiniBand or RoCE."""


@dataclass(frozen=True)
class Set:
    """One measured curve with where it is from.

    Attributes
    ----------
    name
        For people.
    fabric
        What is left out as a whole: inside a domain all GPUs with links of one rate, else the
        network's name without its counts.
    transfers
        Whether the rates of its links are known, so that it can be told from other fabrics.
    curve
        The points.
    """

    name: str
    fabric: str
    transfers: bool
    curve: Measured


def read_sets(path: Path) -> tuple[list[Set], Counter[str]]:
    """Return the sets of a table, and how many rows were refused for which reason."""
    points: dict[tuple[str, ...], list[tuple[float, float]]] = defaultdict(list)
    first: dict[tuple[str, ...], Row] = {}
    refused: Counter[str] = Counter()
    for row in map(Row, read_rows(path)):
        try:
            size, seconds = _point(row)
        except RefusedError as reason:
            refused[str(reason)] += 1
            continue
        key = tuple(row.text(n) for n in ("gpu", "fabric", "collective", "nodes", "gpus", "source"))
        points[key].append((size, seconds))
        first.setdefault(key, row)
    sets = []
    for key, found in points.items():
        sets.append(_set(first[key], tuple(sorted(dict(found).items()))))
    return sets, refused


def _kind(row: Row) -> str:
    kind = row.text("collective").replace("alltoall", "all_to_all")
    if kind not in KINDS:
        raise RefusedError("not a collective")
    return kind


def _point(row: Row) -> tuple[float, float]:
    """Return message bytes and seconds; from the bus bandwidth where no time is given."""
    kind, ranks = _kind(row), int(row.number("gpus"))
    size = row.number("message_bytes")
    _nodes_and_share(row)
    if size <= 0 or ranks < 2:
        raise RefusedError("no message size")
    seconds = row.number("time_us", default=0.0) * MICROSECOND
    rate = row.number("busbw_GBps", default=0.0) * GB
    if seconds <= 0 and rate > 0:
        seconds = float(bus_factor(kind, ranks)) * size / rate
    if not 0 < seconds < math.inf:
        raise RefusedError("no time")
    return size, seconds


def _nodes_and_share(row: Row) -> tuple[int, float]:
    """Return nodes, and bytes/s of a GPU's share of the link; 0 where the table has none."""
    share = row.number("peak_unidir_GBps_per_gpu", default=0.0) * GB
    return max(int(row.number("nodes", default=1.0)), 1), share


def _gpu(text: str) -> Gpu | None:
    try:
        return find_gpu((text.split() or [""])[0].rstrip("?"))
    except ValueError:
        return None


def _set(row: Row, points: tuple[tuple[float, float], ...]) -> Set:
    fabric, gpu = row.text("fabric"), _gpu(row.text("gpu"))
    kind, ranks = _kind(row), int(row.number("gpus"))
    nodes, share = _nodes_and_share(row)
    domain = max(gpu.nvlink_domain, gpu.gpus_per_node) if gpu else ranks
    domains = 1 if nodes == 1 else -(-ranks // domain)
    link = gpu.nvlink_bytes_per_s if gpu else 0.0
    transport = next((kind for word, kind in TRANSPORTS if word in fabric), "rdma")
    known = link > 0 and (domains == 1 or share > 0)
    spread = Spread(ranks, domains, link or share or ASSUMED_LINK, share or ASSUMED_LINK, transport)
    whole = f"links of {link / GB:.0f} GB/s" if domains == 1 else re.sub(r"\s*\d+x.*", "", fabric)
    name = f"{row.text('gpu')[:24]} {kind} {nodes} x {ranks // nodes}"
    sizes, seconds = zip(*points, strict=True)
    family = f"{row.text('gpu')}, {fabric}, {row.text('source')}"
    return Set(name, whole, known, Measured(kind, spread, family, sizes, seconds))
