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


def distinct(*columns: IntArray) -> tuple[IntArray, IntArray]:
    """Return the first row of each distinct tuple of non-negative columns, and which one each is.

    The tuple is packed into one integer, which sorts a hundred times faster than rows do.
    """
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        key = key * (int(column.max(initial=0)) + 1) + column
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return first, inverse.ravel()
