"""Layers and recomputed layers chosen stage by stage, for one layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..cost.itemise import Totals
from ..cost.stage_options import Position, StageOptions, stage_options
from ..cost.ticks import IntArray, whole_ticks
from ..plan import axes
from .cpsat.factory import SolverSettings
from .cpsat.stagewise import StagewiseTask, solve_stages
from .fill import narrowed
from .pipelines import Pipeline
from .windows import near, thinned, windows


@dataclass(frozen=True)
class Split:
    """A pipeline with every stage chosen.

    Attributes
    ----------
    pipeline, options, choice
        The layout, the alternatives of each stage, and which was taken.
    totals
        Step, communication and compute in integers.
    memory
        MiB of the worst GPU.
    """

    pipeline: Pipeline
    options: tuple[StageOptions, ...] = field(repr=False)
    choice: tuple[int, ...]
    totals: Totals
    memory: int

    @property
    def sharding(self) -> tuple[int, int]:
        """ZeRO stage and HSDP replica groups."""
        columns, taken = self.pipeline.columns, self.options[0].column
        return int(columns.zero[0, taken]), int(columns.replicas[0, taken])

    @property
    def axes(self) -> int:
        """Parallel axes, HSDP included."""
        s = self.pipeline.shape.row(0)
        return axes(s["tp"], s["pp"], s["cp"], s["ep"], s["etp"], s["dp"], self.sharding[1])

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers of each stage."""
        return tuple(int(o.layers[c]) for o, c in zip(self.options, self.choice, strict=True))

    @property
    def recomputed(self) -> tuple[int, ...]:
        """Layers of each stage that are recomputed in full."""
        return tuple(int(o.recomputed[c]) for o, c in zip(self.options, self.choice, strict=True))

    @property
    def kind(self) -> int:
        """Recomputation of the other layers."""
        return int(self.options[0].kind[self.choice[0]])


@dataclass(frozen=True)
class Attempt:
    """What came of splitting one layout: the best split under a step, and what is proved.

    ``solved`` says whether CP-SAT had to be asked.
    """

    split: Split | None
    proved: bool
    bound: int
    solved: bool = False


def best_split(pipeline: Pipeline, at_most: int, settings: SolverSettings) -> Attempt:
    """Find the split of least step, at most ``at_most`` ticks, or prove that there is none.

    A nearly even split is looked for first: it narrows what the proof has to look at.
    """
    layers = windows(pipeline, at_most)
    if layers is None:
        return Attempt(None, proved=True, bound=at_most + 1)
    few = near(layers, pipeline.instances[0].job.transformer.layers)
    first = Attempt(None, proved=True, bound=at_most + 1)
    if few != layers and all(few):
        first = _best_of_windows(pipeline, few, at_most, settings)
        if first.split is not None:
            at_most = first.split.totals.step - 1
            layers = windows(pipeline, at_most)
            if layers is None:
                return Attempt(first.split, proved=True, bound=at_most + 1, solved=True)
    found = _best_of_windows(pipeline, layers, at_most, settings)
    solved = first.solved or found.solved
    return Attempt(found.split or first.split, found.proved, found.bound, solved)


def _best_of_windows(
    pipeline: Pipeline, layers: Sequence[tuple[int, ...]], at_most: int, settings: SolverSettings
) -> Attempt:
    """Find the best split whose stages hold layers of these windows."""
    ordered = []
    for column, priced in enumerate(options_of(pipeline, layers)):
        options = tuple(thinned(pipeline, priced, at_most))
        if all(len(o) for o in options):
            few = narrowed(options, pipeline.instances[0].job.transformer.layers, at_most)
            kept = (o.take(able) for o, able in zip(options, few.able, strict=True))
            ordered.append((few.bound, column, tuple(kept)))
    best, proved, open_bound, solved = None, True, at_most + 1, False
    for bound, _, options in sorted(ordered, key=lambda entry: entry[:2]):
        if bound > at_most:
            break
        answer = solve_stages(_task(pipeline, options, bound, at_most), settings)
        solved = True
        if answer.status not in ("optimal", "infeasible"):
            proved, open_bound = False, min(open_bound, max(answer.bound, bound))
        if answer.choice is not None:
            best = evaluate_split(pipeline, options, answer.choice)
            if answer.status == "optimal" and best.totals.step != answer.step:
                raise RuntimeError(f"CP-SAT says {answer.step}, the estimator {best.totals.step}")
            at_most = best.totals.step - 1
    return Attempt(best, proved, min(open_bound, at_most + 1), solved)


def _task(
    pipeline: Pipeline, options: tuple[StageOptions, ...], at_least: int, at_most: int
) -> StagewiseTask:
    first, instances = pipeline.instances[0], pipeline.instances
    capacity = [i.cost.capacity_mib for i in instances] if first.holds("memory") else None
    allowance = [first.allowance(o.compute) for o in options]
    return StagewiseTask(
        options=options,
        layers=first.job.transformer.layers,
        at_least=at_least,
        at_most=at_most,
        capacity=capacity,
        allowance=allowance if first.holds("communication") else None,
    )


def options_of(pipeline: Pipeline, layers: Sequence[tuple[int, ...]]) -> list[list[StageOptions]]:
    """Price every alternative of every stage, for each sharding."""
    found: list[list[StageOptions]] = [[] for _ in range(pipeline.columns.zero.shape[1])]
    waits = np.array(pipeline.waits or (0.0,) * pipeline.stages)
    for _, block in pipeline.blocks():
        positions = [Position(stage, pipeline.stages, layers[stage]) for stage in block]
        priced = stage_options(
            pipeline.model(block[0]), pipeline.shape, pipeline.columns, positions, waits[block]
        )
        for column, options in enumerate(priced):
            found[column] += options
    return found


def evaluate_split(
    pipeline: Pipeline, options: tuple[StageOptions, ...], choice: tuple[int, ...]
) -> Split:
    """Return the exact figures of a complete choice."""

    def chosen(name: str) -> IntArray:
        pairs = zip(options, choice, strict=True)
        return np.array([getattr(o, name)[c] for o, c in pairs], np.int64)

    grains = chosen("pace").max() + chosen("share").sum() + chosen("tail").max()
    compute, sent = chosen("compute"), chosen("sent")
    most = int(compute.max())
    totals = Totals(int(whole_ticks(grains)), int(sent[compute == most].max()), most)
    return Split(pipeline, options, choice, totals, int(chosen("memory").max()))
