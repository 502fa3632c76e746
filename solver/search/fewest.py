"""The smallest larger cluster that holds a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .best_first import Clock, Searcher, Tally
from .cpsat.factory import SolverSettings
from .decision import Decision
from .instance import Instance
from .opening import LARGEST_BATCH
from .pricing import NEVER, Priced
from .space import build_space

MOST_NODES, MOST_TIMES = 4_096, 64
"""Largest cluster that is tried when nothing fits: in nodes, and in multiples of the given one."""


def fewest_gpus(
    instance: Instance, settings: SolverSettings, clock: Clock
) -> tuple[int, int, str] | None:
    """Return GPUs, nodes and layout of the smallest larger cluster that holds a plan.

    Node counts double until a plan appears; then the GPU counts up to there are searched in
    ascending order, so the first with a plan is the smallest. None where the largest that is tried
    holds none.
    """
    search = instance.search.model_copy(update={"gpus": None, "max_gpus": None})
    nodes = instance.group.nodes
    most = min(MOST_NODES, MOST_TIMES * nodes)
    while nodes < most and not clock.over():
        nodes = min(2 * nodes, most)
        group = replace(instance.group, nodes=nodes)
        larger = replace(instance, group=group, search=search, cost=instance.cost.on(group))
        space = build_space(larger)
        priced = Priced.of(larger, space.shapes)
        searcher = Searcher(larger, priced, settings, clock, Tally())
        found = _on_fewest(searcher)
        if found is not None:
            held = int(priced.shapes.held[found.row])
            layout = _layout(priced, found)
            return int(priced.shapes.gpus[found.row]), held // group.gpus_per_node, layout
    return None


def _on_fewest(searcher: Searcher) -> Decision | None:
    """Return the best plan on the fewest GPUs that hold one.

    Bounds tell most counts apart, worked out for many at once: only those are searched that they
    leave.
    """
    gpus = searcher.priced.shapes.gpus
    rows = np.flatnonzero(searcher.bounds < NEVER)
    rows = rows[np.argsort(gpus[rows], kind="stable")]
    for start in range(0, len(rows), LARGEST_BATCH):
        if searcher.clock.over():
            return None
        some = rows[start : start + LARGEST_BATCH]
        some = some[searcher.bound(some) < NEVER]
        for count in np.unique(gpus[some[searcher.refined(some) < NEVER]]):
            found = searcher.best(rows[gpus[rows] == count], NEVER)
            if found.best is not None:
                return found.best
    return None


def _layout(priced: Priced, best: Decision) -> str:
    s = priced.shapes.row(best.row)
    axes = " ".join(
        f"{name} {s[name.lower()]}"
        for name in ("TP", "PP", "CP", "EP", "DP")
        if s[name.lower()] > 1
    )
    return f"{axes or 'one GPU'}, ZeRO {best.zero}, {s['gpus']} GPUs"
