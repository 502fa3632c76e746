"""The calibrated cost model: coefficients and estimates from profiles of measured runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from topology.cluster import NodeGroup

from ..axes import context, expert, tensor
from ..degrees import distinct
from ..job.job import RECOMPUTE, Job, Limits, Recompute, Search
from ..plan import Estimate
from .communication import neighbour_seconds
from .data_parallel import DataTraffic, Passes, data_traffic
from .layer import LayerTimes, Part, layer_times
from .machine import Machine
from .memory import least_bytes, memory_items
from .parameters import Held, held
from .profile import Profile
from .schedule import FILL_DIVISOR, pipeline_grains, step_ticks
from .shapes import Shapes, Shardings
from .shard_columns import shardings
from .stages import Stages, split
from .tables import Choice, Seconds, Tables, round_up
from .ticks import FloatArray, IntArray, capacity_mebibytes, grains, mebibytes

ONE_NODE = 8
"""GPUs from which the slowdown of scale counts."""

AXES = {"tp": tensor.BACKWARD, "cp": context.BACKWARD, "ep": expert.BACKWARD}
"""Axes with traffic in every layer, and their backward volume over forward."""
REDUCED = {**AXES, "tp": tensor.BACKWARD_REDUCED}
"""The same without sequence parallelism."""


@dataclass(frozen=True)
class StageTimes:
    """Seconds of one micro-batch on a stage, (N, 4) or (N, 4, K); all with the scale's slowdown.

    Attributes
    ----------
    forward, backward
        Compute without recomputation.
    recompute
        Compute that recomputation adds to backward.
    exposed, total
        Communication by axis, forward and backward and recomputation.
    """

    forward: FloatArray
    backward: FloatArray
    recompute: FloatArray
    exposed: dict[str, FloatArray]
    total: dict[str, FloatArray]

    @property
    def base(self) -> FloatArray:
        """Everything but data-parallel traffic, (N, 4, K)."""
        layer = (self.forward + self.backward)[..., None] + self.recompute
        return np.asarray(layer + sum(self.exposed.values()))


class Calibrated:
    """Cost model of a job on a node group; see ``tables.CostModel``."""

    def __init__(
        self, job: Job, group: NodeGroup, limits: Limits, search: Search, profile: Profile
    ) -> None:
        self.job, self.group, self.limits, self.search = job, group, limits, search
        self.profile = profile
        self.machine = Machine(group, profile)
        self.kinds: tuple[Recompute, ...] = tuple(k for k in RECOMPUTE if k in search.recompute)
        self.usable_bytes = float(group.gpu.usable_bytes)

    def on(self, group: NodeGroup) -> Calibrated:
        """Return the same account on another node group."""
        return Calibrated(self.job, group, self.limits, self.search, self.profile)

    @cached_property
    def capacity_mib(self) -> int:
        """Memory that a plan may use at most, MiB."""
        return capacity_mebibytes(self.usable_bytes * (1 - self.limits.mem_headroom))

    # -- parts ---------------------------------------------------------------------------------

    def _layers(self, shapes: Shapes) -> tuple[LayerTimes, IntArray]:
        """Layer times of the distinct cores, and which core each shape has."""
        first, core = distinct(shapes.tp, shapes.cp, shapes.ep, shapes.etp, shapes.micro_batch)
        return layer_times(self.job, self.machine, shapes.take(first)), core

    def slowdown(self, shapes: Shapes) -> FloatArray:
        """Factor on every time: the release, and a loss that grows with the GPUs; shape (N,)."""
        doublings = np.log2(np.maximum(shapes.gpus / ONE_NODE, 1.0))
        return np.asarray(self.profile.release * (1 + self.profile.stack.scale_loss * doublings))

    def stage_times(
        self, shapes: Shapes, stages: Stages, kinds: tuple[Recompute, ...]
    ) -> StageTimes:
        """Time one micro-batch on a stage of each class."""
        layers, core = self._layers(shapes)
        weight = {
            "dense": stages.dense_layers.astype(np.float64),
            "moe": stages.moe_layers.astype(np.float64),
            "embedding": stages.has_embedding.astype(np.float64),
            "head": stages.has_head.astype(np.float64),
        }
        slow = self.slowdown(shapes)[:, None]
        parts: dict[str, Part] = {name: getattr(layers, name) for name in weight}

        def summed(pick: str, which: int | None = None) -> FloatArray:
            total = np.zeros_like(slow)
            for name, part in parts.items():
                value = getattr(part, pick)
                total = (
                    total + weight[name] * (value if which is None else value[which])[core, None]
                )
            return np.asarray(total * slow)

        forward, backward = summed("forward"), summed("backward")
        repeated = forward - weight["head"] * layers.head.forward[core, None] * slow
        added = {"none": 0.0 * repeated, "selective": summed("attention"), "full": repeated}
        recompute = np.stack([added[kind] for kind in kinds], axis=-1)
        repeats = np.array([float(kind == "full") for kind in kinds])
        axes = AXES if self.profile.software.sequence_parallel else REDUCED
        exposed, total = (
            {
                axis: summed(axis, which)[..., None] * (1 + ratio + repeats)
                for axis, ratio in axes.items()
            }
            for which in (0, 1)
        )
        sent = neighbour_seconds(self.job, self.machine, shapes)
        for side, value in zip((exposed, total), sent, strict=True):
            side["pp"] = (value[:, None] * slow * stages.pipelined)[..., None] + 0.0 * repeats
        micro = self.profile.stack.microbatch_overhead_s * slow
        accumulate = self.profile.stack.accumulate_bytes / self.machine.hbm_bytes_per_s
        if np.any(accumulate > 0):
            whole = held(self.job.transformer, shapes, stages)
            micro = micro + accumulate * (whole.dense + whole.expert)
        return StageTimes(forward, backward + micro, recompute, exposed, total)

    def _update(self, parameters: Held, shapes: Shapes, columns: Shardings) -> FloatArray:
        """Seconds of the optimizer step, (N, 4, Z)."""
        stack = self.profile.stack
        dense = ((shapes.dp * shapes.cp)[:, None] / columns.replicas)[:, None, :]
        ranks = shapes.tp * shapes.cp * shapes.dp / (shapes.ep * shapes.etp)
        experts = np.maximum(ranks[:, None] / columns.replicas, 1.0)[:, None, :]
        sharded = columns.zero[:, None, :] > 0
        owned = parameters.dense[:, :, None] / np.where(sharded, dense, 1.0)
        owned = owned + parameters.expert[:, :, None] / np.where(sharded, experts, 1.0)
        whole = (parameters.dense + parameters.expert)[:, :, None]
        moved = stack.optimizer_bytes * owned + stack.parameter_update_bytes * whole
        seconds = moved / self.machine.hbm_bytes_per_s
        if self.profile.software.offloaded_optimizer:
            seconds = seconds + stack.offloaded_parameter_s * owned
        return np.asarray(seconds * self.slowdown(shapes)[:, None, None])

    def _fill(self, shapes: Shapes) -> IntArray:
        """Return what divides the pipeline's fill: virtual stages, or the schedule's divisor."""
        divisor = FILL_DIVISOR[self.profile.software.schedule]
        return np.where(divisor > 1, divisor, shapes.vpp)

    def step_overhead(self, shapes: Shapes) -> FloatArray:
        """Seconds of a step that depend on nothing but the scale, shape (N,)."""
        return self.profile.stack.step_overhead_s * self.slowdown(shapes)

    # -- the faces of a cost model ---------------------------------------------------------------

    def bounds(self, shapes: Shapes) -> tuple[IntArray, IntArray]:
        """Bound step and memory from below: no data-parallel traffic, best sharding, least kind.

        Every term left out is at least zero, every term kept is at its least over the choices, and
        rounding is upwards on both sides, so the bound is admissible.
        """
        stages = split(self.job.transformer, shapes.pp, shapes.vpp)
        # The kinds are in order of time: the first repeats least.
        base = self.stage_times(shapes, stages, self.kinds[:1]).base[..., 0]
        column = (slice(None), None)
        pace, share = pipeline_grains(
            base, stages.count, self._fill(shapes)[column], shapes.microbatches[column]
        )
        least = np.ones((len(shapes), 1), np.int64)
        spread = Shardings(3 * least, least, least.astype(bool))
        parameters = held(self.job.transformer, shapes, stages)
        tail = self._update(parameters, shapes, spread)[..., 0]
        tail = tail + self.step_overhead(shapes)[:, None]
        step = step_ticks(pace, share, grains(np.where(stages.count > 0, tail, 0.0)))
        need = least_bytes(self.job, self.profile, shapes, stages, self.kinds)
        return step, mebibytes(np.where(stages.count > 0, need, 0).max(axis=-1))

    def _priced(
        self, shapes: Shapes, stages: Stages, columns: Shardings
    ) -> tuple[StageTimes, DataTraffic, FloatArray]:
        times = self.stage_times(shapes, stages, self.kinds)
        parameters = held(self.job.transformer, shapes, stages)
        passes = Passes(times.forward[..., None], (times.backward[..., None] + times.recompute))
        traffic = data_traffic(self.job, self.machine, shapes, columns, stages, parameters, passes)
        slow = self.slowdown(shapes)[:, None, None, None]
        traffic = DataTraffic(
            *(slow * getattr(traffic, f) for f in DataTraffic.__dataclass_fields__)
        )
        return times, traffic, self._update(parameters, shapes, columns)

    def _paced(
        self, shapes: Shapes, times: StageTimes, traffic: DataTraffic, update: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Seconds of one micro-batch on a stage, and after the drain; (N, 4, K, Z) both."""
        stage = times.base[..., None] + traffic.microbatch_exposed
        tail = traffic.step_exposed + update[:, :, None, :]
        return stage, tail + self.step_overhead(shapes)[:, None, None, None]

    def step_seconds(self, shapes: Shapes, stages: Stages, columns: Shardings) -> FloatArray:
        """Step under the first recomputation and sharding, without memory or rounding; (N,)."""
        stage, tail = self._paced(shapes, *self._priced(shapes, stages, columns))
        used = stages.count > 0
        stage, tail = stage[..., 0, 0], np.where(used, tail[..., 0, 0], 0.0)
        fill = self._fill(shapes)[:, None]
        pace = np.where(used, (shapes.microbatches[:, None] - 1 / fill) * stage, 0.0)
        share = np.where(used, stages.count * stage / fill, 0.0)
        return np.asarray(pace.max(axis=-1) + share.sum(axis=-1) + tail.max(axis=-1))

    def tables(
        self, shapes: Shapes, columns: Shardings | None = None, stages: Stages | None = None
    ) -> Tables:
        """Coefficients of every recomputation and sharding of every shape.

        ``columns`` and ``stages`` replace the shardings looked at and the rule by which layers
        fall on stages.
        """
        if stages is None:
            stages = split(self.job.transformer, shapes.pp, shapes.vpp)
        columns = columns or shardings(shapes, self.group, self.search)
        times, traffic, update = self._priced(shapes, stages, columns)
        stage, tail = self._paced(shapes, times, traffic, update)
        items = memory_items(self.job, self.profile, shapes, stages, columns, self.kinds)
        compute = times.forward + times.backward
        busiest = np.where(stages.count > 0, compute, -1.0).argmax(axis=-1)
        row = np.arange(len(shapes))
        microbatches = shapes.microbatches[:, None, None]
        metric = self.limits.comm_metric
        layer = sum((times.exposed if metric == "exposed" else times.total).values())
        each, once = (
            (traffic.microbatch_exposed, traffic.step_exposed)
            if metric == "exposed"
            else (traffic.microbatch_total, traffic.step_total)
        )
        each, once = (np.broadcast_to(part, stage.shape)[row, busiest] for part in (each, once))
        sent = microbatches * (np.asarray(layer)[row, busiest][..., None] + each) + once
        seconds = Seconds(
            stage, tail, items.total(), sent, shapes.microbatches * compute[row, busiest], busiest
        )
        filled = replace(shapes, vpp=self._fill(shapes))
        tables = round_up(filled, columns, stages, len(self.kinds), seconds)
        return replace(tables, shapes=shapes)

    def estimate(self, tables: Tables, row: int, choice: Choice) -> Estimate:
        """Itemise one complete choice."""
        from .itemise import itemise  # noqa: PLC0415 - it reads this module's types

        single = tables.take(np.array([row]))
        times, traffic, update = self._priced(single.shapes, single.stages, single.shardings)
        items = memory_items(
            self.job, self.profile, single.shapes, single.stages, single.shardings, self.kinds
        )
        return itemise(self, single, choice, times, traffic, update, items)
