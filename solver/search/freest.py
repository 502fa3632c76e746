"""The best run with some limits lifted, layers chosen stage by stage where the search does so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .best_first import Tally
from .clashes import Found, Grounds
from .splits import Splits


class OutOfTimeError(RuntimeError):
    """Time ran out while a relaxation was looked for."""


@dataclass(frozen=True)
class Run:
    """A step of a plan: its ticks, those charged with failures, the GPUs paid, and the layout."""

    step: int
    charged: int
    held: int
    layout: str


def layout_of(found: Found) -> str:
    """Write the layout of a plan in a few words."""
    return _layout(found.shape, found.decision.zero)


def _layout(shape: dict[str, int], zero: int) -> str:
    axes = " ".join(
        f"{name} {shape[name.lower()]}"
        for name in ("TP", "PP", "CP", "EP", "DP")
        if shape[name.lower()] > 1
    )
    return f"{axes or 'one GPU'}, ZeRO {zero}, {shape['gpus']} GPUs"


def best_run(found: Found, grounds: Grounds) -> Run:
    """Return the run of a plan, or of a better one whose layers are chosen stage by stage.

    Raises
    ------
    OutOfTimeError
        Where time ran out before all ways to choose them were looked at.
    """
    one, instance = found.decision, found.instance
    if instance.search.stages != "free":
        return Run(one.step, one.charged, found.shape["held"], layout_of(found))
    shapes = found.priced.shapes.take(np.flatnonzero(grounds.inside(instance)))
    splits = Splits(instance, shapes, grounds.settings, grounds.clock, Tally())
    best = splits.free(one.value(instance))
    if not best.proved:
        raise OutOfTimeError
    if best.split is None:
        return Run(one.step, one.charged, found.shape["held"], layout_of(found))
    shape, step = best.split.pipeline.shape.row(0), best.split.totals.step
    layout = f"{_layout(shape, best.split.sharding[0])}, layers chosen stage by stage"
    return Run(step, instance.charge_one(step, shape["held"]), shape["held"], layout)
