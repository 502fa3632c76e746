"""Layouts over node groups of different kinds: contiguous blocks of stages, each on one group.

A stage lies on one kind of node, so that tensor, context, expert and data parallelism never wait
for a slower GPU; stages of one group follow each other, and groups come in any order. Within these
rules every layout is looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from topology.placement import MEGATRON_ORDER, ORDERS

from ..axes import context, data, expert, tensor
from ..cost.calibrated import Calibrated
from ..cost.communication import crossing_seconds, neighbour_seconds
from ..cost.goodput import PARTS
from ..cost.shapes import Shapes, Shardings
from ..cost.stages import CLASSES, FIRST, HEAVY, LAST, Stages
from ..cost.ticks import TICK_S, FloatArray, IntArray
from ..degrees import BoolArray, divisors
from .instance import LONGEST_STEP, Instance
from .pipelines import MOST_STAGES, Pipeline
from .ranking import USD_UNITS
from .space import chosen, micro_batches
from .uneven import Candidate, valid_columns

MOST_GROUPS = 3
"""Kinds of nodes that one pipeline runs over."""

ROUNDING = 1e-9
"""Relative error of the floats that bounds are made of."""


@dataclass(frozen=True)
class _Cores:
    """Degrees inside a stage, arrays (N,), and per group what layers and stages take, (G, N)."""

    shapes: Shapes
    gpus: IntArray
    layer_s: FloatArray
    stage_s: FloatArray
    able: BoolArray


def mixed_candidates(instances: Sequence[Instance], below: int) -> Iterator[Candidate]:
    """Yield every layout over two or more groups whose least objective is under ``below``.

    Pipelines across groups are plain ones in the usual order of axes.
    """
    search = instances[0].search
    if not len(chosen(search, "vpp", (1,))) or MEGATRON_ORDER not in (search.order or ORDERS):
        return
    cores = _cores(instances)
    numbers = range(len(instances))
    for count in range(2, min(len(instances), MOST_GROUPS) + 1):
        for groups in itertools.permutations(numbers, count):
            yield from _of_groups(instances, cores, groups, below)


def weight_of(instances: Sequence[Instance], held: Sequence[int]) -> int:
    """Return what a tick adds to the objective: 1, or millionths of USD an hour."""
    if instances[0].goal == "time":
        return 1
    return sum(
        gpus * round((i.group.price_usd_per_gpu_hour or 0.0) * USD_UNITS)
        for i, gpus in zip(instances, held, strict=True)
    )


def _cores(instances: Sequence[Instance]) -> _Cores:
    """Combine the degrees inside a stage that any group can hold, and time layers on each."""
    job, search = instances[0].job, instances[0].search
    model, most = job.transformer, max(i.group.gpus for i in instances)
    tp = chosen(search, "tp", tuple(d for d in tensor.degrees(model) if d <= most))
    cp = chosen(search, "cp", context.degrees(job.seq_len, most))
    dp = chosen(search, "dp", tuple(d for d in divisors(job.global_batch) if d <= most))
    micro = chosen(search, "micro_batch", search.micro_batch or micro_batches(job))
    ep = chosen(search, "ep", expert.degrees(model))
    grid = np.meshgrid(tp, cp, dp, micro, ep, np.arange(2), indexing="ij")
    names = ("tp", "cp", "dp", "micro_batch", "ep", "etp")
    flat = dict(zip(names, (g.ravel() for g in grid), strict=True))
    gpus = flat["tp"] * flat["cp"] * flat["dp"]
    slices = [*expert.slices(model, flat["tp"]), np.zeros_like(gpus)]
    flat["etp"] = np.where(flat["etp"] == 0, slices[0], slices[1])
    keep = (gpus <= most) & (flat["etp"] > 0) & search.allows("etp", flat["etp"])
    keep &= gpus % np.maximum(flat["ep"] * flat["etp"], 1) == 0
    keep &= job.seq_len % (flat["tp"] * flat["cp"]) == 0
    keep &= job.global_batch % (flat["dp"] * flat["micro_batch"]) == 0
    if search.cp_comm == "all_to_all":
        keep &= context.splits_heads(model, flat["tp"], flat["cp"])
    keep &= bool(data.stages(search))
    flat = {name: values[keep] for name, values in flat.items()}
    gpus, one = gpus[keep], np.ones(int(keep.sum()), np.int64)
    microbatches = job.global_batch // np.maximum(flat["dp"] * flat["micro_batch"], 1)
    shapes = Shapes(
        gpus=2 * gpus, held=2 * gpus, pp=2 * one, vpp=one, order=0 * one,
        microbatches=microbatches, **flat,
    )  # fmt: skip
    able = np.stack([_holds(i, shapes, gpus) for i in instances])
    some = able.any(axis=0) & search.keeps("microbatches", microbatches)
    shapes, gpus, able = shapes.take(some), gpus[some], able[:, some]
    timed = [_times(i, shapes) for i in instances]
    return _Cores(shapes, gpus, np.stack([t[0] for t in timed]), np.stack([t[1] for t in timed]),
                  able)  # fmt: skip


def _holds(instance: Instance, shapes: Shapes, gpus: IntArray) -> BoolArray:
    """Whether a group can hold a stage: whole nodes or an even part of one, TP inside a domain."""
    node = instance.group.gpus_per_node
    fits = (gpus % node == 0) | ((gpus < node) & (node % np.minimum(gpus, node) == 0))
    if instance.holds("tp_within_node"):
        fits &= instance.tp_domains(shapes.tp) == 1
    return np.asarray(fits & (gpus <= instance.group.gpus))


def _times(instance: Instance, shapes: Shapes) -> tuple[FloatArray, FloatArray]:
    """Return seconds that a layer and a stage without layers take at least, slowdown left out."""
    model = calibrated(instance)
    transformer = model.job.transformer
    period = transformer.moe.every if transformer.moe is not None else 1
    seconds = [_middle(model, shapes, times * period) for times in (1, 2)]
    mixture = (seconds[1] - seconds[0]) / period
    layer = mixture
    if transformer.moe is not None and transformer.moe.first_dense:
        dense = [_middle(model, shapes, times, dense=True) for times in (1, 2)]
        layer = np.minimum(mixture, dense[1] - dense[0])
    empty = np.maximum(seconds[0] - period * mixture, 0.0)
    slow = model.slowdown(shapes)
    return layer / slow, empty / slow


def _middle(model: Calibrated, shapes: Shapes, layers: int, dense: bool = False) -> FloatArray:
    """Time one micro-batch on a middle stage of so many layers, seconds (N,)."""
    full = (len(shapes), CLASSES)
    moe = model.job.transformer.moe
    which = np.broadcast_to(np.arange(CLASSES), full)
    held = np.full(full, layers)
    plain = held if moe is None or dense else held - held // moe.every
    stages = Stages(
        plain, held - plain, np.ones(full, np.int64), 1 * (which != FIRST),
        which == FIRST, which == LAST, np.zeros(full, np.int64),
    )  # fmt: skip
    return np.asarray(model.stage_times(shapes, stages, model.kinds[:1]).base[:, HEAVY, 0])


def calibrated(instance: Instance) -> Calibrated:
    """Return the cost model of an instance, which is the calibrated one."""
    if not isinstance(instance.cost, Calibrated):
        raise TypeError("only the calibrated account plans mixed clusters")
    return instance.cost


def _of_groups(
    instances: Sequence[Instance], cores: _Cores, groups: tuple[int, ...], below: int
) -> Iterator[Candidate]:
    """Yield the layouts whose blocks lie on these groups, in this order."""
    taken = [instances[g] for g in groups]
    for row in np.flatnonzero(cores.able[list(groups)].all(axis=0)):
        counts = _counts(taken, cores, int(row))
        if not len(counts):
            continue
        bound = _bounds(taken, cores, int(row), list(groups), counts)
        some = bound <= LONGEST_STEP
        for stages, ticks in zip(counts[some], bound[some], strict=True):
            each = int(cores.gpus[row])
            held = _held(taken, each, stages)
            build = partial(_pipeline, taken, cores, int(row), stages)
            one = Candidate(
                int(ticks), weight_of(taken, held), each * int(stages.sum()), build,
                _slowdown(taken, held),
            )  # fmt: skip
            if one.least < below and one.ends:
                yield one


def _slowdown(taken: Sequence[Instance], held: Sequence[int]) -> int:
    """Return wall-clock over training time on the nodes of all blocks, in parts a million."""
    goodput = taken[0].goodput
    if goodput is None:
        return PARTS
    nodes = sum(n // i.group.gpus_per_node for i, n in zip(taken, held, strict=True))
    return int(goodput.slowdown(np.array(nodes)))


def _counts(taken: Sequence[Instance], cores: _Cores, row: int) -> IntArray:
    """Return every number of stages of each block that the limits on stages allow, (C, G).

    A block fills whole nodes, or an even part of one.
    """
    first, each = taken[0], int(cores.gpus[row])
    most = min(first.job.transformer.layers, MOST_STAGES)
    if first.holds("max_stages"):
        most = min(most, first.limits.max_stages)
    room = [range(1, min(i.group.gpus // each, most) + 1) for i in taken]
    grid = np.meshgrid(*room, indexing="ij")
    counts = np.stack([g.ravel() for g in grid], axis=1).astype(np.int64)
    pp = counts.sum(axis=1)
    node = np.array([i.group.gpus_per_node for i in taken])
    used = counts * each
    whole = (used % node == 0) | ((used < node) & (node % np.minimum(used, node) == 0))
    keep = (
        whole.all(axis=1)
        & (pp <= most)
        & first.search.keeps("pp", pp)
        & first.search.keeps("gpus", pp * each)
    )
    if first.search.pp is not None:
        keep &= np.isin(pp, first.search.pp)
    if first.search.gpus is not None:
        keep &= pp * each == first.search.gpus
    if first.search.max_gpus is not None:
        keep &= pp * each <= first.search.max_gpus
    if first.holds("bubble"):
        keep &= first.bubble_excess(pp, np.ones_like(pp), cores.shapes.microbatches[row]) <= 0
    return np.asarray(counts[keep])


def _bounds(
    taken: Sequence[Instance], cores: _Cores, row: int, groups: list[int], counts: IntArray
) -> IntArray:
    """Bound the ticks of a step from below for each number of stages, (C,).

    Were layers divisible, all stages would take the same time, and none could take less than that;
    the fill is at least every layer at its fastest.
    """
    layer, empty = cores.layer_s[groups, row], cores.stage_s[groups, row]
    layers = taken[0].job.transformer.layers
    level = (layers + counts @ (empty / layer)) / (counts @ (1 / layer))
    fill = layers * layer.min() + counts @ empty
    shapes = cores.shapes.take(np.full(len(counts), row))
    shapes = replace(shapes, gpus=counts.sum(axis=1) * int(cores.gpus[row]))
    slow = np.min([calibrated(i).slowdown(shapes) for i in taken], axis=0)
    seconds = slow * ((int(cores.shapes.microbatches[row]) - 1) * level + fill)
    overhead = np.min([calibrated(i).step_overhead(shapes) for i in taken], axis=0)
    ticks = (1 - ROUNDING) * (seconds + overhead) / TICK_S
    return np.asarray(np.minimum(np.floor(ticks), 2 * LONGEST_STEP), dtype=np.int64)


def _held(taken: Sequence[Instance], each: int, stages: IntArray) -> list[int]:
    """Return the GPUs paid for in each block."""
    nodes = [i.group.gpus_per_node for i in taken]
    return [-(-int(n) * each // size) * size for n, size in zip(stages, nodes, strict=True)]


def _pipeline(
    taken: Sequence[Instance], cores: _Cores, row: int, counts: IntArray
) -> Pipeline | None:
    each, pp = int(cores.gpus[row]), int(counts.sum())
    held = sum(_held(taken, each, counts))
    degrees = {**cores.shapes.row(row), "pp": pp, "gpus": each * pp, "held": held}
    return pipeline_across(taken, counts.tolist(), Shapes.of(**degrees))


def pipeline_across(
    taken: Sequence[Instance], counts: Sequence[int], shape: Shapes
) -> Pipeline | None:
    """Lay a shape's stages out, so many on each group; None where no sharding suits all."""
    columns = _common_columns(taken, shape)
    if columns is None:
        return None
    stages = tuple(i for i, n in zip(taken, counts, strict=True) for _ in range(n))
    return Pipeline(stages, shape, columns, _waits(taken, counts, shape))


def _common_columns(taken: Sequence[Instance], shape: Shapes) -> Shardings | None:
    """Return the shardings that are possible on every group."""
    each = [valid_columns(i, shape) for i in taken]
    pairs = [set(zip(c.zero[0].tolist(), c.replicas[0].tolist(), strict=True)) for c in each]
    common = sorted(set.intersection(*pairs))
    if not common:
        return None
    zero, replicas = (np.array([column], np.int64) for column in zip(*common, strict=True))
    return Shardings(zero, replicas, np.ones_like(zero, bool))


def _waits(taken: Sequence[Instance], counts: Sequence[int], shape: Shapes) -> tuple[float, ...]:
    """Return what each stage waits beyond its own group's links: at a boundary, the slower side."""
    across = max(float(crossing_seconds(i.job, calibrated(i).machine, shape)[0]) for i in taken)
    waits = []
    ends = np.cumsum(counts)
    edges = {int(end) - 1 for end in ends[:-1]} | {int(end) for end in ends[:-1]}
    for block, (instance, count) in enumerate(zip(taken, counts, strict=True)):
        model = calibrated(instance)
        own = float(neighbour_seconds(model.job, model.machine, shape)[0][0])
        more = max(across - own, 0.0) * float(model.slowdown(shape)[0])
        start = int(ends[block] - count)
        waits += [more if stage in edges else 0.0 for stage in range(start, int(ends[block]))]
    return tuple(waits)
