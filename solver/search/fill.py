"""What the stages of one pipeline can be at best, chosen one by one, traffic limits left out.

For a given pace and tail the least fill is a shortest path over stages and the layers placed so
far, worked out for many paces and tails at once. It bounds the step of the pipeline, and of every
alternative of a stage, so that CP-SAT is asked only where the answer is not settled, and only about
alternatives that a good enough plan may have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..cost.stage_options import StageOptions
from ..cost.ticks import GRAINS, BoolArray, IntArray
from .instance import LONGEST_STEP

LEVELS, MOST_CELLS = (8, 32), 2**16
"""Paces, and tails, looked at apart, in a first try and in a second; where there are more,
neighbours share the larger's fill. Deep models have fewer, so that a table of paces, tails and
layers stays this small."""

NO_WAY = np.int64(2**60)
"""Above every sum of coefficients, and small enough for a few more to be added."""


@dataclass(frozen=True)
class Narrowed:
    """What is left of a pipeline's alternatives.

    Attributes
    ----------
    bound
        Ticks that a step takes at least; above ``LONGEST_STEP`` where no choice is possible.
    able
        Which alternatives of each stage a step of at most the given ticks may have.
    """

    bound: int
    able: list[BoolArray]


def narrowed(options: Sequence[StageOptions], layers: int, at_most: int) -> Narrowed:
    """Bound a pipeline, and mark the alternatives of its stages that are worth a look.

    All stages recompute by one kind and hold ``layers`` together. The communication limit is left
    out; all else is exact, up to the grouping of paces and tails.
    """
    least = int(NO_WAY)
    able = [np.zeros(len(o), bool) for o in options]
    for kind in np.unique(np.concatenate([o.kind for o in options])):
        rows = [(o.kind == kind) & (o.layers <= layers) for o in options]
        if not all(some.any() for some in rows):
            continue
        of_kind = [o.take(some) for o, some in zip(options, rows, strict=True)]
        for levels in LEVELS:
            fill = _Fill.of(of_kind, layers, levels)
            if fill.least() > at_most * GRAINS:
                break
        else:
            for stage, some in enumerate(rows):
                able[stage][some] = fill.with_each(stage) <= at_most * GRAINS
        least = min(least, int(fill.least()))
    return Narrowed(min(-(-least // GRAINS), LONGEST_STEP + 1), able)


@dataclass(frozen=True)
class _Fill:
    """Least fill under each pair of pace and tail ("cell"), grains.

    Attributes
    ----------
    options
        Alternatives of each stage, all of one kind.
    slowest, longest, ends
        Largest pace and tail that a cell allows, and their least sum; (cells,).
    before, after
        Least fill of the stages before each one, and from it on, by layers; (cells, layers + 1).
    """

    options: Sequence[StageOptions]
    slowest: IntArray
    longest: IntArray
    ends: IntArray
    before: list[IntArray]
    after: list[IntArray]

    @staticmethod
    def of(options: Sequence[StageOptions], layers: int, levels: int) -> _Fill:
        """Work out the tables."""
        most = max(min(levels, math.isqrt(MOST_CELLS // (layers + 1))), 1)
        pace, slowest = _levels([o.pace for o in options], most)
        tail, longest = _levels([o.tail for o in options], most)
        slowest, longest = (grid.ravel() for grid in np.meshgrid(slowest, longest, indexing="ij"))
        start = np.full((len(slowest), layers + 1), NO_WAY)
        start[:, 0] = 0
        shares = [_shares(stage, slowest, longest) for stage in options]
        before, after = [start], [start]
        for stage in shares:
            before.append(_placed(before[-1], stage))
        for stage in reversed(shares):
            after.append(_placed(after[-1], stage))
        ends = np.asarray(pace[:, None] + tail).ravel()
        return _Fill(options, slowest, longest, ends, before, after[::-1])

    def least(self) -> np.int64:
        """Bound the grains of a step."""
        return np.int64((self.ends + self.before[-1][:, -1]).min(initial=NO_WAY))

    def with_each(self, stage: int) -> IntArray:
        """Bound the grains of a step with each alternative of a stage, (O,)."""
        option = self.options[stage]
        before, after = self.before[stage], self.after[stage + 1][:, ::-1]
        result = np.full(len(option), NO_WAY)
        for held in np.unique(option.layers):
            others = (before[:, : before.shape[1] - held] + after[:, held:]).min(axis=1)
            rows = np.flatnonzero(option.layers == held)
            inside = _inside(option.take(rows), self.slowest, self.longest)
            whole = np.where(inside, self.ends + others, NO_WAY).min(axis=1, initial=NO_WAY)
            result[rows] = whole + option.share[rows]
        return result


def _inside(options: StageOptions, slowest: IntArray, longest: IntArray) -> BoolArray:
    """Mark the cells that allow each alternative, (O, cells)."""
    return (options.pace[:, None] <= slowest) & (options.tail[:, None] <= longest)


def _shares(options: StageOptions, slowest: IntArray, longest: IntArray) -> dict[int, IntArray]:
    """Return the least share of a stage in the fill by its layers, each (cells,)."""
    share = np.where(_inside(options, slowest, longest), options.share[:, None], NO_WAY)
    held = options.layers
    return {int(n): share[held == n].min(axis=0) for n in np.unique(held)}


def _placed(fill: IntArray, shares: dict[int, IntArray]) -> IntArray:
    """Add a stage to the least fill by layers, (cells, layers + 1)."""
    result = np.full_like(fill, NO_WAY)
    for held, share in shares.items():
        reached = fill[:, : fill.shape[1] - held] + share[:, None]
        result[:, held:] = np.minimum(result[:, held:], reached)
    return result


def _levels(stages: Sequence[IntArray], most: int) -> tuple[IntArray, IntArray]:
    """Return the least and the largest of each of ``most`` groups of what the largest can be."""
    every = np.unique(np.concatenate(stages))
    every = every[every >= max(int(values.min()) for values in stages)]
    if len(every) <= most:
        return every, every
    ends = np.linspace(0, len(every), most + 1).astype(np.int64)
    return every[ends[:-1]], every[ends[1:] - 1]
