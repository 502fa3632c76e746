"""What is said beside an answer of the GPUs it uses: how many stay idle, what was measured."""

from __future__ import annotations

from ..cost.scale import plan_notes
from ..job.job import PlanningProblem
from ..result import Result

_BETTER = {"time": "faster", "cost": "cheaper"}


def with_notes_on_gpus(problem: PlanningProblem, result: Result) -> Result:
    """Add how many GPUs the best plan leaves idle, and where it is larger than measured runs."""
    if not result.plans:
        return result
    idle = _idle_note(problem, result)
    notes = ((idle,) if idle else ()) + plan_notes(problem, result.plans[0].gpus)
    return result.model_copy(update={"notes": (*result.notes, *notes)}) if notes else result


def _idle_note(problem: PlanningProblem, result: Result) -> str:
    """Say what the search proved of larger plans, and no more."""
    search, total = problem.search, problem.cluster.gpus
    most = min(search.max_gpus or total, total)
    if search.gpus is not None or result.plans[0].gpus >= most:
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
