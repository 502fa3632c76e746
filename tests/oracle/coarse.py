"""Costs on a coarse grid, so that many plans tie and every rule of breaking ties is put to use.

Real costs almost never tie beyond the kind of recomputation. Here the calibrated model's parts are
rounded up before it adds them, for the product and the enumerator alike; upwards alone, so that
lower bounds stay lower bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any
from unittest import mock

import numpy as np

from solver.cost.calibrated import Calibrated
from solver.cost.data_parallel import DataTraffic
from solver.cost.memory.items import MemoryItems
from solver.cost.ticks import FloatArray

GRID_S = 2.0**-4
"""Grid of times, 62.5 ms: exact in binary and in ticks, so that sums of it are exact too."""
GRID_BYTES = 2.0**33
"""Grid of memory, 8 GiB."""
BELOW_BYTES = 1024.0
"""Needs lie so far below their grid, lest the rounding of a sum lift them into the next MiB."""


def up(value: FloatArray, grid: float) -> FloatArray:
    """Round up to the grid."""
    return np.asarray(np.ceil(value / grid) * grid)


@contextmanager
def coarse_costs() -> Iterator[None]:
    """Put the calibrated model's costs on the grid, for both sides."""
    priced, overhead, total = Calibrated.priced, Calibrated.step_overhead, MemoryItems.total

    def coarse_priced(*args: Any) -> Any:
        times, traffic, update = priced(*args)
        coarse: dict[str, Any] = {
            name: up(getattr(times, name), GRID_S) for name in ("forward", "backward", "recompute")
        }
        for side in ("exposed", "total"):
            by_axis = getattr(times, side)
            coarse[side] = {axis: up(value, GRID_S) for axis, value in by_axis.items()}
        parts = [up(getattr(traffic, field.name), GRID_S) for field in fields(DataTraffic)]
        return replace(times, **coarse), DataTraffic(*parts), up(update, GRID_S)

    def coarse_total(*args: Any) -> Any:
        return up(total(*args), GRID_BYTES) - BELOW_BYTES

    with (
        mock.patch.object(Calibrated, "priced", coarse_priced),
        mock.patch.object(Calibrated, "step_overhead", lambda *args: up(overhead(*args), GRID_S)),
        mock.patch.object(MemoryItems, "total", coarse_total),
    ):
        yield
