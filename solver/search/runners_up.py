"""The next best different layouts, and the simplest plan that is as good as the best."""

from __future__ import annotations

from ..cost.ticks import IntArray
from ..degrees import distinct
from .best_first import Searcher
from .decision import Decision
from .pricing import NEVER

AHEAD = 8
"""Shapes priced at once: runners-up have bounds close together."""


def families(searcher: Searcher) -> IntArray:
    """Return one number a shape that layouts of the same TP, PP, CP, EP and GPUs share."""
    s = searcher.priced.shapes
    return distinct(s.tp, s.pp, s.cp, s.ep, s.gpus)[1]


def runners_up(
    searcher: Searcher, rows: IntArray, best: Decision, top: int, gap: float = 0.0
) -> list[Decision]:
    """Return up to ``top - 1`` further plans, each the best of a family not yet taken.

    Under a ``gap`` each may miss the best of its family by so much.
    """
    if top <= 1:
        return []
    family, taken = families(searcher), best.row
    chosen: list[Decision] = []
    while len(chosen) < top - 1 and not searcher.clock.over():
        rows = rows[family[rows] != family[taken]]
        found = searcher.best(rows, NEVER, AHEAD, gap=gap)
        if found.best is None:
            break
        unique = found.best if gap else None
        unique = unique or searcher.unique(rows, found.best) or found.best
        chosen.append(unique)
        taken = unique.row
    return chosen


def recommended(searcher: Searcher, rows: IntArray, most: int, axes: int) -> Decision | None:
    """Return the plan of fewest axes, fewer than ``axes``, whose goal is at most ``most``.

    Among plans of as many axes the best; HSDP counts an axis more than its shape, so a shape of
    that many axes may give no plan and the search goes on. None where there is none.
    """
    plain = searcher.priced.axes
    for count in range(axes):
        able = rows[(plain[rows] == count) & (searcher.bounds[rows] <= most)]
        found = searcher.best(able, most + 1, AHEAD)
        if found.best is None:
            continue
        unique = searcher.unique(able, found.best) or found.best
        if unique.axes < axes:
            return unique
    return None
