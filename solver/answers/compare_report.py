"""Two plans side by side, as a report."""

from __future__ import annotations

from ..job.job import PlanningProblem
from ..plan import Plan
from ..report.blocks import Block, Column, Facts, Report, Sheet
from ..report.header import problem_lines
from ..report.layouts import layout_text
from ..report.plan_rows import plan_columns, plan_row
from .amounts import amount, signed, stamp
from .compare import compare, why_slower
from .outputs import Comparison, Difference

COMPARE_SCHEMA = "shardplan.compare/1"


def compared(problem: PlanningProblem, found: Comparison) -> Report:
    """Report why a layout is not the best one."""
    rows = (
        ("Asked", layout_text(found.asked)),
        ("Best", layout_text(found.best)),
        ("Why not", found.why),
    )
    return Report(
        blocks=(Facts((*problem_lines(problem), *rows)), *_side_by_side(found)),
        data={**stamp(problem, COMPARE_SCHEMA), **found.model_dump(mode="json")},
        records=tuple(d.model_dump(mode="json") for d in found.differences),
    )


def _side_by_side(found: Comparison) -> tuple[Block, ...]:
    plans = (found.asked, found.best)
    run = all(plan.cost.steps is not None for plan in plans)
    priced = all(plan.cost.usd is not None for plan in plans)
    kinds = len({plan.price_kind for plan in plans}) > 1
    columns = plan_columns(plans, whole_run=run, priced=priced, kinds=kinds)[1:]
    rows = tuple(
        {**plan_row(plan, ""), "rank": mark} for plan, mark in zip(plans, (1, 2), strict=True)
    )
    return Sheet(columns, rows, "1 and 2"), _differences(found.differences)


def _differences(found: tuple[Difference, ...]) -> Sheet:
    """Show the figures that differ as they are printed."""
    rows = tuple(
        {
            "name": d.name,
            "one": one,
            "other": other,
            "more": signed(d.one - d.other, lambda v, unit=d.unit: amount(v, unit)),
        }
        for d in found
        if (one := amount(d.one, d.unit)) != (other := amount(d.other, d.unit))
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
        data={**stamp(problem, COMPARE_SCHEMA), **found.model_dump(mode="json")},
        records=tuple(d.model_dump(mode="json") for d in found.differences),
    )
