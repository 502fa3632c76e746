"""Array types, and the small number theory of degrees."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@cache
def divisors(number: int) -> tuple[int, ...]:
    """Return every divisor of a positive number, ascending."""
    small = [i for i in range(1, int(number**0.5) + 1) if number % i == 0]
    return tuple(sorted({*small, *(number // i for i in small)}))
