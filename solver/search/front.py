"""The complete front over step time, cost and GPU count."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..cost.ticks import IntArray
from .best_first import Searcher
from .decision import Decision
from .pricing import NEVER
from .stagewise import Split

AHEAD = 8
"""Shapes of one GPU count priced at once."""


Better = Callable[[int, int], tuple[Split | None, bool]]
"""Finds a split on a number of GPUs under so many ticks a step, and says if that is proved."""


def complete_front(
    searcher: Searcher, rows: IntArray, better: Better | None = None
) -> tuple[list[Decision | Split], bool]:
    """Return every non-dominated plan, by GPU count, and whether all of them are proved.

    Under one node type cost is GPUs held times time, so a count's fastest plan is also its
    cheapest, and it is dominated exactly when fewer GPUs are at least as fast, failures included.
    Counts are taken in ascending order, each one searched only for plans faster than the best so
    far; a count whose least bound is no better is closed by the bound. ``better`` looks for faster
    splits of a count's shapes, layers spread freely.
    """
    gpus = searcher.priced.shapes.gpus
    points: list[Decision | Split] = []
    fastest, proved = NEVER, True
    for count in np.unique(gpus if better else gpus[rows]):
        group = rows[gpus[rows] == count]
        if better is None and searcher.bounds[group].min() >= fastest:
            continue
        found = searcher.best(group, fastest, AHEAD)
        proved &= found.proved
        least = fastest if found.best is None else found.best.charged
        split, sure = better(int(count), least) if better else (None, True)
        proved &= sure
        if split is not None:
            points.append(split)
            held = int(split.pipeline.shape.held[0])
            fastest = searcher.instance.charge_one(split.totals.step, held)
        elif found.best is not None:
            unique = searcher.unique(group, found.best)
            proved &= unique is not None
            points.append(unique or found.best)
            fastest = found.best.charged
    return points, proved
