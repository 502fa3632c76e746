"""The answers as reports."""

from __future__ import annotations

from typing import Any

from topology.errors import InputError, Problem
from topology.faults import did_you_mean
from topology.units import show_bandwidth, show_bytes, show_seconds, show_usd

from ..job.job import PlanningProblem
from ..layout_check import LayoutRequest
from ..plan import Plan, Result
from ..report.blocks import Block, Column, Facts, Report, Sheet
from ..report.cells import count, gigabytes, percent
from ..report.header import problem_lines
from ..report.layouts import layout_text
from ..report.plan_rows import plan_columns, plan_row
from ..report.plans import memory_line, plans_report, step_line
from ..report.resolved import problem_data, problem_sha256, tool_version
from .codes import known, meaning
from .compare import compare, why_slower
from .explain import explain, why_not
from .flips import flips
from .outputs import Comparison, Difference, Explanation, Flip
from .robust import robust

EXPLAIN_SCHEMA = "shardplan.explain/1"
COMPARE_SCHEMA = "shardplan.compare/1"
MEASURE_SCHEMA = "shardplan.measure/1"
FLIPS_SCHEMA = "shardplan.flips/1"


def explain_report(
    problem: PlanningProblem, layout: LayoutRequest | None, seed: int = 0, workers: int = 1
) -> Report:
    """Explain the best plan of a problem, or why a layout is not it."""
    if layout is not None:
        found = why_not(problem, layout)
        if isinstance(found, Result):
            return plans_report(problem, found)
        return _compared(problem, found)
    answer = explain(problem, seed=seed, workers=workers)
    if not answer.result.plans:
        return plans_report(problem, answer.result)
    return Report(
        blocks=tuple(_explanation(problem, answer)),
        data={**_stamp(problem, EXPLAIN_SCHEMA), **answer.model_dump(mode="json")},
        records=tuple(move.model_dump(mode="json") for move in answer.moves),
    )


def _stamp(problem: PlanningProblem, schema: str) -> dict[str, Any]:
    return {
        "schema": schema,
        "tool_version": tool_version(),
        "problem": problem_data(problem),
        "problem_sha256": problem_sha256(problem),
    }


def _explanation(problem: PlanningProblem, answer: Explanation) -> list[Block]:
    best = answer.result.plans[0]
    states = sum(
        getattr(best.estimate.stages[0].memory, f"{name}_bytes")
        for name in ("weights", "gradients", "optimizer")
    )
    why = (
        ("Plan", layout_text(best)),
        ("States", f"{gigabytes(states)} GB of weights, gradients and optimizer on a GPU"),
        ("Memory", memory_line(best)),
        ("Step", step_line(best)),
    )
    blocks: list[Block] = [Facts((*problem_lines(problem), *why)), _binding(answer)]
    if answer.moves:
        blocks.append(_moves(answer))
    if answer.families:
        blocks.append(_families(answer, best))
    return blocks


def _binding(answer: Explanation) -> Sheet:
    rows = tuple(
        {
            "limit": b.limit,
            "value": amount(b.value, b.unit),
            "allowed": amount(b.allowed, b.unit),
            "costs": f"{percent(b.gain)} ({b.layout} without it)" if b.binds else "does not bind",
        }
        for b in answer.binding
    )
    columns = (
        Column("limit", "limit", align="left"),
        Column("value", "plan"),
        Column("allowed", "allowed"),
        Column("costs", "what it costs", align="left"),
    )
    return Sheet(columns, rows, "Limits")


def _moves(answer: Explanation) -> Sheet:
    rows = tuple(
        {
            "lever": m.lever,
            "step": None if m.more_step_s is None else _signed(m.more_step_s, show_seconds),
            "memory": None
            if m.more_memory_bytes is None
            else _signed(m.more_memory_bytes, show_bytes),
            "breaks": ", ".join(m.broken) or ("impossible" if m.step_s is None else ""),
            "why": m.why,
        }
        for m in answer.moves
    )
    columns = (
        Column("lever", "lever", align="left"),
        Column("step", "step"),
        Column("memory", "memory"),
        Column("breaks", "breaks", align="left"),
        Column("why", "why", align="left"),
    )
    return Sheet(columns, rows, "Levers: the plan with one thing changed")


def _families(answer: Explanation, best: Plan) -> Sheet:
    rows = tuple(
        {
            "name": f.name,
            "layout": "–" if f.plan is None else layout_text(f.plan),
            "step": None if f.plan is None else show_seconds(f.plan.estimate.time.step_s),
            "memory": None if f.plan is None else gigabytes(f.plan.estimate.peak_bytes),
            "why": "the best plan" if f.plan and _same(f.plan, best) else f.why,
        }
        for f in answer.families
    )
    columns = (
        Column("name", "family", align="left"),
        Column("layout", "its best", align="left"),
        Column("step", "step"),
        Column("memory", "mem GB"),
        Column("why", "why it loses", align="left"),
    )
    return Sheet(columns, rows, f"Families on {best.gpus:,} GPUs")


def _same(one: Plan, other: Plan) -> bool:
    return (one.layout, one.batch, one.recompute) == (other.layout, other.batch, other.recompute)


def _signed(value: float, show: Any) -> str:
    return f"{'+' if value >= 0 else '−'}{show(abs(value))}"


def amount(value: float, unit: str) -> str:
    """Show a figure with its unit."""
    if unit == "bytes":
        return show_bytes(value)
    if unit in ("seconds", "s"):
        return show_seconds(value)
    if unit in ("ratio", "share"):
        return percent(value)
    if unit == "USD":
        return show_usd(value)
    if unit == "bytes/s per GPU":
        return show_bandwidth(value)
    return f"{count(value)} {unit}".strip()


def _compared(problem: PlanningProblem, found: Comparison) -> Report:
    rows = (
        ("Asked", layout_text(found.asked)),
        ("Best", layout_text(found.best)),
        ("Why not", found.why),
    )
    return Report(
        blocks=(Facts((*problem_lines(problem), *rows)), *_side_by_side(found)),
        data={**_stamp(problem, COMPARE_SCHEMA), **found.model_dump(mode="json")},
        records=tuple(d.model_dump(mode="json") for d in found.differences),
    )


def _side_by_side(found: Comparison) -> tuple[Block, ...]:
    plans = (found.asked, found.best)
    run = all(plan.cost.steps is not None for plan in plans)
    priced = all(plan.cost.usd is not None for plan in plans)
    columns = plan_columns(whole_run=run, priced=priced)[1:]
    rows = tuple(
        {**plan_row(plan, ""), "rank": mark} for plan, mark in zip(plans, (1, 2), strict=True)
    )
    return Sheet(columns, rows, "1 and 2"), _differences(found.differences)


def _differences(found: tuple[Difference, ...]) -> Sheet:
    rows = tuple(
        {
            "name": d.name,
            "one": amount(d.one, d.unit),
            "other": amount(d.other, d.unit),
            "more": _signed(d.one - d.other, lambda v, unit=d.unit: amount(v, unit)),
        }
        for d in found
    )
    columns = (
        Column("name", "figure", align="left"),
        Column("one", "1"),
        Column("other", "2"),
        Column("more", "1 − 2"),
    )
    return Sheet(columns, rows, "Differences")


def diff_report(problem: PlanningProblem, one: Plan, other: Plan) -> Report:
    """Report where two plans differ."""
    found = compare(one, other)
    rows = (
        ("1", layout_text(one)),
        ("2", layout_text(other)),
        ("1 against 2", why_slower(one, other)),
    )
    return Report(
        blocks=(Facts((*problem_lines(problem), *rows)), *_side_by_side(found)),
        data={**_stamp(problem, COMPARE_SCHEMA), **found.model_dump(mode="json")},
        records=tuple(d.model_dump(mode="json") for d in found.differences),
    )


def flips_report(problem: PlanningProblem) -> Report:
    """Report the values at which another plan becomes best."""
    found = flips(problem)
    rows = tuple(_flip_row(flip) for flip in found)
    columns = (
        Column("parameter", "figure", align="left"),
        Column("now", "now"),
        Column("last", "best until"),
        Column("first", "other from"),
        Column("after", "then best", align="left"),
    )
    today = found[0].before if found else ""
    head = (*problem_lines(problem), ("Best now", today or "nothing changes it"))
    return Report(
        blocks=(Facts(head), Sheet(columns, rows, "When another plan is best")),
        data={
            **_stamp(problem, FLIPS_SCHEMA),
            "flips": [flip.model_dump(mode="json") for flip in found],
        },
        records=tuple(flip.model_dump(mode="json") for flip in found),
    )


def measure_report(problem: PlanningProblem) -> Report:
    """Report which plan loses least where predictions err, and which runs tell plans apart."""
    found = robust(problem)
    if not found.result.plans:
        return plans_report(problem, found.result)
    losses = Sheet(
        (
            Column("rank", "#", count),
            Column("layout", "layout", align="left"),
            Column("step", "step"),
            Column("worst", "loses at most", percent),
            Column("wins", "best in", percent),
        ),
        tuple(
            {**loss.model_dump(), "step": show_seconds(plan.estimate.time.step_s)}
            for loss, plan in zip(found.losses, found.result.plans, strict=True)
        ),
        f"Compute and traffic off by {percent(found.error)} either way",
    )
    runs = tuple(
        (f"Plan {m.rank}", f"{m.steps} steps of {m.flags}: {m.outcome}") for m in found.measurements
    )
    choice = (
        ("Robust", f"plan {found.choice} loses least"),
        ("A node less", found.after_loss_text),
        ("Then", "put the steps into RUNS.csv and run: shardplan calibrate RUNS.csv -o mine.yaml"),
    )
    return Report(
        blocks=(
            Facts(tuple(problem_lines(problem))),
            losses,
            Facts(runs, "Measure next"),
            Facts(choice),
        ),
        data={**_stamp(problem, MEASURE_SCHEMA), **found.model_dump(mode="json")},
        records=tuple(loss.model_dump(mode="json") for loss in found.losses),
    )


def _flip_row(flip: Flip) -> dict[str, Any]:
    return {
        "parameter": flip.parameter,
        "now": amount(flip.now, flip.unit),
        "last": amount(flip.last, flip.unit),
        "first": amount(flip.first, flip.unit),
        "after": flip.after or "nothing fits",
    }


def code_report(code: str) -> Report:
    """Report what a limit, a status or a verdict means.

    Raises
    ------
    InputError
        For an unknown one.
    """
    found = meaning(code)
    if found is None:
        hint = f"{did_you_mean(code, known())} Known: {', '.join(known())}.".strip()
        raise InputError(Problem("explain", 0, 0, code[:40], "SP112", "is not a code.", hint))
    rows = (("Code", code), ("Meaning", found[0]), *((("Helps", found[1]),) if found[1] else ()))
    data = {"code": code, "meaning": found[0], "helps": found[1]}
    return Report((Facts(rows),), data, (data,))
