"""``solve`` against the enumerator: value, every tie, and the front, on random small problems.

``benchmarks/optimality.py`` does the same on more of them.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.job.job import Limits
from solver.job.search import Search

from ..oracle.coarse import coarse_costs
from ..oracle.compare import compare, compare_cut_short
from ..oracle.enumerator import enumerate_best
from ..oracle.problems import question, random_problem, with_money_limits, with_schedules

SEED = 20


@pytest.mark.parametrize("number", range(24))
def test_solve_equals_the_enumerator(number: int) -> None:
    assert compare(random_problem(SEED, number), time_limit_s=60).mismatches == ()


@pytest.mark.parametrize("number", range(12))
def test_solve_equals_the_enumerator_within_deadline_and_budget(number: int) -> None:
    problem = random_problem(SEED, number)
    problem = replace(problem, job=problem.job.model_copy(update={"tokens": 10**11}))
    fast = enumerate_best(question(problem), "time")
    if fast is None:
        pytest.skip("nothing fits this problem")
    problem = with_money_limits(problem, SEED, number, fast)
    assert problem.limits.deadline_s is not None or problem.limits.budget_usd is not None
    assert compare(problem, time_limit_s=60).mismatches == ()


@pytest.mark.parametrize("number", [*range(4), *range(4, 60, 5)])
def test_ties_break_as_the_enumerator_breaks_them(number: int) -> None:
    """Costs on a coarse grid; every fifth problem is so small that most of its plans tie."""
    with coarse_costs():
        assert compare(random_problem(SEED, number), time_limit_s=60).mismatches == ()


@pytest.mark.parametrize("number", range(6))
def test_an_answer_cut_short_claims_nothing_false(number: int) -> None:
    assert compare_cut_short(random_problem(SEED, number), (0.002, 0.02, 0.1)) == []


@pytest.mark.parametrize("zero", [(0,), (0, 1), (3,)])
def test_single_shardings(zero: tuple[int, ...]) -> None:
    """Restricted ZeRO stages leave few columns, which must not change any figure."""
    problem = random_problem(SEED, 1)
    problem = replace(problem, limits=Limits(), search=Search(zero=zero))
    assert compare(problem, time_limit_s=60).mismatches == ()


@pytest.mark.parametrize("within", [True, False])
def test_tensor_parallelism_across_nodes(within: bool) -> None:
    """On nodes of one or two GPUs larger groups are legal where the limit is off."""
    found = []
    for number in range(200):
        problem = random_problem(SEED, number)
        group = problem.cluster.group
        if group.gpus_per_node <= 2 < group.gpus <= 16 and group.nvlink_domain <= 2:
            limits = Limits(tp_within_node=within, max_comm=10.0)
            outcome = compare(replace(problem, limits=limits, search=Search(tp=(4,))), 60)
            assert outcome.mismatches == ()
            found.append(outcome.best is not None)
            if len(found) >= 4 and any(found) is not within:
                break
    assert any(found) is not within


@pytest.mark.parametrize("number", [0, 1, 10, 11, 12])
def test_schedules_equal_the_enumerator(number: int) -> None:
    """Weight gradients wait in every plan, or where it helps."""
    problem = with_schedules(random_problem(SEED, number), SEED, number)
    assert "zb-h1" in problem.search.schedules
    assert compare(problem, time_limit_s=60).mismatches == ()
