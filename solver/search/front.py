"""The complete front over step time, cost and GPU count."""

from __future__ import annotations

import numpy as np

from ..cost.ticks import IntArray
from .best_first import Searcher
from .decision import Decision
from .pricing import NEVER

AHEAD = 8
"""Shapes of one GPU count priced at once."""


def complete_front(
    searcher: Searcher, rows: IntArray, bounds: IntArray
) -> tuple[list[Decision], bool]:
    """Return every non-dominated plan, by GPU count, and whether all of them are proved.

    Under one node type cost is GPUs held times time, so a count's fastest plan is also its
    cheapest, and it is dominated exactly when fewer GPUs are at least as fast. Counts are taken in
    ascending order, each one searched only for plans faster than the best so far; a count whose
    least bound is no better is closed by the bound.
    """
    counts = searcher.priced.shapes.gpus[rows]
    order = np.argsort(counts, kind="stable")
    points: list[Decision] = []
    fastest, proved = NEVER, True
    for group in np.split(rows[order], np.flatnonzero(np.diff(counts[order])) + 1):
        if not len(group) or bounds[group].min() >= fastest:
            continue
        found = searcher.best(group, bounds, fastest, AHEAD)
        proved &= found.proved
        if found.best is None:
            continue
        unique = searcher.unique(group, bounds, found.best)
        proved &= unique is not None
        points.append(unique or found.best)
        fastest = points[-1].step
    return points, proved
