"""Plans over the error band, runs that tell them apart, and a node less."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import solve
from solver.answers.robust import RUNS, robust
from tests.search.helpers import problem


def test_the_plan_that_loses_least() -> None:
    found = robust(problem())
    assert [loss.rank for loss in found.losses] == [plan.rank for plan in found.result.plans]
    assert all(loss.worst >= 0 for loss in found.losses)
    least = min(loss.worst for loss in found.losses)
    assert next(loss for loss in found.losses if loss.rank == found.choice).worst == least
    # In every corner some plan is best.
    assert sum(loss.wins for loss in found.losses) >= 1


def test_runs_tell_close_plans_apart() -> None:
    found = robust(problem())
    assert 1 <= len(found.measurements) <= RUNS
    assert found.measurements[0].rank == 1
    plans = {plan.rank: plan for plan in found.result.plans}
    most = plans[1].estimate.time.step_s * (1 + found.result.tolerance)
    for run in found.measurements:
        assert run.expected_s == plans[run.rank].estimate.time.step_s <= most
        assert run.flags.startswith("--layout tp=") or "dp=" in run.flags


def test_a_node_less() -> None:
    asked = problem()
    found = robust(asked)
    assert found.after_loss is not None
    group = replace(asked.cluster.group, nodes=7)
    fewer = replace(asked, cluster=replace(asked.cluster, groups=(group,)))
    best = solve(fewer, top=1).plans[0]
    assert found.after_loss.estimate.time.step_s == best.estimate.time.step_s
    slower = best.estimate.time.step_s / found.result.plans[0].estimate.time.step_s - 1
    assert f"{slower:.1%} longer steps" in found.after_loss_text
    assert ("saves more" in found.after_loss_text) == (slower > 1 / 8)


@pytest.mark.parametrize("nodes", [1])
def test_nothing_to_choose(nodes: int) -> None:
    found = robust(problem(nodes=nodes))
    assert found.choice is None
    assert not found.losses


def test_every_plan_that_is_not_proposed_says_why() -> None:
    found = robust(problem())
    proposed = {run.rank for run in found.measurements}
    over = {p.rank: p.why for p in found.passed_over}
    assert proposed | over.keys() == {plan.rank for plan in found.result.plans}
    assert not proposed & over.keys()
    most = found.result.plans[0].estimate.time.step_s * (1 + found.result.tolerance)
    for plan in found.result.plans:
        if plan.rank in over:
            far = plan.estimate.time.step_s > most
            assert ("behind plan 1" in over[plan.rank]) == far
            assert ("closest in its parts to plan" in over[plan.rank]) == (not far)
