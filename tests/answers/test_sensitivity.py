"""What less and more of each input does to the optimum, held against solving again by hand."""

from __future__ import annotations

import pytest

from solver import solve
from solver.answers.followed import parameters
from solver.answers.page import answer_sections
from solver.answers.sensitivity import sensitivity
from solver.job.job import Objective, PlanningProblem
from tests.search.helpers import TEXTBOOK, problem

STEP_TOKENS = 1024 * 4096


def seconds_a_token(asked: PlanningProblem) -> float:
    plan = solve(asked, top=1, explain=False).plans[0]
    return plan.estimate.time.step_s / asked.job.step_tokens


def test_every_effect_is_that_of_solving_again() -> None:
    asked = problem("seed-70b", account=TEXTBOOK)
    found = sensitivity(asked)
    by_name = {one.name: one for one in parameters(asked)}
    assert {effect.parameter for effect in found} == set(by_name)
    base = seconds_a_token(asked)
    for effect in found:
        for value, change in ((effect.less, effect.less_change), (effect.more, effect.more_change)):
            if value is None or change is None:
                continue
            again = seconds_a_token(by_name[effect.parameter].change(asked, value))
            # Wall-clock is of whole steps.
            assert change == pytest.approx(again / base - 1, abs=1e-3)
    assert [effect.widest for effect in found] == sorted((e.widest for e in found), reverse=True)


def test_money_counts_where_it_is_minimised() -> None:
    asked = problem("seed-70b", account=TEXTBOOK, objective=Objective(minimise="cost"))
    gpus = next(effect for effect in sensitivity(asked) if effect.parameter == "GPUs")
    # Twice the GPUs can only make it cheaper, and at most so much as is not compute.
    assert gpus.more_change is not None
    assert -0.2 < gpus.more_change <= 0


def test_where_nothing_fits() -> None:
    assert sensitivity(problem("llama3-405b", nodes=1)) == ()
    small = problem("llama3-70b", nodes=4, account=TEXTBOOK)
    lost = {e.parameter: e for e in sensitivity(small)}["GPUs"]
    assert lost.less == 16
    html = dict(answer_sections(small, sensitive=True, flips=False))["Sensitivity"]
    assert ("16 GPUs: nothing fits" in html) == (lost.less_change is None)
