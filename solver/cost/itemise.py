"""One complete choice taken apart: the memory of each stage and the parts of the step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..plan import AxisTime, Estimate, Stage, StageMemory, StepTime
from .data_parallel import DataTraffic
from .memory.peak import MemoryItems
from .schedule import bubble_fraction
from .stages import CLASSES, RECOMPUTE_CLASS
from .tables import Choice, Tables, evaluate
from .ticks import GRAIN_S, MIB, TICK_S, FloatArray, IntArray
from .verdict import CLASS_NAMES, verdict

if TYPE_CHECKING:
    from .calibrated import Calibrated, StageTimes


@dataclass(frozen=True)
class _Picker:
    """Picks the chosen entry of arrays that broadcast to (1, 4, K, Z)."""

    shape: tuple[int, ...]
    choice: Choice

    def __call__(self, values: FloatArray | IntArray, stage: int) -> float:
        padded = values if values.ndim == len(self.shape) else values.reshape(
            values.shape + (1,) * (len(self.shape) - values.ndim)
        )  # fmt: skip
        kind = self.choice.recompute[RECOMPUTE_CLASS[stage]]
        full = np.broadcast_to(padded, self.shape)
        return float(full[0, stage, kind, self.choice.sharding])


def itemise(
    model: Calibrated, tables: Tables, choice: Choice, times: StageTimes, traffic: DataTraffic,
    update: FloatArray, items: MemoryItems,
) -> Estimate:  # fmt: skip
    """Build the estimate of the single shape in ``tables``."""
    pick = _Picker(tables.pace.shape, choice)
    stage_s = times.base[..., None] + traffic.microbatch_exposed
    used = [c for c in range(CLASSES) if tables.stages.count[0, c] > 0]
    stages = tuple(_stage(model, tables, items, pick, (c, pick(stage_s, c))) for c in used)
    pace = max(used, key=lambda c: pick(stage_s, c))
    time = _step_time(model, tables, choice, pick, pace, times, traffic, update)
    worst = max(range(len(stages)), key=lambda i: stages[i].memory.total_bytes)
    ticks_sent = evaluate(tables, 0, choice)[2]
    shapes = tables.shapes
    return Estimate(
        stages=stages,
        time=time,
        peak_bytes=stages[worst].memory.total_bytes,
        worst_stage=stages[worst].index,
        verdict=stages[worst].memory.verdict,
        bubble_fraction=float(bubble_fraction(shapes.pp, shapes.vpp, shapes.microbatches)[0]),
        communication_ratio=ticks_sent / int(tables.compute[0]),
        communication_metric=model.limits.comm_metric,
    )


def _stage(
    model: Calibrated, tables: Tables, items: MemoryItems, pick: _Picker, timed: tuple[int, float]
) -> Stage:
    stage, microbatch_s = timed
    stages = tables.stages
    kind = model.kinds[pick.choice.recompute[RECOMPUTE_CLASS[stage]]]
    parts = {f"{name}_bytes": pick(getattr(items, name), stage) for name in _ITEM_NAMES}
    total, limit = sum(parts.values()), float(model.capacity_mib * MIB)
    return Stage(
        name=CLASS_NAMES[stage],
        index=int(stages.index[0, stage]),
        count=int(stages.count[0, stage]),
        layers=int(stages.layers[0, stage]),
        dense_layers=int(stages.dense_layers[0, stage]),
        moe_layers=int(stages.moe_layers[0, stage]),
        has_embedding=bool(stages.has_embedding[0, stage]),
        has_head=bool(stages.has_head[0, stage]),
        recompute=kind,
        microbatch_s=microbatch_s,
        drain_s=pick(tables.tail, stage) * GRAIN_S,
        memory=StageMemory(
            **parts,
            total_bytes=total,
            limit_bytes=limit,
            usable_bytes=model.usable_bytes,
            verdict=verdict(
                np.ceil(total / MIB) * MIB,
                limit,
                model.usable_bytes,
                pick(items.reclaimable, stage),
            ),
        ),
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


def _step_time(
    model: Calibrated, tables: Tables, choice: Choice, pick: _Picker, pace: int,
    times: StageTimes, traffic: DataTraffic, update: FloatArray,
) -> StepTime:  # fmt: skip
    shapes, job = tables.shapes, model.job
    microbatches = int(shapes.microbatches[0])
    step = evaluate(tables, 0, choice)[0] * TICK_S
    kind = pick.choice.recompute[RECOMPUTE_CLASS[pace]]
    compute = microbatches * float(times.forward[0, pace] + times.backward[0, pace])
    recompute = microbatches * float(times.recompute[0, pace, kind])
    axes = {
        axis: AxisTime(
            exposed_s=microbatches * float(times.exposed[axis][0, pace, kind]),
            total_s=microbatches * float(times.total[axis][0, pace, kind]),
        )
        for axis in times.exposed
    }
    axes["dp"] = AxisTime(
        exposed_s=microbatches * pick(traffic.microbatch_exposed, pace)
        + pick(traffic.step_exposed, pace),
        total_s=microbatches * pick(traffic.microbatch_total, pace)
        + pick(traffic.step_total, pace),
    )
    optimizer = pick(update[:, :, None, :], pace)
    overhead = float(model.step_overhead(shapes)[0])
    spent = compute + recompute + sum(a.exposed_s for a in axes.values()) + optimizer + overhead
    rate = job.step_flops / step / int(shapes.gpus[0])
    repeated = recompute / compute if compute > 0 else 0.0
    mfu = rate / model.machine.peak_flops
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
