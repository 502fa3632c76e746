"""How long forward, backward and communication of one micro-batch take on each stage of a plan.

A plan says how long a micro-batch takes on a stage; the cost model says how that is made up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..cost.calibrated import Calibrated
from ..cost.shapes import Shapes
from ..cost.stage_times import AXES, StageTimes
from ..cost.stages import CLASSES, FIRST, HEAVY, LAST, Stages, dense_layers, layers_by_rule
from ..estimate import Stage
from ..job.job import PlanningProblem
from ..job.search import RECOMPUTE
from ..plan import Plan
from ..search.search import instance_of

FORWARD_SHARE = {"none": 1 / 3, "selective": 1 / 3, "full": 1 / 4}
"""Forward of forward and backward where an account does not part them: backward has twice the
FLOPs (Narayanan et al. 2021, arXiv 2104.04473, appendix), full recomputation repeats forward."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of a micro-batch over a stage, all its virtual stages.

    Attributes
    ----------
    compute_s
        Compute, recomputation in it.
    waits_s
        Exposed communication by axis.
    """

    compute_s: float
    waits_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def total_s(self) -> float:
        """All of it."""
        return self.compute_s + sum(self.waits_s.values())

    def scaled(self, factor: float) -> Pass:
        """Return the pass that takes ``factor`` times as long."""
        waits = {axis: seconds * factor for axis, seconds in self.waits_s.items()}
        return Pass(self.compute_s * factor, waits)


@dataclass(frozen=True, slots=True)
class StageSeconds:
    """Forward and backward of a micro-batch on a stage, and what is left once all are through.

    Where weight gradients wait (ZB-H1), ``weight`` has them and ``backward`` what is without them;
    ``least_s`` is the least of the three passes, layer by layer.
    """

    forward: Pass
    backward: Pass
    drain_s: float
    weight: Pass | None = None
    least_s: float = 0.0


def stage_seconds(problem: PlanningProblem, plan: Plan) -> tuple[StageSeconds, ...]:
    """Return the seconds of each stage; its passes sum to the plan's."""
    stages = [_stage_at(plan, index) for index in range(plan.layout.pp)]
    passes = [_by_flops(stage) for stage in stages]
    if problem.account.cost_model == "calibrated" and len(problem.cluster.groups) == 1:
        passes = _by_model(problem, plan, stages)
    return tuple(_scaled(p, stage) for p, stage in zip(passes, stages, strict=True))


def _scaled(parts: StageSeconds, stage: Stage) -> StageSeconds:
    """Let the passes take what the plan says, waits of data parallelism in it."""
    late = parts.weight.total_s if parts.weight is not None else 0.0
    factor = stage.microbatch_s / (parts.forward.total_s + parts.backward.total_s + late)
    return StageSeconds(
        parts.forward.scaled(factor),
        parts.backward.scaled(factor),
        stage.drain_s,
        parts.weight.scaled(factor) if parts.weight is not None else None,
        parts.least_s * factor,
    )


def _stage_at(plan: Plan, index: int) -> Stage:
    return next(s for s in plan.estimate.stages if s.index <= index < s.index + s.count)


def _by_flops(stage: Stage) -> StageSeconds:
    share = FORWARD_SHARE[stage.recompute]
    return StageSeconds(Pass(share * stage.microbatch_s), Pass((1 - share) * stage.microbatch_s), 0)


def _by_model(problem: PlanningProblem, plan: Plan, stages: list[Stage]) -> list[StageSeconds]:
    update = {"recompute": RECOMPUTE, "schedule": plan.options.schedule}
    problem = replace(problem, search=problem.search.model_copy(update=update))
    model = instance_of(problem).cost
    if not isinstance(model, Calibrated):  # the account was asked for above
        raise TypeError(type(model).__name__)
    shape = _shape(plan)
    rows, column = _rows(problem, plan, stages)
    times = model.stage_times(shape.take(np.zeros(len(stages), np.int64)), rows, RECOMPUTE)
    return [
        _passes(times, (row, int(column[row])), RECOMPUTE.index(stage.recompute))
        for row, stage in enumerate(stages)
    ]


def _shape(plan: Plan) -> Shapes:
    layout, batch = plan.layout, plan.batch
    axes = ("tp", "pp", "vpp", "cp", "ep", "etp", "dp")
    return Shapes.of(
        **{axis: getattr(layout, axis) for axis in axes},
        micro_batch=batch.micro_batch,
        microbatches=batch.microbatches,
        order=int(layout.order.endswith("dp")),
    )


def _rows(
    problem: PlanningProblem, plan: Plan, stages: list[Stage]
) -> tuple[Stages, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Lay every stage out as a row of its own, in the column of its class."""
    pp, model = plan.layout.pp, problem.job.transformer
    given = plan.layout.stage_layers or layers_by_rule(model, pp, plan.layout.vpp)
    again = plan.recomputed_layers or (0,) * pp
    column = np.full(pp, HEAVY)
    column[0], column[-1] = FIRST, LAST if pp > 1 else FIRST
    one = np.arange(CLASSES)[None, :] == column[:, None]
    layers, recomputed = (one * np.array(counts)[:, None] for counts in (given, again))
    dense = dense_layers(model, layers)
    embedding = one & np.array([stage.has_embedding for stage in stages])[:, None]
    head = one & np.array([stage.has_head for stage in stages])[:, None]
    index = one * np.arange(pp)[:, None]
    return Stages(
        dense, layers - dense, one.astype(np.int64), index, embedding, head, recomputed
    ), column  # fmt: skip


def _passes(times: StageTimes, entry: tuple[int, int], kind: int) -> StageSeconds:
    """Part what the model says of one stage into its passes."""
    place = (*entry, kind)
    repeats = float(RECOMPUTE[kind] == "full")
    forward, backward = {}, {}
    for axis, seconds in times.exposed.items():
        wait = float(np.broadcast_to(seconds, times.base.shape)[place])
        # Volumes of backward and of repeated forwards over forward's; a pipeline sends alike.
        share = 1 / (1 + AXES[axis] + repeats) if axis in AXES else 1 / 2
        forward[axis], backward[axis] = share * wait, (1 - share) * wait
    compute = float(times.backward[entry]) + float(times.recompute[place])
    ahead = Pass(float(times.forward[entry]), forward)
    if isinstance(times.weight, float):
        return StageSeconds(ahead, Pass(compute, backward), 0.0)
    late, least = (float(np.asarray(part)[entry]) for part in (times.weight, times.least))
    return StageSeconds(ahead, Pass(compute - late, backward), 0.0, Pass(late), least)
