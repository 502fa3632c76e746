"""One given layout: memory by stage, limits, checklist and red flags."""

from __future__ import annotations

from typing import Any

from topology.units import HOUR

from ..checklist import LayoutFacts, review
from ..cost.bubble import microbatches_for_bubble
from ..cost.goodput import Goodput, whole_steps
from ..cost.scale import plan_notes
from ..cost.textbook import micro_batches_for_bubble
from ..estimate import Stage
from ..job.job import PlanningProblem
from ..plan import LimitCheck, Plan
from .blocks import Column, Facts, Report, Sheet
from .cells import chance, count, gigabytes, mark
from .header import problem_lines
from .layouts import layout_text
from .ledger import checks_data, checks_sheet, measure
from .plan_lines import links_line, memory_line, step_line
from .plan_rows import plan_columns, plan_record, plan_row
from .resolved import assumptions, problem_data, problem_sha256, tool_version

CHECK_SCHEMA = "shardplan.check/1"
MEMORY_SCHEMA = "shardplan.memory/1"
_ITEMS = {
    "weights": "weights",
    "gradients": "grads",
    "optimizer": "optim.",
    "activations": "activ.",
    "logits": "logits",
    "buffers": "buffers",
    "reserve": "reserve",
}
"""Parts of the memory, and their heads where there is little room."""


def broken(plan: Plan) -> tuple[LimitCheck, ...]:
    """Return the limits that a plan breaks."""
    return tuple(limit for limit in plan.limits if not limit.ok)


def check_report(problem: PlanningProblem, plan: Plan) -> Report:
    """Report every limit of a layout, with its estimate and the checklist."""
    checks = review(layout_facts(problem, plan))
    faults = broken(plan)
    names = ", ".join(limit.id for limit in faults)
    verdict = f"BROKEN: {names}" if faults else "every limit is kept"
    run, priced = plan.cost.steps is not None, plan.cost.usd is not None
    columns = plan_columns([plan], whole_run=run, priced=priced)[2:]
    return Report(
        blocks=(
            Facts((*problem_lines(problem), ("Layout", layout_text(plan)), ("Verdict", verdict))),
            Sheet(columns, (plan_row(plan, ""),), "Estimate"),
            memory_sheet(plan),
            Facts(_lines(problem, plan)),
            _limits_sheet(plan),
            checks_sheet(checks),
        ),
        data={
            "schema": CHECK_SCHEMA,
            "tool_version": tool_version(),
            "problem_sha256": problem_sha256(problem),
            "problem": problem_data(problem),
            "assumptions": assumptions(problem),
            "plan": plan.model_dump(mode="json"),
            "ok": not faults,
            "broken": [limit.id for limit in faults],
            "checks": checks_data(checks),
        },
        records=tuple(limit.model_dump(mode="json") for limit in plan.limits),
    )


def _lines(problem: PlanningProblem, plan: Plan) -> tuple[tuple[str, str], ...]:
    notes = tuple(("Note", note) for note in plan_notes(problem, plan.gpus))
    return (("Memory", memory_line(plan)), ("Step", step_line(plan)), *links_line(plan), *notes)


def layout_facts(problem: PlanningProblem, plan: Plan) -> LayoutFacts:
    """Hand a plan's figures to the checklist."""
    layout, batch, estimate, limits = plan.layout, plan.batch, plan.estimate, problem.limits
    need = None
    if limits.max_bubble > 0:
        need = micro_batches_for_bubble(layout.pp, limits.max_bubble, layout.vpp)
        if plan.options.schedule == "zb-h1":
            need = microbatches_for_bubble(problem.job, layout.pp, limits.max_bubble)
    step = estimate.time.step_s
    saved = Goodput.launched(problem.job, problem.reliability).saving_s(plan.nodes)
    steps = whole_steps(saved, step)
    return LayoutFacts(
        memory_bytes=estimate.peak_bytes,
        capacity_bytes=estimate.stages[0].memory.usable_bytes,
        micro_batch=batch.micro_batch,
        accumulation=batch.microbatches,
        dp=layout.dp,
        global_batch=problem.job.global_batch,
        seq_len=problem.job.seq_len,
        communication_ratio=estimate.communication_ratio,
        bubble=estimate.bubble_fraction,
        utilisation=estimate.time.mfu,
        tp=layout.tp,
        nvlink_domain=problem.cluster.group.nvlink_domain,
        pp=layout.pp,
        parameters=problem.job.transformer.parameters().total,
        recompute=plan.recompute != "none",
        micro_batches_for_limit=need,
        total_steps=plan.cost.steps,
        save_steps=steps,
        save_hours=steps * step / HOUR,
        mem_headroom=limits.mem_headroom,
        max_communication=limits.max_comm,
        max_bubble=limits.max_bubble,
    )


def _limits_sheet(plan: Plan) -> Sheet:
    columns = (
        Column("id", "limit", align="left"),
        Column("ok", "verdict", mark, align="left"),
        Column("value", "value", wraps=True),
        Column("limit", "limit", wraps=True),
        Column("slack", "left", wraps=True),
        Column("text", "what is counted", align="left"),
    )
    rows = tuple(
        {
            "id": limit.id,
            "ok": limit.ok,
            "value": measure(limit.value, limit.unit),
            "limit": measure(limit.limit, limit.unit),
            "slack": measure(limit.slack, limit.unit),
            "text": limit.text,
        }
        for limit in plan.limits
    )
    styles = tuple("" if limit.ok else "bold red" for limit in plan.limits)
    return Sheet(columns, rows, "Limits", styles)


def memory_sheet(plan: Plan) -> Sheet:
    """Show bytes on one GPU of each kind of stage."""
    columns = (
        Column("stage", "stage", align="left"),
        Column("layers", "layers", count, drop=4),
        Column("recompute", "recompute", align="left", drop=1),
        *(Column(f"{item}_bytes", item, gigabytes, short=_ITEMS[item]) for item in _ITEMS),
        Column("total_bytes", "total", gigabytes),
        Column("limit_bytes", "limit", gigabytes, drop=3),
        Column("usable_bytes", "usable", gigabytes, drop=2),
        Column("verdict", "verdict", align="left"),
        Column("oom_probability", "P(out)", chance, drop=5),
    )
    stages = plan.estimate.stages
    worst = plan.estimate.worst_stage
    styles = tuple("bold" if stage.index == worst else "" for stage in stages)
    rows = tuple(map(memory_record, stages))
    return Sheet(columns, rows, "Memory of one GPU by stage, GB", styles)


def memory_record(stage: Stage) -> dict[str, Any]:
    """Return a stage's memory as one flat row."""
    last = stage.index + stage.count - 1
    ends = [name for name, has in (("embedding", stage.has_embedding), ("head", stage.has_head))
            if has]  # fmt: skip
    which = f"{stage.index}" if stage.count == 1 else f"{stage.index}–{last}"
    return {
        "stage": which + (f" ({', '.join(ends)})" if ends else ""),
        "index": stage.index,
        "count": stage.count,
        "layers": stage.layers,
        "recompute": stage.recompute,
        **stage.memory.model_dump(mode="json"),
    }


def memory_report(problem: PlanningProblem, plan: Plan) -> Report:
    """Report the memory of a layout only."""
    records = tuple(map(memory_record, plan.estimate.stages))
    lines = (*problem_lines(problem), ("Layout", layout_text(plan)))
    return Report(
        blocks=(Facts(lines), memory_sheet(plan), memory_line(plan)),
        data={
            "schema": MEMORY_SCHEMA,
            "tool_version": tool_version(),
            "problem_sha256": problem_sha256(problem),
            "layout": plan_record(plan),
            "stages": records,
            "peak_bytes": plan.estimate.peak_bytes,
            "worst_stage": plan.estimate.worst_stage,
            "verdict": plan.estimate.verdict,
        },
        records=records,
    )
