"""Shapes in the order to open: those that wait with a floor, with a bound, and priced."""

from __future__ import annotations

import heapq
from typing import Protocol

import numpy as np

from ..cost.ticks import IntArray
from .pricing import BLOCK, NEVER, Priced

FIRST_BLOCK = 2_048
"""Shapes bounded in the first call of a search; blocks double."""

LARGEST_BATCH = 512
"""Most shapes priced in one call; batches double, as bounds that miss once miss again."""


class Bounded(Protocol):
    """What knows bounds of shapes: see ``best_first.Searcher``."""

    priced: Priced

    @property
    def bounds(self) -> IntArray:
        """Bounds of the goal of every shape, as far as they were worked out."""

    def bound(self, rows: IntArray) -> IntArray:
        """Work out the bounds of some shapes."""

    def refined(self, rows: IntArray) -> IntArray:
        """Price some shapes and bound them."""


class _Line:
    """Shapes waiting in the order of their bounds."""

    def __init__(self, rows: IntArray, bounds: IntArray) -> None:
        order = np.argsort(bounds, kind="stable")
        self.rows, self.bounds, self.next = rows[order], bounds[order], 0

    def least(self) -> int:
        """Return the least bound; NEVER where nobody waits."""
        return int(self.bounds[self.next]) if self.next < len(self.rows) else NEVER

    def take(self, most: int, below: int) -> IntArray:
        """Return up to ``most`` shapes with a bound under ``below``, which wait no longer."""
        end = min(self.next + most, len(self.rows))
        end = self.next + int(np.searchsorted(self.bounds[self.next : end], below))
        start, self.next = self.next, end
        return self.rows[start:end]

    def joined(self, rows: IntArray, bounds: IntArray) -> _Line:
        """Return the line with others who wait too."""
        left = slice(self.next, None)
        return _Line(
            np.concatenate([self.rows[left], rows]), np.concatenate([self.bounds[left], bounds])
        )


class Queue:
    """Shapes in the order to open: floors outside, then bounds, and refined bounds inside."""

    def __init__(self, searcher: Bounded, rows: IntArray, below: int, batch: int) -> None:
        bounds = searcher.bounds[rows]
        known = searcher.priced.bounded[rows]
        able = bounds < below
        self.searcher, self.batch, self.block = searcher, batch, FIRST_BLOCK
        self.outside = _Line(rows[able & ~known], bounds[able & ~known])
        self.cheap = _Line(rows[able & known], bounds[able & known])
        self.heap: list[tuple[int, int]] = []

    def fill(self, below: int) -> None:
        """Bound and price shapes while another one might come before the best priced one."""
        while True:
            outside, cheap = self.outside.least(), self.cheap.least()
            if min(outside, cheap) >= min(below, self.heap[0][0] if self.heap else NEVER):
                return
            if outside <= cheap:
                self._bound(below)
            else:
                self._price(below)

    def _bound(self, below: int) -> None:
        rows = self.outside.take(self.block, below)
        self.block = min(2 * self.block, BLOCK)
        bounds = self.searcher.bound(rows)
        able = bounds < below
        self.cheap = self.cheap.joined(rows[able], bounds[able])

    def _price(self, below: int) -> None:
        rows = self.cheap.take(self.batch, below)
        self.batch = min(2 * self.batch, LARGEST_BATCH)
        bounds = self.searcher.refined(rows)
        able = bounds < NEVER
        for one in zip(bounds[able].tolist(), rows[able].tolist(), strict=True):
            heapq.heappush(self.heap, one)

    def take(self, below: int, most: int) -> list[tuple[int, int]]:
        """Return up to ``most`` (bound, shape) whose bound is under ``below``, best first."""
        self.fill(below)
        taken: list[tuple[int, int]] = []
        while self.heap and len(taken) < most and self.heap[0][0] < below:
            taken.append(heapq.heappop(self.heap))
        return taken

    def remaining(self) -> int:
        """Return the least bound of what was not taken."""
        heap = self.heap[0][0] if self.heap else NEVER
        return min(self.outside.least(), self.cheap.least(), heap)
