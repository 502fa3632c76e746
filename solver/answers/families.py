"""The best plan of each neighbour family, and why it loses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..job.job import PlanningProblem
from ..job.rules import Rule
from ..job.search import Search
from ..plan import Plan
from ..search.best_first import Clock
from ..search.clashes import Grounds
from ..search.cpsat.factory import SolverSettings
from ..search.relaxations import Relaxer
from ..search.search import instance_of, solve
from .compare import why_slower
from .outputs import Family

Rules = tuple[Rule, ...]


def _only(*axes: str) -> Rules:
    """Return rules that switch axes off."""
    return tuple(Rule(axis=axis, relation="=", value=1) for axis in axes)


def _least(axis: str, value: int = 2) -> Rule:
    return Rule(axis=axis, relation=">=", value=value)


ALONE = ("tp", "pp", "cp", "ep")
FAMILIES: tuple[tuple[str, Rules], ...] = (
    ("data parallel", (*_only(*ALONE), Rule(axis="zero", relation="<=", value=2))),
    (
        "full sharding",
        (*_only(*ALONE, "dp_replicate"), Rule(axis="zero", relation="=", value=3), _least("dp")),
    ),
    ("hybrid sharding", (_least("dp_replicate"),)),
    ("tensor and data", (*_only("pp", "cp", "ep"), _least("tp"))),
    ("pipeline and data", (*_only("tp", "cp", "ep"), _least("pp"))),
    ("tensor, pipeline and data", (*_only("cp", "ep"), _least("tp"), _least("pp"))),
    ("context parallel", (_least("cp"),)),
    ("expert parallel", (_least("ep"),)),
)
"""Families by what they switch off and on."""
NOT_IN_TEXTBOOK = ("context parallel", "expert parallel")
"""Axes that the textbook account does not have."""


def families(problem: PlanningProblem, best: Plan) -> tuple[Family, ...]:
    """Find the best plan of each family on the GPUs of the best plan."""
    if best.blocks or len(problem.cluster.groups) > 1:
        return ()
    return tuple(_families(problem, best))


def _families(problem: PlanningProblem, best: Plan) -> Iterator[Family]:
    for name, rules in FAMILIES:
        if name == "expert parallel" and problem.job.transformer.moe is None:
            continue
        if problem.account.cost_model == "textbook" and name in NOT_IN_TEXTBOOK:
            continue
        asked = replace(problem, search=_within(problem.search, rules, best.gpus))
        found = solve(replace(asked, search=_even(asked.search)), top=1, explain=False)
        if found.plans:
            plan = found.plans[0]
            yield Family(name=name, plan=plan, why=why_slower(plan, best))
        else:
            yield Family(name=name, plan=None, why=_why_none(asked))


def _even(search: Search) -> Search:
    return search.model_copy(update={"stages": "even"})


def _within(search: Search, rules: Rules, gpus: int) -> Search:
    return search.model_copy(
        update={"rules": (*search.rules, *rules), "gpus": gpus, "max_gpus": None}
    )


def _why_none(problem: PlanningProblem) -> str:
    """Say in a line why a family holds no plan."""
    grounds = Grounds(instance_of(problem), SolverSettings(), Clock())
    if grounds.structural or not grounds.feasible(frozenset()):
        return "no such layout on these GPUs"
    clash = next(grounds.clashes(), frozenset())
    if clash == {"memory"}:
        return "memory: " + Relaxer(grounds).alone("memory")
    return "breaks " + " and ".join(sorted(clash)) if clash else "nothing fits"
