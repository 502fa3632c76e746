"""Why the best plan is best: what binds, what each lever costs, what the others lack."""

from __future__ import annotations

from ..job.job import PlanningProblem
from ..layout_check import LayoutRequest, check
from ..plan import Plan
from ..result import Result
from ..search.best_first import Clock
from ..search.clashes import Grounds
from ..search.cpsat.factory import SolverSettings
from ..search.freest import layout_of
from ..search.search import instance_of, solve
from .compare import compare
from .families import families
from .moves import moves
from .outputs import Binding, Comparison, Explanation


def explain(problem: PlanningProblem, *, seed: int = 0, workers: int = 1) -> Explanation:
    """Solve a problem and explain the answer.

    Where nothing fits the result says why, and there is nothing else to explain.
    """
    result = solve(problem, seed=seed, workers=workers)
    if not result.plans:
        return Explanation(result=result, binding=(), moves=(), families=())
    best = result.plans[0]
    return Explanation(
        result=result,
        binding=binding(problem, result),
        moves=moves(problem, best),
        families=families(problem, best),
    )


def binding(problem: PlanningProblem, result: Result) -> tuple[Binding, ...]:
    """Lift each limit in turn and say what the best plan would gain."""
    best = result.plans[0]
    if best.blocks or len(problem.cluster.groups) > 1:
        return tuple(_kept(best, name.id) for name in best.limits)
    instance = instance_of(problem)
    grounds = Grounds(instance, SolverSettings(), Clock())
    every = frozenset(grounds.limits)
    have = grounds.plan(every, instance.goal)
    found = []
    for limit in best.limits:
        if limit.id not in every or have is None:
            found.append(_kept(best, limit.id))
            continue
        free = grounds.plan(every - {limit.id}, instance.goal)
        gain, layout = 0.0, ""
        if free is not None:
            value, without = (f.decision.value(f.instance) for f in (have, free))
            gain, layout = 1 - without / value, layout_of(free)
        found.append(
            _kept(best, limit.id).model_copy(
                update={"binds": gain > 0, "gain": gain, "layout": layout if gain > 0 else ""}
            )
        )
    return tuple(found)


def _kept(best: Plan, name: str) -> Binding:
    limit = next(limit for limit in best.limits if limit.id == name)
    return Binding(
        limit=name, value=limit.value, allowed=limit.limit, unit=limit.unit, binds=False, gain=0.0,
        layout="",
    )  # fmt: skip


def why_not(problem: PlanningProblem, layout: LayoutRequest) -> Comparison | Result:
    """Hold a layout against the best plan; the result where there is no best plan."""
    asked = check(problem, layout)
    result = solve(problem, top=1)
    return compare(asked, result.plans[0]) if result.plans else result
