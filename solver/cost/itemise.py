"""A complete plan taken apart: the memory of each stage and the parts of the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..estimate import AxisTime, Estimate, Stage, StageMemory, StepTime
from .bubble import bubble_parts
from .stages import Stages
from .ticks import GRAIN_S, MIB, TICK_S, BoolArray, FloatArray, IntArray, grains
from .verdict import CLASS_NAMES, oom_probability, verdict

if TYPE_CHECKING:
    from .calibrated import Calibrated
    from .figures import Figures


class Totals(NamedTuple):
    """Ticks of the step; grains of communication and of compute on the busiest stage."""

    step: int
    sent: int
    compute: int


@dataclass(frozen=True)
class Slot:
    """Stages that are alike, as one entry of a cost model's figures.

    Attributes
    ----------
    model, figures, stages
        Cost model, its figures, and the stages that these are of.
    entry
        Shape (row) and stage class in the figures.
    kind, column
        Recomputation and sharding.
    """

    model: Calibrated
    figures: Figures
    stages: Stages
    entry: tuple[int, int]
    kind: int
    column: int

    def pick(self, values: FloatArray | IntArray) -> float:
        """Return the entry of an array that broadcasts to (N, 4, K, Z)."""
        shape: tuple[int, ...] = (*values.shape, *((1,) * (4 - values.ndim)))
        columns = max(shape[-1], self.column + 1)
        full = np.broadcast_to(values.reshape(shape), (*self.figures.times.base.shape, columns))
        row, stage = self.entry
        return float(full[row, stage, self.kind, self.column])

    def of(self, values: FloatArray | IntArray | BoolArray) -> float:
        """Return the entry of an array of shape (N, 4)."""
        return float(values[self.entry])

    @property
    def microbatch_s(self) -> float:
        """Seconds of one micro-batch."""
        times = self.figures.times.base[..., None]
        return self.pick(times) + self.pick(self.figures.traffic.microbatch_exposed)


def itemise(slots: Sequence[Slot], totals: Totals) -> Estimate:
    """Build the estimate of a plan from its stages, in the order of the pipeline."""
    stages = tuple(_stage(slot) for slot in slots)
    worst = max(range(len(stages)), key=lambda i: stages[i].memory.fill)
    shapes = slots[0].figures.shapes.take(np.array([slots[0].entry[0]]))
    model = slots[0].model
    cut = (shapes.pp, shapes.vpp, shapes.microbatches)
    idle, busy = bubble_parts(model.job, model.search.schedule, cut)
    return Estimate(
        stages=stages,
        time=_step_time(max(slots, key=lambda slot: slot.microbatch_s), totals, _peak(slots)),
        peak_bytes=stages[worst].memory.total_bytes,
        worst_stage=stages[worst].index,
        verdict=stages[worst].memory.verdict,
        bubble_fraction=float((idle / (busy + idle))[0]),
        communication_ratio=totals.sent / totals.compute,
        communication_metric=model.limits.comm_metric,
        host_bytes_per_node=_host(slots, stages, int(shapes.gpus[0])),
    )


def _host(slots: Sequence[Slot], stages: Sequence[Stage], gpus: int) -> float:
    """Return what the fullest node keeps outside its GPUs."""
    return max(
        stage.memory.host_bytes * min(slot.model.group.gpus_per_node, gpus)
        for slot, stage in zip(slots, stages, strict=True)
    )


_ITEM_NAMES = (
    "weights",
    "gradients",
    "optimizer",
    "activations",
    "logits",
    "buffers",
    "reserve",
)


def _stage(slot: Slot) -> Stage:
    stages, model, items = slot.stages, slot.model, slot.figures.items
    parts = {f"{name}_bytes": slot.pick(getattr(items, name)) for name in _ITEM_NAMES}
    total, limit = sum(parts.values()), float(model.capacity_mib * MIB)
    reclaimable = slot.pick(items.reclaimable)
    return Stage(
        name=CLASS_NAMES[slot.entry[1]],
        index=int(slot.of(stages.index)),
        count=int(slot.of(stages.count)),
        layers=int(slot.of(stages.layers)),
        dense_layers=int(slot.of(stages.dense_layers)),
        moe_layers=int(slot.of(stages.moe_layers)),
        has_embedding=bool(slot.of(stages.has_embedding)),
        has_head=bool(slot.of(stages.has_head)),
        recompute=model.kinds[slot.kind],
        recomputed_layers=int(slot.of(stages.recomputed)),
        gpu=model.group.gpu.id,
        microbatch_s=slot.microbatch_s,
        spared_s=slot.pick(np.asarray(slot.figures.spared)),
        drain_s=int(grains(np.array(slot.pick(slot.figures.tail)))) * GRAIN_S,
        memory=StageMemory(
            **parts,
            total_bytes=total,
            limit_bytes=limit,
            usable_bytes=model.usable_bytes,
            verdict=verdict(np.ceil(total / MIB) * MIB, limit, model.usable_bytes, reclaimable),
            host_bytes=slot.pick(items.host),
            oom_probability=oom_probability(
                total, model.usable_bytes, model.profile.memory.expected_error, reclaimable
            ),
        ),
    )


def _peak(slots: Sequence[Slot]) -> float:
    """Return the mean dense 16-bit peak of a GPU, FLOP/s."""
    peaks = [slot.model.machine.peak_flops for slot in slots]
    if len(set(peaks)) == 1:
        return peaks[0]
    counts = [slot.of(slot.stages.count) for slot in slots]
    return sum(n * peak for n, peak in zip(counts, peaks, strict=True)) / sum(counts)


def _step_time(pace: Slot, totals: Totals, peak_flops: float) -> StepTime:
    """Take the step apart on the stage that sets the pace."""
    figures, job = pace.figures, pace.model.job
    times, traffic = figures.times, figures.traffic
    shapes = figures.shapes.take(np.array([pace.entry[0]]))
    microbatches, step = int(shapes.microbatches[0]), totals.step * TICK_S
    compute = microbatches * (pace.of(times.forward) + pace.of(times.backward))
    recompute = microbatches * pace.pick(times.recompute)
    axes = {
        axis: AxisTime(
            exposed_s=microbatches * pace.pick(times.exposed[axis]),
            total_s=microbatches * pace.pick(times.total[axis]),
        )
        for axis in times.exposed
    }
    axes["dp"] = AxisTime(
        exposed_s=microbatches * pace.pick(traffic.microbatch_exposed)
        + pace.pick(traffic.step_exposed),
        total_s=microbatches * pace.pick(traffic.microbatch_total) + pace.pick(traffic.step_total),
    )
    optimizer = pace.pick(figures.update[:, :, None, :])
    overhead = float(pace.model.step_overhead(shapes)[0])
    spent = compute + recompute + sum(a.exposed_s for a in axes.values()) + optimizer + overhead
    rate = job.step_flops / step / int(shapes.gpus[0])
    repeated = recompute / compute if compute > 0 else 0.0
    mfu = rate / peak_flops
    return StepTime(
        step_s=step,
        compute_s=compute,
        recompute_s=recompute,
        bubble_s=step - spent,
        communication=axes,
        optimizer_s=optimizer,
        overhead_s=overhead,
        tokens_per_s_per_gpu=job.step_tokens / step / int(shapes.gpus[0]),
        model_flops_per_gpu_per_s=rate,
        mfu=mfu,
        hfu=mfu * (1 + repeated),
    )
