"""The best way to spread layers over stages, over every shape: opened by bound, then CP-SAT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..cost.calibrated import Calibrated
from ..cost.goodput import MOST_SLOWDOWN, PARTS, longest_within
from ..cost.shapes import Shapes, Shardings
from ..cost.shard_columns import shardings
from .best_first import Clock, Tally
from .cpsat.factory import SolverSettings
from .instance import LONGEST_STEP, Instance
from .pipelines import MOST_STAGES, Pipeline
from .pricing import BLOCK
from .stagewise import Split, best_split


@dataclass(frozen=True)
class Candidate:
    """A layout to be split.

    Attributes
    ----------
    bound
        Ticks that a step takes at least, however the layers are spread.
    weight
        What a tick of wall-clock time adds to the objective.
    gpus
        GPUs used.
    build
        Makes the pipeline, which most candidates never need; None where no sharding is possible.
    slowdown
        Wall-clock over training time, in parts a million.
    """

    bound: int
    weight: int
    gpus: int
    build: Callable[[], Pipeline | None]
    slowdown: int = PARTS

    @property
    def least(self) -> int:
        """Least objective."""
        return self.value(self.bound)

    @property
    def ends(self) -> bool:
        """Whether a run on its nodes can end at all."""
        return self.slowdown <= MOST_SLOWDOWN and self.charged(self.bound) <= LONGEST_STEP

    def charged(self, step: int) -> int:
        """Return the wall-clock ticks of a step, failures included."""
        return -(-step * self.slowdown // PARTS)

    def value(self, step: int) -> int:
        """Return the objective of a step."""
        return self.charged(step) * self.weight

    def longest(self, value: int) -> int:
        """Return the longest step whose objective is at most a value."""
        return longest_within(value // self.weight, self.slowdown)


@dataclass(frozen=True)
class Best:
    """The best split of a search, where one beats what was known.

    ``proved`` says that nothing better is left out; ``bound`` bounds the objective of everything
    that was looked at.
    """

    split: Split | None
    value: int
    bound: int
    proved: bool


def best_of(
    candidates: Sequence[Candidate], below: int, settings: SolverSettings, clock: Clock,
    tally: Tally, gap: float = 0.0,
) -> Best:  # fmt: skip
    """Split candidates in the order of their bounds until none can be under ``below``.

    It also ends where all that is left is within ``gap`` of ``below``.
    """
    best: Split | None = None
    proved, open_bound = True, below
    for candidate in sorted(candidates, key=lambda c: c.least):
        if candidate.least >= below:
            break
        if clock.over() or below - min(candidate.least, open_bound) <= gap * below:
            proved, open_bound = False, min(open_bound, candidate.least)
            break
        pipeline = candidate.build()
        if pipeline is None:
            continue
        at_most = min(candidate.longest(below - 1), longest(pipeline))
        attempt = best_split(pipeline, at_most, timed(settings, clock))
        clock.watch(candidate.least, below)
        tally.open((*pipeline.shape.row(0).values(), *_blocks(pipeline)))
        tally.models += attempt.solved
        tally.closed += attempt.solved and attempt.proved
        if not attempt.proved:
            proved = False
            open_bound = min(open_bound, candidate.value(max(attempt.bound, candidate.bound)))
        if attempt.split is not None:
            best = attempt.split
            below = candidate.value(best.totals.step)
    return Best(best, below, min(open_bound, below), proved)


def _blocks(pipeline: Pipeline) -> tuple[object, ...]:
    """Return what tells pipelines of one shape over several node groups apart."""
    blocks = pipeline.blocks()
    return () if len(blocks) == 1 else tuple((i.group, len(stages)) for i, stages in blocks)


def longest(pipeline: Pipeline) -> int:
    """Return the longest step that deadline and budget leave."""
    first = pipeline.instances[0]
    longest = first.longest_step if first.holds("deadline") else LONGEST_STEP
    if len(pipeline.blocks()) == 1:
        held = int(pipeline.shape.held[0])
        if first.holds("budget"):
            longest = min(longest, first.most_gpu_ticks // held)
        return first.uncharged(longest, held)
    if first.holds("budget"):
        longest = min(longest, pipeline.ticks_of_budget)
    return longest_within(longest, pipeline.slowdown)


def timed(settings: SolverSettings, clock: Clock) -> SolverSettings:
    """Return the settings with what is left of the time."""
    left = clock.left()
    if left is None:
        return settings
    return SolverSettings(settings.seed, settings.workers, max(left, 1e-3))


def candidates_of(instance: Instance, shapes: Shapes, below: int) -> Iterator[Candidate]:
    """Yield every shape whose least objective is under ``below``."""
    cost = instance.cost
    if not isinstance(cost, Calibrated):
        raise TypeError("only the calibrated account spreads layers freely")
    for start in range(0, len(shapes), BLOCK):
        part = shapes.take(slice(start, start + BLOCK))
        step, memory = cost.bounds(part, balanced=True)
        weight = part.held if instance.goal == "cost" else np.ones_like(part.held)
        charged, slowdown = instance.charged(step, part.held), instance.slowdown(part.held)
        able = (charged * weight < below) & (charged <= LONGEST_STEP)
        able &= part.pp <= MOST_STAGES
        if instance.holds("memory"):
            able &= memory <= cost.capacity_mib
        rows = np.flatnonzero(able)
        for row in rows:
            shape = part.take(np.array([row]))
            build = partial(_pipeline, instance, shape)
            yield Candidate(
                int(step[row]), int(weight[row]), int(shape.gpus[0]), build, int(slowdown[row])
            )


def _pipeline(instance: Instance, shape: Shapes) -> Pipeline:
    columns = valid_columns(instance, shape)
    return Pipeline((instance,) * int(shape.pp[0]), shape, columns)


def valid_columns(instance: Instance, shape: Shapes) -> Shardings:
    """Return the shardings of a single shape."""
    every = shardings(shape, instance.group, instance.search)
    some = np.flatnonzero(every.valid[0])
    return Shardings(every.zero[:, some], every.replicas[:, some], every.valid[:, some])
