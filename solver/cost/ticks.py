"""Integer units of the search: one rounding, upwards, shared by estimator, CP-SAT and checks.

Every coefficient is rounded up once, here; everything after that is exact integer arithmetic, so
that CP-SAT, the estimator and any enumerator agree to the last unit.
"""

from __future__ import annotations

import numpy as np

from ..degrees import BoolArray, FloatArray, IntArray

__all__ = ["BoolArray", "FloatArray", "IntArray", "capacity_mebibytes", "mebibytes", "ticks"]

TICK_S = 1e-7
"""One unit of time: 0.1 µs. A stage time of 1 ms is rounded by at most 0.01 %."""

MIB = 2**20
"""One unit of memory in the search, the unit that the driver reports in."""

MAX_TICKS = 10**12
"""Longest step that the search represents: 1e5 s. Times beyond are held here and never win."""


def ticks(seconds: FloatArray) -> IntArray:
    """Seconds → ticks, rounded up, held at ``MAX_TICKS`` (the CP-SAT domains stay below 2**60)."""
    scaled = np.nan_to_num(np.asarray(seconds) / TICK_S, nan=MAX_TICKS, posinf=MAX_TICKS)
    # A value within 1e-6 ticks above an integer is that integer: division by 1e-7 is not exact.
    return np.minimum(np.ceil(scaled - 1e-6), MAX_TICKS).astype(np.int64)


def mebibytes(byte_count: FloatArray) -> IntArray:
    """Bytes → MiB, rounded up: a need is never understated."""
    return np.ceil(np.minimum(np.asarray(byte_count, dtype=np.float64), 1e18) / MIB).astype(
        np.int64
    )


def capacity_mebibytes(byte_count: float) -> int:
    """Bytes → MiB, rounded down: a capacity is never overstated."""
    return int(byte_count // MIB)
