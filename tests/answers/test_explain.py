"""Why the best plan is best, and why another one is not."""

from __future__ import annotations

import pytest

from solver import LayoutRequest, solve
from solver.answers.codes import LIMITS, known, meaning
from solver.answers.explain import explain, why_not
from solver.answers.outputs import Comparison
from solver.answers.reports import code_report, explain_report
from solver.job.job import Limits
from solver.job.search import Search
from solver.result import Result
from solver.search.instance import LIMIT_NAMES
from tests.search.helpers import TEXTBOOK, problem
from topology.errors import InputError


def test_a_limit_costs_what_the_optimum_without_it_gains() -> None:
    answer = explain(problem())
    by_name = {b.limit: b for b in answer.binding}
    best = answer.result.plans[0].estimate.time.step_s
    memory = by_name["memory"]
    assert memory.binds
    roomy = solve(problem(limits=Limits(mem_headroom=0.0)), top=1).plans[0].estimate.time.step_s
    assert memory.gain >= 1 - roomy / best
    assert not by_name["max_stages"].binds
    stages = solve(problem(limits=Limits(max_stages=128)), top=1).plans[0].estimate.time.step_s
    assert stages == best


def test_every_lever_is_the_plan_with_one_thing_changed() -> None:
    answer = explain(problem())
    best = answer.result.plans[0]
    for move in answer.moves:
        if move.step_s is not None and move.memory_bytes is not None:
            assert move.more_step_s == move.step_s - best.estimate.time.step_s
            assert move.more_memory_bytes == move.memory_bytes - best.estimate.peak_bytes
            kept = not move.broken
            assert not (kept and move.step_s < best.estimate.time.step_s - 1e-6), move
    levers = {move.lever for move in answer.moves}
    assert {"TP 8", "recompute full", "ZeRO 3", "offload optimizer", "micro-batch 2"} <= levers


def test_families_lose_by_the_difference_of_their_steps() -> None:
    answer = explain(problem())
    best = answer.result.plans[0].estimate.time.step_s
    by_name = {f.name: f for f in answer.families}
    assert by_name["data parallel"].plan is None
    assert by_name["data parallel"].why.startswith("memory: ")
    sharded = by_name["full sharding"].plan
    assert sharded is not None
    layout = sharded.layout
    assert (layout.tp, layout.pp, layout.zero, layout.dp_replicate) == (1, 1, 3, 1)
    for family in answer.families:
        if family.plan is not None:
            assert family.plan.gpus == answer.result.plans[0].gpus
            assert family.plan.estimate.time.step_s >= best


def test_seed_003_in_the_textbook_account() -> None:
    answer = explain(problem("seed-70b", account=TEXTBOOK))
    best = answer.result.plans[0]
    memory, time = best.estimate.stages[0].memory, best.estimate.time
    states = memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes
    assert f"{states / 1e9:.1f}" == "17.5"
    assert f"{time.communication['dp'].total_s:.1f}" == "8.3"
    assert time.communication["dp"].exposed_s == 0
    eight = next(move for move in answer.moves if move.lever == "TP 8")
    assert "10.7 s more exposed TP" in eight.why


def test_why_not_this_layout() -> None:
    found = why_not(problem(), LayoutRequest(tp=8, pp=1, zero=3, micro_batch=1, recompute="full"))
    assert isinstance(found, Comparison)
    step = found.asked.estimate.time.step_s - found.best.estimate.time.step_s
    assert step > 0
    assert "slower" in found.why
    by_name = {d.name: d for d in found.differences}
    assert by_name["step"].one - by_name["step"].other == step
    parts = sum(
        d.one - d.other
        for d in found.differences
        if d.unit == "s" and d.name not in ("step", "wall clock")
    )
    assert parts == pytest.approx(step, rel=1e-6)
    tight = why_not(problem(), LayoutRequest(tp=1, pp=1, zero=1))
    assert isinstance(tight, Comparison)
    assert tight.broken[0] == "memory"
    assert "it breaks memory" in tight.why


def test_where_nothing_fits_there_is_the_reason() -> None:
    nothing = explain(problem(nodes=1))
    assert nothing.result.status == "infeasible"
    assert not nothing.moves
    assert not nothing.families
    assert isinstance(why_not(problem(nodes=1), LayoutRequest(tp=8)), Result)
    report = explain_report(problem(nodes=1, search=Search(tp=(8,))), None)
    assert report.data["status"] == "infeasible"


def test_every_limit_has_a_meaning() -> None:
    assert set(LIMITS) == set(LIMIT_NAMES)
    assert all(meaning(code) for code in known())
    assert meaning("Out-of-Memory") is not None
    assert "v micro" not in str(code_report("bubble").data)
    with pytest.raises(InputError, match="Did you mean 'bubble'"):
        code_report("buble")
