"""Which figure of a problem moves the optimum most: each one less and more, solved again."""

from __future__ import annotations

from ..job.job import PlanningProblem
from ..plan import Plan
from .flips import best_at
from .followed import Parameter, parameters
from .outputs import Effect


def sensitivity(problem: PlanningProblem) -> tuple[Effect, ...]:
    """Return what the first step down and up of every figure does to the optimum, most first.

    The figures are those of `flips`, halved and doubled, headroom a quarter less. Nothing for mixed
    clusters and where no plan fits.
    """
    if len(problem.cluster.groups) > 1:
        return ()
    now = best_at(problem)
    if now is None:
        return ()
    base = _price(problem, now)
    found = (_effect(problem, one, base) for one in parameters(problem))
    return tuple(sorted(found, key=lambda effect: -effect.widest))


def _effect(problem: PlanningProblem, one: Parameter, base: float) -> Effect:
    def change(value: float | None) -> float | None:
        if value is None:
            return None
        changed = one.change(problem, value)
        plan = best_at(changed)
        return None if plan is None else _price(changed, plan) / base - 1

    return Effect(
        parameter=one.name, unit=one.unit, now=one.now, less=one.less, more=one.more,
        less_change=change(one.less), more_change=change(one.more),
    )  # fmt: skip


def _price(problem: PlanningProblem, plan: Plan) -> float:
    """Return the objective of a token: batches and lengths of any size compare."""
    cost = plan.cost
    whole = cost.usd if problem.objective.minimise == "cost" else cost.wall_clock_s
    tokens = (cost.steps or 1) * problem.job.step_tokens
    return (whole or cost.wall_clock_s) / tokens
