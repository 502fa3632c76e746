"""Which plan loses least where predictions err, and what to measure, as a report."""

from __future__ import annotations

from topology.units import show_seconds

from ..job.job import PlanningProblem
from ..report.blocks import Column, Facts, Report, Sheet
from ..report.cells import count, percent
from ..report.header import problem_lines
from ..report.plans import plans_report
from .amounts import stamp
from .outputs import Robust
from .robust import robust

MEASURE_SCHEMA = "shardplan.measure/1"


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
    others = tuple((f"Plan {p.rank}", p.why) for p in found.passed_over)
    choice = (
        ("Robust", _choice(found)),
        ("A node less", found.after_loss_text),
        ("Then", "put the steps into RUNS.csv and run: shardplan calibrate RUNS.csv -o mine.yaml"),
    )
    return Report(
        blocks=(
            Facts(tuple(problem_lines(problem))),
            losses,
            Facts(runs, "Measure next"),
            *([Facts(others, "Not proposed")] if others else []),
            Facts(choice),
        ),
        data={**stamp(problem, MEASURE_SCHEMA), **found.model_dump(mode="json")},
        records=tuple(loss.model_dump(mode="json") for loss in found.losses),
    )


def _choice(found: Robust) -> str:
    """Say which plan loses least, and what the next best in that would lose."""
    ranked = sorted(found.losses, key=lambda loss: (loss.worst, loss.rank))
    least = f"plan {ranked[0].rank} loses least, {percent(ranked[0].worst)} at most"
    if len(ranked) == 1:
        return least
    return f"{least}; plan {ranked[1].rank} up to {percent(ranked[1].worst)}"
