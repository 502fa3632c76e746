"""``solve``: the proven-best plan of a problem, its runners-up, its front, its certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from topology.cluster import NodeGroup

from ..cost.calibrated import Calibrated
from ..cost.goodput import Goodput
from ..cost.own_profile import find_profile
from ..cost.profile import FRAMEWORK_STACK, Profile
from ..cost.tables import CostModel
from ..cost.textbook_model import Textbook, textbook_search
from ..job.job import PlanningProblem
from ..job.price_kinds import under_one_kind
from ..job.rules import Rule
from ..job.search import Search
from ..result import Result
from .best_first import Clock
from .cpsat.factory import SolverSettings
from .group_search import GroupSearch, Progress
from .idle import with_notes_on_gpus
from .instance import Goal, Instance
from .mixed import Mixed, Part, alone
from .validate import is_whole, validate, validate_mixed, validate_order
from .variants import merged, variants_of


def profile_of(problem: PlanningProblem) -> Profile:
    """Return the profile that a problem names, or its framework's default."""
    stack = problem.account.profile or FRAMEWORK_STACK[problem.framework]
    profile, search = find_profile(stack, problem.cluster.group.gpu.id), problem.search
    chosen: dict[str, Any] = {"cp_comm": search.cp_comm, "schedule": search.schedule}
    if search.recompute_modules is not None:
        chosen["recompute_modules"] = search.recompute_modules
    return profile.model_copy(update={"software": profile.software.model_copy(update=chosen)})


def instance_of(
    problem: PlanningProblem, goal: Goal | None = None, search: Search | None = None
) -> Instance:
    """Return the search instance of a problem, or of its twin with another goal or search.

    Raises
    ------
    InputError
        Where parts of the problem contradict each other, or ask what is not supported.
    """
    problem = under_one_kind(problem)
    validate(problem)
    group, limits = problem.cluster.group, problem.limits
    search = search or problem.search
    if problem.account.cost_model == "textbook":
        search = textbook_search(search)
        cost: CostModel = Textbook(problem.job, group, limits, search, problem.account)
    else:
        cost = Calibrated(problem.job, group, limits, search, profile_of(problem))
    goal = goal or problem.objective.minimise
    goodput = Goodput.of(problem.job, problem.reliability)
    return Instance(problem.job, group, limits, search, cost, goal, goodput=goodput)


def solve(
    problem: PlanningProblem,
    *,
    seed: int = 0,
    workers: int = 1,
    time_limit_s: float | None = None,
    top: int | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
    explain: bool = True,
) -> Result:
    """Find the best plan and prove it.

    Parameters
    ----------
    problem
        Job, cluster, limits, search, objective.
    seed, workers
        CP-SAT's random seed and threads; one thread is deterministic.
    time_limit_s
        Wall-clock limit of the whole search; None for none.
    top
        Plans to return; None takes the problem's.
    progress
        Called as the search goes on with bound and best value.
    explain
        Say why nothing fits, where nothing does.
    stop
        Asked as the search goes on; once it is true the best so far is returned.

    Returns
    -------
    Result
        ``status`` is ``optimal`` (proved), ``feasible`` (a plan, unproved; within the gap that the
        objective allows where a note says so), ``infeasible`` (proved) or ``unknown`` (time ran out
        before any plan).

    Raises
    ------
    InputError
        Where the problem contradicts itself or asks what is not supported.
    """
    validate_order(problem)
    validate_mixed(problem)
    settings, clock = SolverSettings(seed, workers), Clock(time_limit_s)
    if stop is not None:
        clock.stop = stop
    top = top or problem.objective.top
    results = [
        _solve_one(one, settings, clock, top, progress, explain) for one in variants_of(problem)
    ]
    result = results[0] if len(results) == 1 else merged(problem, results, top)
    return with_notes_on_gpus(problem, _with_gap(result, problem.objective.gap))


def _with_gap(result: Result, asked: float) -> Result:
    """Say that the search ended at the gap that was good enough, where it did."""
    left = result.certificate.gap
    if result.status != "feasible" or not asked or left is None or left > asked:
        return result
    note = f"stopped within the gap of {asked:.2%}: the optimum is at most {left:.2%} less"
    return result.model_copy(update={"notes": (*result.notes, note)})


def _solve_one(
    problem: PlanningProblem, settings: SolverSettings, clock: Clock, top: int,
    progress: Progress | None, explain: bool,
) -> Result:  # fmt: skip
    if len(problem.cluster.groups) > 1:
        return _solve_mixed(problem, settings, clock, top)
    return GroupSearch(problem, instance_of(problem), settings, clock).run(top, progress, explain)


def _holds(group: NodeGroup, gpus: int) -> bool:
    """Whether a group alone has so many GPUs: whole nodes, or an even part of one."""
    return gpus <= group.gpus and is_whole(gpus, group.gpus_per_node)


def _solve_mixed(
    problem: PlanningProblem, settings: SolverSettings, clock: Clock, top: int
) -> Result:
    """Search each node group alone, then pipelines across groups."""
    parts = []
    for number, group in enumerate(problem.cluster.groups):
        one = alone(problem, number)
        exact = one.search.gpus
        if exact is not None and not _holds(group, exact):  # no plan on this group alone
            rules = (*one.search.rules, Rule(axis="gpus", relation="=", value=exact))
            alone_search = one.search.model_copy(update={"gpus": None, "rules": rules})
            one = replace(one, search=alone_search)
        instance = instance_of(one)
        result = GroupSearch(one, instance, settings, clock).run(top, None, explain=False)
        parts.append(Part(replace(instance, search=problem.search), result))
    tolerance = max(part.result.tolerance for part in parts)
    return Mixed(problem, parts, settings, clock).run(top, tolerance)
