"""Whether a plan that was read from a file can be one: its figures agree with each other."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..job.recipe import PRECISIONS
from ..job.schedules import SCHEDULES
from ..job.search import CP_COMMS, OFFLOADS, RECOMPUTE
from ..plan import Plan

MOST_ZERO = 3
SHOWN = 8
"""Stages that a message writes out."""


def faults(plan: Plan) -> Iterator[str]:
    """Yield every field that contradicts the others, or holds what nothing writes."""
    layout, batch = plan.layout, plan.batch
    names = ("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "dp_shard", "dp_replicate")
    degrees = {name: getattr(layout, name) for name in names}
    yield from (f"layout.{name}" for name, degree in degrees.items() if degree < 1)
    counts = {"micro_batch": batch.micro_batch, "microbatches": batch.microbatches,
              "global_sequences": batch.global_sequences}  # fmt: skip
    yield from (f"batch.{name}" for name, count in counts.items() if count < 1)
    if not 0 <= layout.zero <= MOST_ZERO:
        yield "layout.zero"
    if plan.gpus != layout.tp * layout.pp * layout.cp * layout.dp:
        yield "gpus"
    if layout.dp != layout.dp_shard * layout.dp_replicate:
        yield "layout.dp_shard"
    if batch.micro_batch * batch.microbatches * layout.dp != batch.global_sequences:
        yield "batch.global_sequences"
    if any(kind not in RECOMPUTE for kind in plan.recompute.split("/")):
        yield "recompute"
    yield from _options(plan)
    yield from _stages(plan)


def _options(plan: Plan) -> Iterator[str]:
    options = plan.options
    if options.precision not in PRECISIONS:
        yield "options.precision"
    if options.offload not in OFFLOADS:
        yield "options.offload"
    if options.cp_comm not in CP_COMMS:
        yield "options.cp_comm"
    if options.schedule not in SCHEDULES or (
        options.schedule != SCHEDULES[0] and (plan.layout.pp == 1 or plan.layout.vpp > 1)
    ):
        yield "options.schedule"
    if plan.cost.steps is not None and plan.cost.steps < 1:
        yield "cost.steps"


def _stages(plan: Plan) -> Iterator[str]:
    estimate, pp = plan.estimate, plan.layout.pp
    if sum(stage.count for stage in estimate.stages) != pp:
        yield "estimate.stages"
    if estimate.worst_stage not in {stage.index for stage in estimate.stages}:
        yield "estimate.worst_stage"
    if any(not 0 <= stage.spared_s <= stage.microbatch_s for stage in estimate.stages):
        yield "estimate.stages.spared_s"
    if not math.isfinite(estimate.time.step_s) or estimate.time.step_s <= 0:
        yield "estimate.time.step_s"
    layers = plan.layout.stage_layers
    if layers is not None:
        yield from _layers(layers, pp, sum(s.layers * s.count for s in estimate.stages))
    recomputed = plan.recomputed_layers
    if recomputed is not None:
        most = layers or (max(s.layers for s in estimate.stages),) * pp
        if len(recomputed) != pp or any(
            not 0 <= r <= n for r, n in zip(recomputed, most, strict=False)
        ):
            yield "recomputed_layers"


def _layers(layers: tuple[int, ...], pp: int, total: int) -> Iterator[str]:
    """Say what is wrong with the layers of each stage."""
    written = f"layout.stage_layers {'/'.join(map(str, layers[:SHOWN]))}"
    if len(layers) != pp:
        yield f"{written} ({len(layers)} numbers for {pp} stages)"
    elif min(layers) < 1:
        empty = next(stage for stage, count in enumerate(layers) if count < 1)
        yield f"{written} (stage {empty} has no layers)"
    elif sum(layers) != total:
        yield f"{written} ({sum(layers)} layers, its stages have {total})"
