"""Why nothing fits: clashing limits and relaxations, against enumeration."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from solver import solve
from solver.job.job import Limits, Objective, PlanningProblem
from solver.job.search import Search
from solver.result import Relaxation
from tests.oracle.enumerator import enumerate_best
from tests.oracle.lifted import feasible, holding, minimal_clashes
from tests.oracle.problems import question, random_problem, with_money_limits
from tests.search.helpers import problem
from topology.units import parse_duration, show_usd

FIELDS = {"communication": "max_comm", "bubble": "max_bubble", "memory": "mem_headroom"}
STEP = 0.01


def infeasible_problems(seed: int) -> list[tuple[int, PlanningProblem]]:
    """Random problems that hold no plan, some of them for money or time alone."""
    found = []
    for number in range(10_000):
        drawn = random_problem(seed, number)
        fast = enumerate_best(question(drawn), "time")
        if fast is not None and number % 2:
            drawn = with_money_limits(drawn, seed, number, fast)
        if enumerate_best(question(drawn), "time") is None:
            found.append((number, drawn))
        if len(found) == MOST:
            break
    return found


MOST = 10
SEEDS = [0]


def check_one(asked: PlanningProblem) -> None:
    truth = question(asked)
    result = solve(asked)
    assert result.status == "infeasible"
    why = result.infeasibility
    assert why is not None
    every = frozenset(holding(truth))
    if not feasible(truth, frozenset()):
        assert why.clashes == ()
        assert why.reasons[0].startswith(("divisibility", "contradicting rules"))
        return
    assert set(why.clashes) == set(minimal_clashes(truth))
    for clash in why.clashes:
        assert not feasible(truth, frozenset(clash))
        assert all(feasible(truth, frozenset(clash) - {name}) for name in clash)
    known = {relaxation.limit for relaxation in why.relaxations}
    assert {n for n in every if feasible(truth, every - {n})} == known & every
    for relaxation in why.relaxations:
        check_relaxation(asked, relaxation)


def check_relaxation(asked: PlanningProblem, relaxation: Relaxation) -> None:
    """A relaxation brings a plan, and one step less does not."""
    field = FIELDS.get(relaxation.limit)
    if relaxation.to is None:
        roomy = asked.limits.model_copy(update={"mem_headroom": 0.0})
        assert not solvable(replace(asked, limits=roomy))
    elif field is not None:
        step = STEP if relaxation.limit == "memory" else -STEP
        at, less = (
            asked.limits.model_copy(update={field: round(to, 6)})
            for to in (relaxation.to, relaxation.to + step)
        )
        assert solvable(replace(asked, limits=at)), relaxation
        assert not solvable(replace(asked, limits=less)), relaxation
    elif relaxation.limit in ("deadline", "budget"):
        name = {"deadline": "deadline_s", "budget": "budget_usd"}[relaxation.limit]
        at, less = (
            asked.limits.model_copy(update={name: to})
            for to in (relaxation.to, relaxation.to - STEP * relaxation.have)
        )
        assert solvable(replace(asked, limits=at)), relaxation
        assert not solvable(replace(asked, limits=less)), relaxation
    elif relaxation.limit == "max_stages":
        at, less = (
            asked.limits.model_copy(update={"max_stages": int(to)})
            for to in (relaxation.to, relaxation.to - 1)
        )
        assert solvable(replace(asked, limits=at))
        assert not solvable(replace(asked, limits=less))
    elif relaxation.limit == "gpus":
        group = asked.cluster.group
        larger = replace(group, nodes=int(relaxation.to))
        fewer = replace(group, nodes=int(relaxation.to) - 1)
        free = asked.search.model_copy(update={"gpus": None, "max_gpus": None})
        enough, short = (
            replace(asked, search=free, cluster=replace(asked.cluster, groups=(g,)))
            for g in (larger, fewer)
        )
        assert solvable(enough)
        assert fewer.nodes == 0 or not solvable(short)


def solvable(asked: PlanningProblem) -> bool:
    return enumerate_best(question(asked), "time") is not None


@pytest.mark.parametrize("seed", SEEDS)
def test_clashes_and_relaxations(seed: int) -> None:
    for _, asked in islice(infeasible_problems(seed), MOST):
        check_one(asked)


@pytest.mark.nightly
def test_clashes_and_relaxations_of_two_hundred() -> None:
    checked = 0
    for seed in range(1, 21):
        for _, asked in infeasible_problems(seed):
            check_one(asked)
            checked += 1
    assert checked == 200


@pytest.mark.nightly
def test_a_budget_is_explained_over_all_splits_where_stages_are_free() -> None:
    """Spread by the rule the least is $53,976; a search over all splits finds less."""
    asked = problem(
        limits=Limits(budget_usd=50_000), objective=Objective(minimise="cost"),
        search=Search(stages="free"),
    )  # fmt: skip
    why = solve(asked).infeasibility
    free = solve(replace(asked, limits=Limits())).plans[0].cost.usd
    assert why is not None
    assert free is not None
    text = next(r.text for r in why.relaxations if r.limit == "budget")
    assert f"costs {show_usd(free)}," in text


def test_what_to_try_for_a_model_that_is_too_large() -> None:
    result = solve(problem(nodes=1))
    assert result.infeasibility is not None
    by_limit = {r.limit: r for r in result.infeasibility.relaxations}
    assert by_limit["memory"].to is None
    assert (by_limit["gpus"].have, by_limit["gpus"].to) == (1, 3)
    assert result.infeasibility.clashes == (("memory",),)


def test_states_on_the_host_and_in_eight_bit_are_tried() -> None:
    result = solve(problem(nodes=2, batch=64))
    assert result.infeasibility is not None
    tried = {r.command for r in result.infeasibility.relaxations}
    assert "--offload optimizer" in tried


def test_a_rule_that_leaves_nothing_is_among_what_to_change() -> None:
    search = Search.model_validate({"tp": (1,), "pp": (1,), "zero": (0, 1)})
    result = solve(problem(search=search, limits=Limits(max_comm=0.3)))
    assert result.infeasibility is not None
    tried = {r.command for r in result.infeasibility.relaxations}
    assert {"without search.tp", "without search.zero"} & tried


def tries(asked: PlanningProblem) -> tuple[str, ...]:
    return solve(asked).notes


def test_the_leanest_plan_is_one_within_the_other_limits() -> None:
    reasons = solve(problem(limits=Limits(budget_usd=50_000))).reasons
    assert reasons[0].startswith("memory: the leanest plan within budget and the other limits (")
    alone = solve(problem(limits=Limits(budget_usd=20_000), search=Search(gpus=8))).reasons
    assert any(r.startswith("memory, even by itself: the leanest plan (") for r in alone)


def test_where_no_single_change_suffices_what_to_change_beside_the_budget() -> None:
    asked = problem(limits=Limits(budget_usd=20_000), search=Search(gpus=8))
    why = solve(asked).infeasibility
    assert why is not None
    assert not solvable(replace(asked, limits=Limits()))
    gpus = next(r for r in why.relaxations if r.limit == "gpus and budget")
    assert gpus.command == "--gpus 24, without --budget"
    assert "within every limit but budget" in gpus.text
    fits = {n: solvable(problem(search=Search(gpus=n))) for n in (8, 16, 24)}
    assert fits == {8: False, 16: False, 24: True}
    assert "--offload optimizer, without --budget" in {r.command for r in why.relaxations}


def test_more_gpus_than_asked_for_within_the_cluster_need_no_nodes() -> None:
    assert any(note.startswith("try --gpus 24") for note in tries(problem(search=Search(gpus=8))))
    assert any(
        note.startswith("try cluster: {nodes: 3} and --max-gpus 24")
        for note in tries(problem(nodes=1, search=Search(max_gpus=8)))
    )


@pytest.mark.parametrize(
    ("days", "tokens", "unit"), [(5, 10**11, "d"), (0.25, 2 * 10**9, "h"), (0.01, 10**8, "s")]
)
def test_a_deadline_is_hinted_in_the_unit_of_the_reader(
    days: float, tokens: int, unit: str
) -> None:
    given = Limits(deadline_s=days * 86_400)
    asked = problem(tokens=tokens, limits=given)
    note = next(note for note in tries(asked) if note.startswith("try --deadline "))
    written = note.split()[2]
    assert written.endswith(unit)
    eased = given.model_copy(update={"deadline_s": parse_duration(written)})
    assert solvable(replace(asked, limits=eased))
    assert parse_duration(written) <= 3 * days * 86_400
