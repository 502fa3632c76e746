"""Integer units of the search: one rounding, upwards, shared by estimator, CP-SAT and checks.

Coefficients are rounded up once, to grains; everything after that is exact integer arithmetic, and
a step is its grains in whole ticks. So CP-SAT, the estimator and any enumerator agree to the last
unit, and plans that differ by the rounding of their parts alone still tie.
"""

from __future__ import annotations

import numpy as np

from ..degrees import BoolArray, FloatArray, IntArray

__all__ = ["BoolArray", "FloatArray", "IntArray"]

TICK_S = 1e-6
"""One unit of the step: 1 µs."""

GRAINS = 10_000
"""Grains in a tick."""

GRAIN_S = TICK_S / GRAINS
"""One unit of a coefficient: 0.1 ns. A step sums at most six, so rounding hides in one tick."""

MIB = 2**20
"""One unit of memory in the search, the unit that the driver reports in."""

MAX_TICKS = 10**11
"""Longest step that the search represents: 1e5 s. Times beyond are held here and never win."""

MAX_GRAINS = MAX_TICKS * GRAINS
"""The same in grains; sums of a few stay far below 2**63."""


def grains(seconds: FloatArray) -> IntArray:
    """Seconds → grains, rounded up, held at ``MAX_GRAINS``."""
    scaled = np.nan_to_num(np.asarray(seconds) / GRAIN_S, nan=MAX_GRAINS, posinf=MAX_GRAINS)
    # A value within 1e-6 grains above an integer is that integer: dividing by 1e-10 is not exact.
    return np.minimum(np.ceil(scaled - 1e-6), MAX_GRAINS).astype(np.int64)


def whole_ticks(count: IntArray) -> IntArray:
    """Grains → ticks, rounded up."""
    return -(-count // GRAINS)


def mebibytes(byte_count: FloatArray) -> IntArray:
    """Bytes → MiB, rounded up: a need is never understated."""
    return np.ceil(np.minimum(np.asarray(byte_count, dtype=np.float64), 1e18) / MIB).astype(
        np.int64
    )


def capacity_mebibytes(byte_count: float) -> int:
    """Bytes → MiB, rounded down: a capacity is never overstated."""
    return int(byte_count // MIB)
