"""How long collectives take at each level of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from topology.cluster import NodeGroup
from topology.collectives import KINDS, bus_factor
from topology.curves import collective_time
from topology.levels import levels
from topology.units import GIB, MIB, show_bandwidth, show_bytes, show_seconds

from ..job.named import named_cluster
from .blocks import Column, Report, Sheet
from .cells import count
from .machine import LEVEL_NAMES

SIZES = (MIB, 16 * MIB, 256 * MIB, 4 * GIB)
"""Messages that are shown: from a layer's activations to a bucket of gradients."""


def show_collectives(cluster: str, transport: str) -> Report:
    """Report time and bus bandwidth by level, collective and message."""
    groups = named_cluster(cluster).groups
    rows = tuple(
        {"group": number, **row}
        for number, group in enumerate(groups)
        for row in _rows(group, transport)
    )
    columns = (
        Column("group", "group", count, usual="0"),
        Column("level", "level", lambda name: LEVEL_NAMES[name], align="left"),
        Column("gpus", "GPUs", count),
        Column("collective", "collective", align="left"),
        Column("message_bytes", "message", lambda size: show_bytes(size, binary=True)),
        Column("seconds", "time", show_seconds),
        Column("bus_bytes_per_s", "bus bandwidth", show_bandwidth),
        Column("extrapolated", "", lambda outside: "extrapolated" if outside else "", align="left"),
    )
    notes = (
        "bus bandwidth as nccl-tests counts it; extrapolated = outside of the sizes or groups that "
        "were measured",
    )
    title = "Collectives over all GPUs of a level"
    return Report((Sheet(columns, rows, title),), {"transport": transport, "rows": rows}, rows,
                  notes=notes)  # fmt: skip


def _rows(group: NodeGroup, transport: str) -> Iterable[dict[str, Any]]:
    for index, level in enumerate(levels(group)):
        if level.gpus == 1:
            continue
        for kind in KINDS:
            found = collective_time(group, index, kind, SIZES, transport)
            moved = float(bus_factor(kind, level.gpus))
            for size, seconds, outside in zip(
                SIZES, found.seconds.tolist(), found.extrapolated.tolist(), strict=True
            ):
                yield {
                    "level": level.name,
                    "gpus": level.gpus,
                    "collective": kind,
                    "message_bytes": size,
                    "seconds": seconds,
                    "bus_bytes_per_s": moved * size / seconds,
                    "extrapolated": outside,
                }
