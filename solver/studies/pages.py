"""``report``: the HTML page of a plan JSON or of a sweep's file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from topology.errors import InputError

from ..job.job import Limits, PlanningProblem
from ..layout_check import LayoutRequest, check
from ..plan import Plan
from ..report.html.plan_page import plan_page
from ..report.html.sweep_page import sweep_page
from ..report.layouts import layout_values
from ..report.stored import read_problem_or_plan, read_result
from ..search.search import solve
from .aims import fastest
from .store import read_store
from .store_file import is_store
from .sweep import stored_sweep
from .sweep_report import sweep_report

LOOSE = Limits(mem_headroom=0.0, max_bubble=1.0, max_comm=10.0, tp_within_node=False)
MOST_REJECTED = 24


Sections = Sequence[tuple[str, str]]


def html_of(path: str, more: Callable[[PlanningProblem], Sections] | None = None) -> str:
    """Return the page of a plan JSON or of the last sweep of a file.

    ``more`` makes further sections, heading and HTML, from the problem of a plan.

    Raises
    ------
    InputError
        Where the file is neither.
    """
    if is_store(path):
        store = read_store(path)
        sweep = stored_sweep(store)
        store.close()
        title = f"Sweep of {Path(sweep.spec.path).name or 'a problem'}"
        return sweep_page(
            title, sweep_report(sweep), sweep.rows, sweep.spec.columns, fastest(sweep.spec)
        )
    result, problem = read_result(path), read_problem_or_plan(path, {}, {})
    rejected = rejected_plans(problem) if result.plans else []
    extra = more(problem) if more is not None and result.plans else ()
    return plan_page(problem, result, rejected, extra)


def rejected_plans(problem: PlanningProblem) -> list[Plan]:
    """Return plans that would be found without the limits, with the limits that each breaks."""
    group = problem.cluster.groups[0]
    if len(problem.cluster.groups) > 1 or problem.job.finetune is not None:
        return []
    loose = LOOSE.model_copy(update={"comm_metric": problem.limits.comm_metric})
    relaxed = replace(problem, limits=loose)
    found = solve(relaxed, top=MOST_REJECTED, explain=False)
    broken = []
    for plan in found.plans:
        if plan.gpus > group.gpus:
            continue
        try:
            judged = check(problem, LayoutRequest(**layout_values(plan)))
        except InputError:  # a layout that only the search can state
            continue
        if any(not limit.ok for limit in judged.limits):
            broken.append(judged)
    return broken
