"""The calibrated cost model: coefficients and estimates from profiles of measured runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from topology.cluster import NodeGroup

from ..degrees import Distinct
from ..estimate import Estimate
from ..job.job import Job, Limits
from ..job.search import OFFLOADS, RECOMPUTE, Recompute, Search
from .data_parallel import DataTraffic, Passes, data_traffic
from .figures import Figures
from .layer import LayerTimes, layer_times
from .lower_bounds import bounds, floor
from .machine import Machine
from .memory.offload import (
    ACTIVATIONS_MOVE,
    OPTIMIZER_MOVES,
    host_traffic,
    moved_activations,
    update_seconds,
)
from .memory.peak import memory_items
from .memory.states import weights_of
from .parameters import Held
from .profile import Profile
from .schedule import FILL_DIVISOR
from .shapes import Shapes, Shardings
from .shard_columns import shardings
from .stage_times import Laid, StageTimes, stage_times
from .stages import RECOMPUTE_CLASS, Stages, split
from .tables import Choice, Seconds, Tables, evaluate, round_up
from .ticks import (
    FloatArray,
    IntArray,
    capacity_mebibytes,
)

ONE_NODE = 8
"""GPUs from which the slowdown of scale counts."""


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
        self.offload = OFFLOADS.index(search.offload)
        self._known: tuple[Distinct, LayerTimes] | None = None

    def host_share(self, shapes: Shapes) -> FloatArray | None:
        """Return a GPU's share of its node's memory, (N, 1, 1, 1); None where that is not known."""
        if self.group.host_bytes is None:
            return None
        sharing = np.minimum(shapes.gpus, self.group.gpus_per_node)
        return np.asarray(self.group.host_bytes / sharing[:, None, None, None])

    @property
    def places(self) -> bool:
        """Each axis runs over the level that its groups span in the shape's order."""
        return True

    def on(self, group: NodeGroup) -> Calibrated:
        """Return the same account on another node group."""
        return Calibrated(self.job, group, self.limits, self.search, self.profile)

    @cached_property
    def capacity_mib(self) -> int:
        """Memory that a plan may use at most, MiB."""
        return capacity_mebibytes(self.usable_bytes * (1 - self.limits.mem_headroom))

    # -- parts ---------------------------------------------------------------------------------

    def layers(self, shapes: Shapes) -> tuple[LayerTimes, IntArray]:
        """Layer times of the distinct cores, and which core each shape has.

        Searches come back to the same cores: the largest set so far is kept.
        """
        used = self.machine.level_in_use(shapes.gpus)
        columns = (shapes.tp, shapes.cp, shapes.ep, shapes.etp, shapes.micro_batch, used)
        if self._known is not None and (core := self._known[0].find(*columns)) is not None:
            return self._known[1], core
        cores, first, core = Distinct.of(*columns)
        layers = layer_times(self.job, self.machine, shapes.take(first))
        if self._known is None or len(first) > len(self._known[0].keys):
            self._known = cores, layers
        return layers, core

    def slowdown(self, shapes: Shapes) -> FloatArray:
        """Factor on every time: the release, and a loss that grows with the GPUs; shape (N,)."""
        doublings = np.log2(np.maximum(shapes.gpus / ONE_NODE, 1.0))
        return np.asarray(self.profile.release * (1 + self.profile.stack.scale_loss * doublings))

    def stage_times(
        self, shapes: Shapes, stages: Stages, kinds: tuple[Recompute, ...], both: bool = True
    ) -> StageTimes:
        """Time one micro-batch on a stage of each class; see ``stage_times.stage_times``."""
        layers, core = self.layers(shapes)
        laid = Laid(shapes, stages, layers, core, self.slowdown(shapes)[:, None])
        return stage_times(self.job, self.machine, laid, kinds, both=both)

    def update(self, parameters: Held, shapes: Shapes, columns: Shardings) -> FloatArray:
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
        if self.profile.software.offloaded_optimizer or self.offload >= OPTIMIZER_MOVES:
            link = self.group.gpu.pcie_bytes_per_s
            seconds = seconds + owned * update_seconds(self.job, link, stack.offloaded_parameter_s)
        return np.asarray(seconds * self.slowdown(shapes)[:, None, None])

    def fill(self, shapes: Shapes) -> IntArray:
        """Return what divides the pipeline's fill: virtual stages, or the schedule's divisor."""
        divisor = FILL_DIVISOR[self.profile.software.schedule]
        return np.where(divisor > 1, divisor, shapes.vpp)

    def step_overhead(self, shapes: Shapes) -> FloatArray:
        """Seconds of a step that depend on nothing but the scale, shape (N,)."""
        return self.profile.stack.step_overhead_s * self.slowdown(shapes)

    # -- the faces of a cost model ---------------------------------------------------------------

    def floor(self, shapes: Shapes) -> IntArray:
        """Bound the step from below, roughly; see ``lower_bounds.floor``."""
        return floor(self, shapes)

    def bounds(
        self, shapes: Shapes, capacity_mib: int | None = None, balanced: bool = False
    ) -> tuple[IntArray, IntArray]:
        """Bound step and memory from below; see ``lower_bounds.bounds``."""
        return bounds(self, shapes, capacity_mib, balanced)

    def priced(
        self, shapes: Shapes, stages: Stages, columns: Shardings
    ) -> tuple[StageTimes, DataTraffic, FloatArray]:
        """Seconds of a micro-batch, of data-parallel traffic and of the optimizer."""
        times = self.stage_times(shapes, stages, self.kinds)
        weights = weights_of(self.job, shapes, stages)
        passes = Passes(times.forward[..., None], (times.backward[..., None] + times.recompute))
        traffic = data_traffic(self.job, self.machine, shapes, columns, stages, weights, passes)
        slow = self.slowdown(shapes)[:, None, None, None]
        traffic = DataTraffic(
            *(slow * getattr(traffic, f) for f in DataTraffic.__dataclass_fields__)
        )
        return times, traffic, self.update(weights.trained, shapes, columns)

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
        figures = self.figures(shapes, stages, columns)
        compute = figures.times.forward + figures.times.backward
        busiest = np.where(stages.count > 0, compute, -1.0).argmax(axis=-1)
        row = np.arange(len(shapes))
        seconds = Seconds(
            figures.microbatch,
            figures.tail,
            figures.items.need(self.host_share(shapes)),
            figures.sent(self.limits.comm_metric, (row, busiest)),
            shapes.microbatches * compute[row, busiest],
            busiest,
            figures.spared,
        )
        filled = replace(shapes, vpp=self.fill(shapes))
        tables = round_up(filled, columns, stages, len(self.kinds), seconds)
        return replace(tables, shapes=shapes)

    def tail(self, shapes: Shapes, traffic: DataTraffic, update: FloatArray) -> FloatArray:
        """Seconds of all that comes after the pipeline, (N, 4, K, Z)."""
        tail = traffic.step_exposed + update[:, :, None, :]
        return np.asarray(tail + self.step_overhead(shapes)[:, None, None, None])

    def figures(self, shapes: Shapes, stages: Stages, columns: Shardings) -> Figures:
        """Price every stage class, recomputation and sharding, before rounding."""
        times, traffic, update = self.priced(shapes, stages, columns)
        times = self._with_host(times, shapes, stages)
        tail = self.tail(shapes, traffic, update)
        items = memory_items(
            self.job, self.profile, shapes, stages, columns, self.kinds, self.offload
        )
        return Figures(shapes, times, traffic, update, tail, items)

    def _with_host(self, times: StageTimes, shapes: Shapes, stages: Stages) -> StageTimes:
        """Add what copies of activations to the host and back take."""
        if self.offload < ACTIVATIONS_MOVE:
            return times
        moved = moved_activations(self.job, self.profile, shapes, stages, self.kinds)
        forward = times.forward[..., None]
        backward = times.backward[..., None] + times.recompute
        host = host_traffic(moved, self.group.gpu.pcie_bytes_per_s, forward, backward)
        exposed, total = (
            {**times.exposed, "host": host.exposed},
            {**times.total, "host": host.total},
        )
        return replace(times, exposed=exposed, total=total)

    def estimates(self, tables: Tables, choices: Sequence[Choice]) -> list[Estimate]:
        """Itemise one complete choice of each shape."""
        from .itemise import Slot, Totals, itemise  # noqa: PLC0415 - it reads this module's types

        stages = tables.stages
        figures = self.figures(tables.shapes, stages, tables.shardings)
        found = []
        for row, choice in enumerate(choices):
            slots = [
                Slot(self, figures, stages, (row, stage), choice.recompute[group], choice.sharding)
                for stage, group in enumerate(RECOMPUTE_CLASS)
                if stages.count[row, stage] > 0
            ]
            step, _, sent = evaluate(tables, row, choice)
            found.append(itemise(slots, Totals(step, sent, int(tables.compute[row]))))
        return found
