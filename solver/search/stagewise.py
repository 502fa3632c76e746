"""Layers and recomputed layers chosen stage by stage, for one layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..cost.calibrated import Calibrated
from ..cost.itemise import Totals
from ..cost.memory.peak import least_bytes
from ..cost.schedule import pipeline_grains
from ..cost.shapes import Shapes, Shardings
from ..cost.stage_options import Position, StageOptions, stage_options
from ..cost.stages import (
    CLASSES,
    FIRST,
    HEAVY,
    LAST,
    Stages,
    dense_layers,
    layers_by_rule,
)
from ..cost.ticks import GRAINS, TICK_S, BoolArray, IntArray, mebibytes, whole_ticks
from ..plan import axes
from .cpsat.factory import SolverSettings
from .cpsat.stagewise import StagewiseTask, solve_stages
from .instance import LONGEST_STEP, SECONDS_PER_HOUR, Instance

FEW = 2
"""Layers more or less than evenly that a stage holds in a first try."""
MOST_STAGES = 128
"""Longest pipeline whose stages are chosen one by one."""


@dataclass(frozen=True)
class Pipeline:
    """A layout whose stages are to be chosen.

    Attributes
    ----------
    instances
        Problem of the node group that holds each stage; all alike but for group and cost model.
    shape, columns
        Degrees, and the shardings that are looked at; arrays of one row. ``gpus`` and ``held``
        count all groups.
    waits
        Seconds that each stage waits for a neighbour of another group.
    """

    instances: tuple[Instance, ...]
    shape: Shapes
    columns: Shardings
    waits: tuple[float, ...] = ()

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return len(self.instances)

    def model(self, stage: int) -> Calibrated:
        """Return the cost model of a stage's GPUs."""
        cost = self.instances[stage].cost
        if not isinstance(cost, Calibrated):
            raise TypeError("only the calibrated account chooses stages one by one")
        return cost

    @property
    def held(self) -> tuple[int, ...]:
        """GPUs paid for in each block: whole nodes."""
        each = int(self.shape.gpus[0]) // self.stages
        nodes = [
            (-(-len(block) * each // i.group.gpus_per_node), i.group.gpus_per_node)
            for i, block in self.blocks()
        ]
        return tuple(count * size for count, size in nodes)

    @property
    def ticks_of_budget(self) -> int:
        """Ticks of a step that the budget leaves, at the prices of all blocks."""
        first = self.instances[0]
        steps, budget = first.job.steps, first.limits.budget_usd
        prices = [i.group.price_usd_per_gpu_hour or 0.0 for i, _ in self.blocks()]
        rate = sum(gpus * price for gpus, price in zip(self.held, prices, strict=True))
        if budget is None or not steps or not rate:
            return LONGEST_STEP
        return min(int(budget / rate * SECONDS_PER_HOUR / (steps * TICK_S)), LONGEST_STEP)

    def blocks(self) -> list[tuple[Instance, list[int]]]:
        """Return runs of stages on one node group."""
        found: list[tuple[Instance, list[int]]] = []
        for stage, instance in enumerate(self.instances):
            if found and found[-1][0] is instance:
                found[-1][1].append(stage)
            else:
                found.append((instance, [stage]))
        return found


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
    layers = _windows(pipeline, at_most)
    if layers is None:
        return Attempt(None, proved=True, bound=at_most + 1)
    near = _near(layers, pipeline.instances[0].job.transformer.layers)
    first = Attempt(None, proved=True, bound=at_most + 1)
    if near != layers and all(near):
        first = _best_of_windows(pipeline, near, at_most, settings)
        if first.split is not None:
            at_most = first.split.totals.step - 1
            layers = _windows(pipeline, at_most)
            if layers is None:
                return Attempt(first.split, proved=True, bound=at_most + 1, solved=True)
    found = _best_of_windows(pipeline, layers, at_most, settings)
    solved = first.solved or found.solved
    return Attempt(found.split or first.split, found.proved, found.bound, solved)


def _near(layers: Sequence[tuple[int, ...]], total: int) -> list[tuple[int, ...]]:
    """Narrow each window to a few layers around its share of all, by the most that it may hold."""
    most = sum(window[-1] for window in layers)
    return [
        tuple(n for n in window if abs(n - window[-1] * total / most) <= FEW) for window in layers
    ]


def _best_of_windows(
    pipeline: Pipeline, layers: Sequence[tuple[int, ...]], at_most: int, settings: SolverSettings
) -> Attempt:
    """Find the best split whose stages hold layers of these windows."""
    ordered = []
    for column, priced in enumerate(options_of(pipeline, layers)):
        options = tuple(thinned(pipeline, priced, at_most))
        if all(len(o) for o in options):
            bound = relaxed(options, pipeline.instances[0].job.transformer.layers)
            ordered.append((bound, column, options))
    best, proved, open_bound, solved = None, True, at_most + 1, False
    for bound, _, options in sorted(ordered, key=lambda entry: entry[:2]):
        if bound > at_most:
            break
        answer = solve_stages(_task(pipeline, options, at_most), settings)
        solved = True
        if answer.status not in ("optimal", "infeasible"):
            proved, open_bound = False, min(open_bound, max(answer.bound, bound))
        if answer.choice is not None:
            best = evaluate_split(pipeline, options, answer.choice)
            if answer.status == "optimal" and best.totals.step != answer.step:
                raise RuntimeError(f"CP-SAT says {answer.step}, the estimator {best.totals.step}")
            at_most = best.totals.step - 1
    return Attempt(best, proved, min(open_bound, at_most + 1), solved)


def _task(pipeline: Pipeline, options: tuple[StageOptions, ...], at_most: int) -> StagewiseTask:
    first, instances = pipeline.instances[0], pipeline.instances
    capacity = [i.cost.capacity_mib for i in instances] if first.holds("memory") else None
    allowance = [first.allowance(o.compute) for o in options]
    return StagewiseTask(
        options=options,
        layers=first.job.transformer.layers,
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


def relaxed(options: Sequence[StageOptions], layers: int) -> int:
    """Bound the ticks of a step from below, over every choice of alternatives.

    The pace is at least the least one under which the stages can hold all layers; the fill at least
    its Lagrangian relaxation with a layer's mean time as price; the tail at least the largest of
    the stages' least.
    """
    paces = np.unique(np.concatenate([o.pace for o in options]))

    def room(pace: int) -> int:
        return sum(int(o.layers[o.pace <= pace].max(initial=-layers)) for o in options)

    low, high = 0, len(paces) - 1
    if room(int(paces[high])) < layers:
        return LONGEST_STEP + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if room(int(paces[middle])) >= layers else (middle + 1, high)
    price = int(np.median(np.concatenate([o.share // o.layers for o in options])))
    fill = sum(int((o.share - price * o.layers).min()) for o in options) + price * layers
    tail = max(int(o.tail.min()) for o in options)
    return -(-(int(paces[low]) + fill + tail) // GRAINS)


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


def even_layers(pipeline: Pipeline) -> tuple[int, ...] | None:
    """Return the layers of an even interleaved split, which stay; None for a plain pipeline."""
    vpp = int(pipeline.shape.vpp[0])
    if vpp == 1:
        return None
    return layers_by_rule(pipeline.instances[0].job.transformer, pipeline.stages, vpp)


def _windows(pipeline: Pipeline, at_most: int) -> list[tuple[int, ...]] | None:
    """Return the layers that each stage may hold in any split of at most ``at_most`` ticks.

    A stage of l layers sets a pace of at least its own, and filling the pipeline takes every
    layer's time at its fastest, wherever it lies. None where no split is possible.
    """
    even = even_layers(pipeline)
    if even is not None:
        return [(count,) for count in even]
    job = pipeline.instances[0].job
    model, most = job.transformer, job.transformer.layers
    counts = np.arange(1, most - pipeline.stages + 2)
    period = model.moe.every if model.moe is not None else 1
    leading = model.moe.first_dense if model.moe is not None else 0
    counts = counts[counts % period == 0]
    bounds = [_Bounds.of(pipeline, block[0], counts) for _, block in pipeline.blocks()]
    fill = min(b.layer for b in bounds) * max(most - leading - period * pipeline.stages, 0)
    fill += min(b.stage for b in bounds) * pipeline.stages
    able: list[IntArray] = []
    for (instance, block), bound in zip(pipeline.blocks(), bounds, strict=True):
        for stage in block:
            kind = Position(stage, pipeline.stages, ()).stage
            keep = bound.pace[:, kind] + fill <= at_most * GRAINS
            if instance.holds("memory"):
                keep &= bound.memory[:, kind] <= instance.cost.capacity_mib
            if stage == 0:
                keep &= counts >= min(leading, most)
            able.append(counts[keep])
    if not all(len(a) for a in able):
        return None
    top = sum(int(a[-1]) for a in able)
    if top < most:
        return None
    return [tuple(int(n) for n in a if n >= most - (top - a[-1])) for a in able]


@dataclass(frozen=True)
class _Bounds:
    """What a stage takes at least, by its layers; arrays (counts, 4).

    Attributes
    ----------
    pace, memory
        Grains of the step where it is the slowest, and MiB. A middle stage counts as the last but
        one in what it holds.
    layer, stage
        Grains that a layer, and a middle stage of the fewest layers, add to the fill.
    """

    pace: IntArray
    memory: IntArray
    layer: int
    stage: int

    @staticmethod
    def of(pipeline: Pipeline, stage: int, counts: IntArray) -> _Bounds:
        model = pipeline.model(stage)
        layers = np.repeat(counts[:, None], CLASSES, 1)
        dense = dense_layers(model.job.transformer, layers)
        one, alone = np.ones_like(layers), pipeline.stages == 1
        which = np.broadcast_to(np.arange(CLASSES), layers.shape)
        stages = Stages(
            dense, layers - dense, one, (pipeline.stages - 1) * (which != FIRST),
            which == FIRST, which == (FIRST if alone else LAST), 0 * one,
        )  # fmt: skip
        shapes = pipeline.shape.take(np.zeros(len(counts), np.int64))
        base = model.stage_times(shapes, stages, model.kinds[:1]).base[..., 0]
        entry = (slice(None), None)
        pace, share = pipeline_grains(
            base, one, model.fill(shapes)[entry], shapes.microbatches[entry]
        )
        need = mebibytes(least_bytes(model.job, model.profile, shapes, stages, model.kinds))
        several = len(counts) > 1
        step = (
            int(share[1, HEAVY] - share[0, HEAVY]) // int(counts[1] - counts[0]) if several else 0
        )
        return _Bounds(pace, need, max(step - 1, 0), int(share[0, HEAVY]) - 1)


def thinned(
    pipeline: Pipeline, options: Sequence[StageOptions], at_most: int
) -> list[StageOptions]:
    """Leave out alternatives that no best split has.

    Too slow or too large for the limits; or another one of as many layers and the same kind is no
    worse in anything and recomputes no more.
    """
    kept = []
    for instance, found in zip(pipeline.instances, options, strict=True):
        able = found.pace + found.share + found.tail <= at_most * GRAINS
        if instance.holds("memory"):
            able &= found.memory <= instance.cost.capacity_mib
        some = found.take(able)
        kept.append(some.take(~_dominated(some)))
    return kept


def _dominated(options: StageOptions) -> BoolArray:
    """Mark alternatives that one with a layer less recomputed makes needless.

    What recomputing one layer more does not lower, recomputing several more does not either.
    """
    order = np.lexsort((options.recomputed, options.kind, options.layers))
    worse = np.ones(max(len(order) - 1, 0), bool)
    for name in ("pace", "share", "tail", "sent"):
        values = getattr(options, name)[order]
        worse &= values[:-1] <= values[1:]
    for name in ("layers", "kind"):
        values = getattr(options, name)[order]
        worse &= values[:-1] == values[1:]
    marked = np.zeros(len(options), bool)
    marked[order[1:][worse]] = True
    return marked
