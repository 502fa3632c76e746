"""The answers as reports."""

from __future__ import annotations

from typing import Any

from topology.errors import InputError, Problem
from topology.faults import did_you_mean
from topology.units import show_bytes, show_seconds

from ..job.job import PlanningProblem
from ..layout_check import LayoutRequest
from ..plan import Plan
from ..report.blocks import Block, Column, Facts, Report, Sheet
from ..report.cells import gigabytes, percent
from ..report.header import problem_lines
from ..report.layouts import layout_text
from ..report.plan_lines import memory_line, step_line
from ..report.plans import plans_report
from ..result import Result
from .amounts import amount, apart, signed, stamp
from .codes import known, meaning
from .compare_report import compared
from .explain import explain, why_not
from .flips import SAME_PLAN, flips
from .outputs import Explanation, Flip

EXPLAIN_SCHEMA = "shardplan.explain/1"
FLIPS_SCHEMA = "shardplan.flips/1"
BEYOND = "the same so far; not looked at beyond"


def explain_report(
    problem: PlanningProblem, layout: LayoutRequest | None, seed: int = 0, workers: int = 1
) -> Report:
    """Explain the best plan of a problem, or why a layout is not it."""
    if layout is not None:
        found = why_not(problem, layout)
        if isinstance(found, Result):
            return plans_report(problem, found)
        return compared(problem, found)
    answer = explain(problem, seed=seed, workers=workers)
    if not answer.result.plans:
        return plans_report(problem, answer.result)
    return Report(
        blocks=tuple(_explanation(problem, answer)),
        data={**stamp(problem, EXPLAIN_SCHEMA), **answer.model_dump(mode="json")},
        records=tuple(move.model_dump(mode="json") for move in answer.moves),
    )


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
            "step": None if m.more_step_s is None else signed(m.more_step_s, show_seconds),
            "memory": None
            if m.more_memory_bytes is None
            else signed(m.more_memory_bytes, show_bytes),
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
    looked = {flip.parameter: flip.looked_at for flip in found}
    head = (
        *problem_lines(problem),
        ("Best now", today or "nothing fits"),
        ("Same plan", SAME_PLAN),
        ("Looked at", "; ".join(f"{name}: {every}" for name, every in looked.items())),
    )
    return Report(
        blocks=(Facts(head), Sheet(columns, rows, "When another plan is best")),
        data={
            **stamp(problem, FLIPS_SCHEMA),
            "flips": [flip.model_dump(mode="json") for flip in found],
        },
        records=tuple(flip.model_dump(mode="json") for flip in found),
    )


def _flip_row(flip: Flip) -> dict[str, Any]:
    if flip.first is None:
        last, first = amount(flip.last, flip.unit), None
    else:
        last, first = apart(flip.last, flip.first, flip.unit)
    return {
        "parameter": flip.parameter,
        "now": amount(flip.now, flip.unit),
        "last": last,
        "first": first,
        "after": BEYOND if flip.first is None else flip.after or "nothing fits",
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
