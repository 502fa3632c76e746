"""Alternatives that change every price: each is a search, the best of all is the answer."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from topology.errors import InputError

from ..job.job import PlanningProblem
from ..job.price_kinds import asked_kinds, under
from ..job.search import Variants
from ..plan import Plan
from ..result import Result, Status
from .ranking import Ranking, joined, ranked
from .validate import validate, validate_schedules


def variants_of(problem: PlanningProblem) -> list[PlanningProblem]:
    """Return one problem for each combination of alternatives, those that are possible.

    Raises
    ------
    InputError
        Where none is: what the first of them breaks.
    """
    kinds = asked_kinds(problem)
    if kinds:
        return [one for kind in kinds for one in _alternatives(under(problem, kind))]
    return _alternatives(problem)


def _alternatives(problem: PlanningProblem) -> list[PlanningProblem]:
    """Return a problem for each possible combination of the search's alternatives."""
    asked, search = problem.search.variants, problem.search
    validate_schedules(problem)
    if asked == Variants() and search.schedules == (search.schedule,):
        return [problem]
    combinations = itertools.product(
        asked.precision or (problem.job.recipe.precision,),
        asked.offload or (search.offload,),
        asked.cp_comm or (search.cp_comm,),
        asked.recompute_modules or (search.recompute_modules,),
        search.schedules,
    )
    found, faults = [], []
    for precision, offload, cp_comm, modules, schedule in combinations:
        chosen = {
            "offload": offload, "cp_comm": cp_comm, "recompute_modules": modules,
            "schedule": schedule, "variants": Variants(),
        }  # fmt: skip
        recipe = problem.job.recipe.model_copy(update={"precision": precision})
        one = replace(
            problem,
            job=problem.job.model_copy(update={"recipe": recipe}),
            search=search.model_copy(update=chosen),
        )
        try:
            for group in problem.cluster.groups:
                validate(replace(one, cluster=replace(one.cluster, groups=(group,))))
        except InputError as error:
            faults.append(error)
        else:
            found.append(one)
    if not found:
        raise faults[0]
    return found


def merged(problem: PlanningProblem, results: Sequence[Result], top: int) -> Result:
    """Return the best plans of all alternatives, and one certificate for them."""
    order = Ranking(problem)
    by_identity: dict[object, Plan] = {}
    for plan in sorted((p for r in results for p in r.plans), key=order.key):
        by_identity.setdefault(_identity(plan), plan)
    plans = list(by_identity.values())
    shown = ranked(plans[:top])
    first = results[0]
    proved = all(result.status in ("optimal", "infeasible") for result in results)
    best = next((r for r in results if shown and r.plans and r.plans[0] == plans[0]), first)
    fast = [result.fastest for result in results if result.fastest is not None]
    front = order.not_dominated([p for r in results for p in r.front])
    notes = [note for r in results if r.plans for note in r.notes]
    status: Status = "infeasible" if proved else "unknown"
    if shown:
        status = "optimal" if proved else "feasible"
    return first.model_copy(
        update={
            "status": status,
            "plans": shown,
            "recommended": order.recommended(shown, first.tolerance),
            "fastest": min(fast, key=order.point, default=None),
            "refined": best.refined,
            "front": ranked(front, on_front=True),
            "gpu_counts_considered": tuple(
                sorted({n for result in results for n in result.gpu_counts_considered})
            ),
            "expected_error": max(result.expected_error for result in results),
            "certificate": joined([result.certificate for result in results]),
            "reasons": () if shown else first.reasons,
            "notes": tuple(dict.fromkeys([*notes, *kinds_note(problem)])) if shown else first.notes,
        }
    )


def kinds_note(problem: PlanningProblem) -> tuple[str, ...]:
    """Say what several kinds of price differ in, where failures are not counted."""
    kinds = asked_kinds(problem)
    if len(kinds) < 2 or problem.reliability is not None:  # noqa: PLR2004  (two differ)
        return ()
    return (
        f"{', '.join(kinds)} take equally long as failures are not counted: the cheapest is on the "
        "front alone, and its interruptions cost nothing (reliability: true counts them)",
    )


def _identity(plan: Plan) -> object:
    """Return what makes a plan itself: options that change nothing in it are left out.

    So is the kind of its price: each plan is shown once, under the kind that is best for it.
    """
    options = plan.options
    alike = {
        "cp_comm": options.cp_comm if plan.layout.cp > 1 else "",
        "recompute_modules": options.recompute_modules if "selective" in plan.recompute else (),
    }
    same = options.model_copy(update=alike)
    return plan.layout, plan.batch, plan.recompute, plan.recomputed_layers, plan.blocks, same
