"""What is known of GPUs that the best plan leaves without work."""

from __future__ import annotations

from ..job.job import PlanningProblem
from ..result import Result

_BETTER = {"time": "faster", "cost": "cheaper"}


def with_idle_note(problem: PlanningProblem, result: Result) -> Result:
    """Add how many GPUs the best plan leaves idle, and only what the search proved of them."""
    note = _idle_note(problem, result)
    return result.model_copy(update={"notes": (*result.notes, note)}) if note else result


def _idle_note(problem: PlanningProblem, result: Result) -> str:
    search, total = problem.search, problem.cluster.gpus
    most = min(search.max_gpus or total, total)
    if not result.plans or search.gpus is not None or result.plans[0].gpus >= most:
        return ""
    used = result.plans[0].gpus
    counts = f"{used:,} of {total:,} GPUs work, {total - used:,} stay idle"
    if max(result.gpu_counts_considered) <= used:
        return f"{counts}: none of the layouts searched takes more"
    if result.preferences:
        return f"{counts}: the objectives in their order chose so"
    better = _BETTER[result.objective]
    if result.status != "optimal":
        return f"{counts}; that no layout on more GPUs is {better} is not proved"
    return f"{counts}: none of the layouts on more GPUs that keep the limits is {better}"
