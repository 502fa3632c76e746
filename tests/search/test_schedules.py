"""ZB-H1 beside 1F1B in one search: chosen, fixed, forbidden, refused, written and read back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from solver import solve
from solver.answers.moves import moves
from solver.cost.bubble import bubble_parts, microbatches_for_bubble
from solver.cost.ledger.adapter import textbook_inputs
from solver.job.job import Account, Limits, PlanningProblem
from solver.job.read import parse_problem
from solver.job.rules import Rule
from solver.job.schedules import SCHEDULES
from solver.job.search import Search, Variants
from solver.layout_check import LayoutRequest, check
from solver.report.layouts import layout_text, parse_layout
from solver.report.resolved import problem_data
from solver.report.soundness import faults
from tests.job.test_read import BASE, only
from tests.search.helpers import problem
from topology import InputError, UnsupportedError

STACK = Account(profile="zero-bubble-megatron")
DEEP: dict[str, Any] = {"pp": (8,), "vpp": (1,), "zero": (0, 1)}


def asked(search: dict[str, Any], **parts: Any) -> PlanningProblem:
    base = problem(
        nodes=8, batch=128, gpu="a100-80gb-sxm", inter="25GB/s",
        search=Search.model_validate(search), account=STACK,
    )  # fmt: skip
    return replace(base, **parts)


def test_the_best_of_both_schedules() -> None:
    both = solve(asked({**DEEP, "variants": Variants(schedule=SCHEDULES)}), top=4)
    single = [solve(asked({**DEEP, "schedule": schedule}), top=1) for schedule in SCHEDULES]
    assert both.status == "optimal"
    best = min((r.plans[0] for r in single), key=lambda plan: plan.estimate.time.step_s)
    assert both.plans[0] == best
    assert both.certificate.shapes == sum(r.certificate.shapes for r in single)
    assert best.options.schedule == "zb-h1"  # less idle, and the memory is there


def test_every_plan_has_a_pipeline_of_whole_stages() -> None:
    plans = solve(asked({"schedule": "zb-h1"}), top=4).plans
    assert len(plans) == 4
    for plan in plans:
        assert plan.layout.pp > 1 == plan.layout.vpp
        assert plan.layout.zero <= 1
        assert "schedule=zb-h1" in layout_text(plan)
        assert not list(faults(plan))
        assert all(0 < s.spared_s < s.microbatch_s for s in plan.estimate.stages)


def test_a_rule_chooses_and_a_rule_forbids() -> None:
    late = Rule(axis="schedule", relation="=", value=1)
    assert asked({"rules": (late,)}).search.schedules == ("zb-h1",)
    both = {**DEEP, "variants": Variants(schedule=SCHEDULES)}
    for relation, left in (("=", "zb-h1"), ("!=", "1f1b")):
        rules = (Rule.model_validate({"axis": "schedule", "relation": relation, "value": 1}),)
        result = solve(asked({**both, "rules": rules}), top=2)
        assert {plan.options.schedule for plan in result.plans} == {left}
    neither = tuple(Rule(axis="schedule", relation="!=", value=n) for n in (0, 1))
    with pytest.raises(InputError, match="leave no pipeline schedule"):
        solve(asked({"rules": neither}))


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        ({"account": Account()}, r"megatron-core has no schedule zb-h1; zero-bubble-megatron has"),
        ({"account": Account(), "framework": "fsdp"}, r"torchtitan has no schedule zb-h1"),
        ({"account": Account(profile="deepspeed-zero3")}, r"deepspeed-zero3 has no schedule zb-h1"),
        ({"account": Account(cost_model="textbook")}, r"textbook account has no zb-h1"),
    ],
)
@pytest.mark.parametrize("search", [{"schedule": "zb-h1"}, {"variants": {"schedule": SCHEDULES}}])
def test_refused_where_no_stack_has_it(
    search: dict[str, Any], parts: dict[str, Any], match: str
) -> None:
    """Also beside 1F1B: an alternative is never left out silently."""
    with pytest.raises(UnsupportedError, match=match):
        solve(asked(search, **parts))


def test_the_ledger_refuses_it_too() -> None:
    with pytest.raises(UnsupportedError, match="knows 1F1B only"):
        textbook_inputs(asked({}), parse_layout("pp=8,dp=8,schedule=zb-h1"))


def test_refused_with_what_it_does_not_go_with() -> None:
    with pytest.raises(UnsupportedError, match="keeps activations on the GPU"):
        solve(asked({"schedule": "zb-h1", "offload": "optimizer+activations"}))
    one = asked({"schedule": "zb-h1"})
    other = problem().cluster.group
    mixed = replace(one, cluster=replace(one.cluster, groups=(one.cluster.group, other)))
    with pytest.raises(UnsupportedError, match="one kind of node only"):
        solve(mixed)


@pytest.mark.parametrize(
    ("layout", "match"),
    [
        ({"pp": 1, "tp": 8}, "needs a pipeline of whole stages, not pp 1"),
        ({"pp": 8, "vpp": 2, "tp": 4}, "not pp 8, vpp 2"),
        ({"pp": 8, "tp": 4, "zero": 3}, "has no ZeRO 3"),
    ],
)
def test_a_layout_that_cannot_be(layout: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        check(asked({}), LayoutRequest(**layout, schedule="zb-h1"))


def test_check_gives_the_figures_of_the_search() -> None:
    given = asked({**DEEP, "schedule": "zb-h1", "stages": "even"})
    plan = solve(given, top=1).plans[0]
    again = check(asked({}), LayoutRequest(**parse_layout(layout_text(plan))))
    assert again.estimate == plan.estimate
    assert again.limits == plan.limits
    values = parse_layout(layout_text(plan)) | {"schedule": "1f1b"}
    plain = check(asked({}), LayoutRequest(**values)).estimate.time
    assert plain.bubble_s > 2 * plan.estimate.time.bubble_s
    assert plain.compute_s == pytest.approx(plan.estimate.time.compute_s)


def test_the_bubble_counts_by_flops() -> None:
    """GPT-3's FLOPs are all but products: a third of 1F1B's idle time is left, and a bit more."""
    given = asked({**DEEP, "schedule": "zb-h1"})
    layout = LayoutRequest(tp=2, pp=8, dp=4, schedule="zb-h1")
    plan = check(given, layout)
    each = given.job.pass_flops
    total = each.forward + each.inputs + each.weights
    idle = 7 * (each.forward + each.inputs - each.weights) / total
    assert plan.estimate.bubble_fraction == pytest.approx(idle / (32 + idle), abs=1e-4)
    assert 1 / 3 < idle / 7 < 0.4
    [limit] = [c for c in plan.limits if c.id == "bubble"]
    assert limit.value == pytest.approx(plan.estimate.bubble_fraction)


@pytest.mark.parametrize("pp", [2, 4, 8])
@pytest.mark.parametrize("limit", [0.02, 0.15, 0.6, 1.0])
def test_the_fewest_micro_batches_of_a_bubble(pp: int, limit: float) -> None:
    given = asked({}).job
    fewest = microbatches_for_bubble(given, pp, limit)
    for count in range(max(fewest - 3, 1), fewest + 2):
        idle, busy = bubble_parts(given, "zb-h1", (np.array(pp), np.array(1), np.array(count)))
        assert (idle / (idle + busy) <= limit + 1e-12) == (count >= fewest)


def test_the_other_schedule_is_a_lever() -> None:
    given = asked({**DEEP, "variants": Variants(schedule=SCHEDULES)})
    best = solve(given, top=1).plans[0]
    [lever] = [move for move in moves(given, best) if move.lever.startswith("schedule")]
    assert lever.lever == "schedule 1f1b"
    assert lever.more_step_s is not None
    assert lever.more_step_s > 0


def test_where_nothing_fits_1f1b_is_tried() -> None:
    """Weights that wait need memory; activations on the host are no way out."""
    given = problem(
        nodes=4, batch=16, gpu="a100-80gb-sxm", inter="25GB/s", account=STACK,
        limits=Limits(max_bubble=0.05), search=Search(schedule="zb-h1"),
    )  # fmt: skip
    why = solve(given).infeasibility
    assert why is not None
    found = {change.limit: change for change in why.relaxations}
    assert found["search.schedule"].command == "search: {schedule: 1f1b}"
    assert not any("activations" in change.command for change in why.relaxations)


def test_read_and_written_back() -> None:
    text = BASE + "search: {schedule: [zb-h1, 1f1b], forbid: schedule=1f1b}\n"
    search = parse_problem(text).search
    assert search.variants.schedule == SCHEDULES
    assert [str(rule) for rule in search.rules] == ["schedule != 1f1b"]
    assert search.schedules == ("zb-h1",)
    assert parse_problem(json.dumps(problem_data(parse_problem(text)))).search == search
    single = parse_problem(BASE + "search: {schedule: zb-h1, fix: {schedule: zb-h1}}\n").search
    assert (single.schedule, single.schedules) == ("zb-h1", ("zb-h1",))


@pytest.mark.parametrize(
    ("written", "code", "match"),
    [
        ("schedule: zb-h2", "SP112", "'zb-h2' unknown. Choose 1f1b, zb-h1. Did you mean 'zb-h1'?"),
        ("fix: schedule=zb-h2", "SP112", "schedule needs one of 1f1b, zb-h1, got 'zb-h2'"),
        ("fix: schedule=1", "SP112", "schedule needs one of"),
        ("max: schedule=zb-h1", "SP114", "schedule has no order"),
        ("forbid: schedule", "SP112", "schedule needs one of"),
        ("fix: tp=zb-h1", "SP114", "tp needs a whole number"),
    ],
)
def test_mistyped(written: str, code: str, match: str) -> None:
    fault = only(BASE + f"search: {{{written}}}\n")
    assert fault.code == code
    assert match in str(fault)
