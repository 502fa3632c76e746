"""Every lever from the best plan: one degree, recomputation, sharding or offload changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from topology.errors import InputError, UnsupportedError

from ..axes import tensor
from ..job.job import PlanningProblem
from ..job.schedules import SCHEDULES
from ..job.search import OFFLOADS, RECOMPUTE
from ..layout_check import LayoutRequest, check
from ..plan import Plan
from ..report.layouts import layout_text, layout_values
from .compare import why_slower
from .outputs import Move

DEGREES = ("tp", "pp", "cp", "ep")
NOT_IN_TEXTBOOK = ("cp", "ep")
MOST_ZERO = 3


def moves(problem: PlanningProblem, best: Plan) -> tuple[Move, ...]:
    """Estimate the best plan with one thing changed, whether it keeps the limits or not."""
    if best.blocks:
        return ()
    return tuple(
        _move(one, best, lever, request) for lever, one, request in _changes(problem, best)
    )


def _move(problem: PlanningProblem, best: Plan, lever: str, request: dict[str, object]) -> Move:
    text = ",".join(f"{k}={v}" for k, v in request.items() if v not in (None, 1))
    try:
        plan = check(problem, LayoutRequest.model_validate(request))
    except (InputError, UnsupportedError) as error:
        return Move(
            lever=lever, layout=text, step_s=None, memory_bytes=None, more_step_s=None,
            more_memory_bytes=None, broken=(), why=error.problems[0].message,
        )  # fmt: skip
    step, memory = plan.estimate.time.step_s, plan.estimate.peak_bytes
    return Move(
        lever=lever,
        layout=layout_text(plan),
        step_s=step,
        memory_bytes=memory,
        more_step_s=step - best.estimate.time.step_s,
        more_memory_bytes=memory - best.estimate.peak_bytes,
        broken=tuple(limit.id for limit in plan.limits if not limit.ok),
        why=why_slower(plan, best),
    )


def _changes(
    problem: PlanningProblem, best: Plan
) -> Iterator[tuple[str, PlanningProblem, dict[str, object]]]:
    """Yield lever, problem and layout; DP takes up what another degree leaves of the GPUs."""
    base: dict[str, object] = dict(layout_values(best))
    for name in ("stage_layers", "recomputed_layers"):
        base.pop(name, None)
    for lever, change in _degrees(problem, base, best):
        yield lever, problem, {**base, **change}
    for kind in RECOMPUTE:
        if kind != best.recompute:
            yield f"recompute {kind}", problem, {**base, "recompute": kind}
    for zero in range(MOST_ZERO + 1):
        if zero != best.layout.zero:
            yield f"ZeRO {zero}", problem, {**base, "zero": zero, "dp_replicate": 1}
    for schedule in set(problem.search.schedules) - {best.options.schedule}:  # one, or none
        whole = {} if schedule == SCHEDULES[0] else {"vpp": 1}
        yield f"schedule {schedule}", problem, {**base, **whole, "schedule": schedule}
    if problem.search.offload == "none" and problem.account.cost_model == "calibrated":
        for offload in OFFLOADS[1:]:
            search = problem.search.model_copy(update={"offload": offload})
            yield f"offload {offload}", replace(problem, search=search), base


def _degrees(
    problem: PlanningProblem, base: dict[str, object], best: Plan
) -> Iterator[tuple[str, dict[str, object]]]:
    textbook = problem.account.cost_model == "textbook"
    for axis in DEGREES:
        if textbook and axis in NOT_IN_TEXTBOOK:
            continue
        now = int(str(base[axis]))
        every = tensor.degrees(problem.job.transformer) if axis == "tp" else (2 * now, now // 2)
        for degree in every:
            if degree in (0, now) or (
                axis == "ep" and best.layout.ep == 1 and best.layout.etp == 1
            ):
                continue
            change: dict[str, object] = {axis: degree, "vpp": 1} if axis == "pp" else {axis: degree}
            if axis != "ep":
                ranks = best.gpus // best.layout.dp // now * degree
                if best.gpus % ranks:
                    continue
                change["dp"] = best.gpus // ranks
                change["dp_replicate"] = 1
            yield f"{axis.upper()} {degree}", change
    for micro in (2 * best.batch.micro_batch, best.batch.micro_batch // 2):
        if micro >= 1:
            yield f"micro-batch {micro}", {"micro_batch": micro}
    if best.layout.vpp > 1:
        yield "VPP 1", {"vpp": 1}
