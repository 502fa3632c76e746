"""Every legal plan of a small problem, one after another: the oracle of the search.

It shares with the product the estimator's integer tables and the definitions of the docs, and
nothing else. It prices, filters and compares in its own arithmetic, without bounds, without
skipping a shape that could matter and without a solver, so that it is slow and easy to believe.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np

from solver.cost.shapes import Shapes
from solver.cost.tables import Tables
from solver.cost.ticks import GRAINS, MAX_TICKS, TICK_S, BoolArray, IntArray

from .legal import (
    Question,
    gpu_counts,
    held_gpus,
    legal_shapes,
    legal_shardings,
    shape_keeps_limits,
    slowdown,
)

Goal = Literal["time", "cost"]
Point = tuple[int, int, int]
"""GPUs, wall-clock ticks of a step, GPUs held times these."""


class Plan(NamedTuple):
    """One complete plan with its integers; recomputation as indices into the kinds."""

    pp: int
    tp: int
    cp: int
    ep: int
    etp: int
    vpp: int
    gpus: int
    zero: int
    micro_batch: int
    first: int
    middle: int
    last: int
    replicas: int
    order: int
    dp: int
    held: int
    step: int
    mebibytes: int
    slowdown: int = 1_000_000
    late: int = 0
    """Whether weight gradients wait: which schedule this is, 1F1B or ZB-H1."""

    @property
    def wall(self) -> int:
        """Wall-clock ticks of a step, failures included."""
        return charged(self.step, self.slowdown)

    @property
    def axes(self) -> int:
        """Axes above 1; HSDP counts one more."""
        wide = (self.tp, self.pp, self.cp, self.ep, self.etp, self.dp, self.replicas)
        return len([degree for degree in wide if degree > 1])

    def key(self, goal: Goal) -> tuple[int, ...]:
        """What the best plan has least of, in order."""
        aims = (self.wall, self.held * self.wall)
        lead = aims if goal == "time" else aims[::-1]
        return (*lead, self.axes, self.mebibytes, *self[:12], -self.replicas, self.order)


def charged(step: int, slowdown: int) -> int:
    """Ticks that a step takes in the mean, rounded up; a tenfold slowdown never ends."""
    if slowdown > 10_000_000:
        return MAX_TICKS
    return math.ceil(Fraction(step * slowdown, 1_000_000))


# -- what they take ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Priced:
    """Integers of one choice of recomputation for all shapes and shardings, (N, Z)."""

    step: IntArray
    mebibytes: IntArray
    communication: IntArray


def price(tables: Tables, kinds: tuple[int, int, int]) -> Priced:
    """Add up the largest pace, every share of the fill and the longest tail, in whole ticks.

    A class without stages has no say in any of them.
    """
    by_class = (kinds[0], kinds[1], kinds[1], kinds[2])  # first, light and heavy middle, last
    nothing = np.zeros_like(tables.pace[:, 0, 0, :])
    pace, fill, tail, need, sent = (nothing.copy() for _ in range(5))
    for stage_class, kind in enumerate(by_class):
        exists = tables.stages.count[:, stage_class, None] > 0
        pick = (slice(None), stage_class, kind)
        pace = np.maximum(pace, np.where(exists, tables.pace[pick], 0))
        fill = fill + np.where(exists, tables.share[pick], 0)
        tail = np.maximum(tail, np.where(exists, tables.tail[pick], 0))
        need = np.maximum(need, np.where(exists, tables.memory[pick], 0))
        here = (tables.busiest == stage_class)[:, None]
        sent = np.where(here, tables.communication[:, kind, :], sent)
    step = (pace + fill + tail + GRAINS - 1) // GRAINS
    return Priced(np.minimum(step, MAX_TICKS), need, sent)


SLACK = 1 + 1e-9
"""A plan that meets its limit exactly keeps it, whatever the last bit of a float says."""


def longest_step(question: Question, held: int) -> int:
    """Longest step in ticks that deadline and budget allow on so many GPUs, failures included."""
    limits, steps = question.limits, question.job.steps
    longest = MAX_TICKS - 1
    if limits.deadline_s is not None:
        assert steps is not None, "a deadline needs the tokens of the run"
        longest = min(longest, int(limits.deadline_s / (steps * TICK_S) * SLACK))
    if limits.budget_usd is not None:
        rate = question.group.price_usd_per_gpu_hour
        assert steps is not None, "a budget needs the tokens of the run"
        assert rate, "a budget needs a price"
        gpu_ticks = int(limits.budget_usd / rate * 3600 / (steps * TICK_S) * SLACK)
        longest = min(longest, gpu_ticks // held)
    factor = slowdown(question, held)
    return 0 if factor > 10_000_000 else math.floor(Fraction(longest * 1_000_000, factor))


@dataclass
class Block:
    """All shapes on one number of GPUs that keep the shape limits, with their tables."""

    question: Question
    gpus: int
    tables: Tables
    shardings: dict[tuple[int, int, int], list[tuple[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Hold the estimator's sharding columns against the definition."""
        columns, shapes = self.tables.shardings, self.tables.shapes
        for row in range(len(shapes)):
            degrees = (int(shapes.tp[row]), int(shapes.cp[row]), int(shapes.dp[row]))
            if degrees not in self.shardings:
                self.shardings[degrees] = legal_shardings(self.question, *degrees)
            valid = columns.valid[row]
            have = zip(columns.zero[row, valid], columns.replicas[row, valid], strict=True)
            assert sorted((int(z), int(r)) for z, r in have) == self.shardings[degrees], degrees

    def choices(self) -> Iterator[tuple[tuple[int, int, int], Priced, BoolArray]]:
        """Each recomputation of first, middle and last stages, priced, and what is allowed."""
        count, limits = self.tables.stages.count, self.question.limits
        most = np.floor(limits.max_comm * self.tables.compute).astype(np.int64)[:, None]
        longest = longest_step(self.question, held_gpus(self.question, self.gpus))
        for kinds in itertools.product(range(len(self.question.cost.kinds)), repeat=3):
            first, middle, last = kinds
            # A class without stages has one choice, not several that look different.
            exists = (middle == 0) | (count[:, 1] + count[:, 2] > 0)
            exists &= (last == 0) | (count[:, 3] > 0)
            if not self.question.search.recompute_by_stage:  # every stage there is, by one kind
                exists &= (middle == first) | (count[:, 1] + count[:, 2] == 0)
                exists &= (last == first) | (count[:, 3] == 0)
            priced = price(self.tables, (first, middle, last))
            allowed = (
                self.tables.shardings.valid
                & exists[:, None]
                & (priced.mebibytes <= self.question.cost.capacity_mib)
                & (priced.communication <= most)
                & (priced.step <= longest)
            )
            yield (first, middle, last), priced, allowed

    def plan(self, row: int, column: int, kinds: tuple[int, int, int], priced: Priced) -> Plan:
        """Write one plan out."""
        shape, columns = self.tables.shapes.row(row), self.tables.shardings
        first, middle, last = kinds
        degrees = {
            name: shape[name] for name in ("pp", "tp", "cp", "ep", "etp", "vpp", "gpus", "dp")
        }
        return Plan(
            **degrees,
            zero=int(columns.zero[row, column]),
            micro_batch=shape["micro_batch"],
            first=first,
            middle=middle,
            last=last,
            replicas=int(columns.replicas[row, column]),
            order=shape["order"],
            held=held_gpus(self.question, self.gpus),
            step=int(priced.step[row, column]),
            mebibytes=int(priced.mebibytes[row, column]),
            slowdown=slowdown(self.question, held_gpus(self.question, self.gpus)),
            late=int(self.question.search.schedule == "zb-h1"),
        )


def blocks(question: Question) -> list[Block]:
    """Price every shape that keeps the limits that shapes decide, by number of GPUs."""
    priced = []
    for gpus in gpu_counts(question):
        found = [
            s
            for s in legal_shapes(question, gpus)
            if shape_keeps_limits(question, s)
            and legal_shardings(question, s["tp"], s["cp"], s["dp"])
        ]
        if found:
            columns = {name: np.array([s[name] for s in found], np.int64) for name in found[0]}
            priced.append(Block(question, gpus, question.cost.tables(Shapes(**columns))))
    return priced


# -- the answers -------------------------------------------------------------------------------


def enumerate_best(
    question: Question, goal: Goal, priced_blocks: list[Block] | None = None
) -> Plan | None:
    """Return the best plan with all ties broken, None where none keeps the limits."""
    best: Plan | None = None
    for block in priced_blocks if priced_blocks is not None else blocks(question):
        held = held_gpus(question, block.gpus)
        for kinds, priced, allowed in block.choices():
            if not allowed.any():
                continue
            # Inside a block cost is step times a constant, so both goals want its shortest step.
            shortest = int(priced.step[allowed].min())
            wall = charged(shortest, slowdown(question, held))
            aim = wall if goal == "time" else held * wall
            if best is not None and aim > best.key(goal)[0]:
                continue
            for row, column in np.argwhere(allowed & (priced.step == shortest)):
                plan = block.plan(int(row), int(column), kinds, priced)
                if best is None or plan.key(goal) < best.key(goal):
                    best = plan
    return best


def enumerate_front(question: Question, priced_blocks: list[Block] | None = None) -> list[Point]:
    """Return every point that no other point equals or beats in step, cost and GPUs at once."""
    points: list[Point] = []
    for block in priced_blocks if priced_blocks is not None else blocks(question):
        found = [priced.step[ok].min() for _, priced, ok in block.choices() if ok.any()]
        if found:
            held = held_gpus(question, block.gpus)
            # Longer steps on as many GPUs are dominated by this one.
            wall = charged(int(min(found)), slowdown(question, held))
            points.append((block.gpus, wall, held * wall))
    return not_dominated(points)


def not_dominated(points: list[Point]) -> list[Point]:
    """Return the points that no different point is at least as good as in all three."""
    return sorted(
        point
        for point in set(points)
        if not any(
            other != point and all(o <= p for o, p in zip(other, point, strict=True))
            for other in points
        )
    )


def all_plans(priced_blocks: list[Block]) -> Iterator[Plan]:
    """Yield every plan that keeps the limits."""
    for block in priced_blocks:
        for kinds, priced, allowed in block.choices():
            for row, column in np.argwhere(allowed):
                yield block.plan(int(row), int(column), kinds, priced)


def find_plan(priced_blocks: list[Block], wanted: Plan) -> Plan | None:
    """Return the plan of the same layout and choices, None where no such plan keeps the limits."""
    names = ("tp", "cp", "pp", "ep", "etp", "vpp", "dp", "micro_batch", "order")
    for block in priced_blocks:
        if block.gpus != wanted.gpus:
            continue
        same = [getattr(block.tables.shapes, name) == getattr(wanted, name) for name in names]
        rows = np.flatnonzero(np.logical_and.reduce(same))
        one = Block(block.question, block.gpus, block.tables.take(rows))
        for plan in all_plans([one]):
            if plan._replace(step=wanted.step, mebibytes=wanted.mebibytes) == wanted:
                return plan
    return None
