"""Clusters of several node groups: blocks of stages, against brute force over every layout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solver import solve
from solver.job.job import Job, Limits, PlanningProblem
from solver.job.presets import find_model
from solver.job.reliability import Reliability
from solver.job.search import Search
from solver.plan import Plan
from tests.oracle.compare_free import compare_free, free_problem
from topology import ClusterSpec

H100 = {"nodes": 1, "gpus_per_node": 4, "gpu": "h100-80gb-sxm", "price": 2.5}
A100 = {"nodes": 1, "gpus_per_node": 4, "gpu": "a100-80gb-sxm", "price": 1.2}


def mixed(*groups: dict[str, Any], **parts: Any) -> PlanningProblem:
    job = Job(
        transformer=parts.pop("model", None) or find_model("llama3-8b"),
        seq_len=parts.pop("seq_len", 4096),
        global_batch=parts.pop("batch", 64),
        tokens=10**11,
    )
    cluster = ClusterSpec.model_validate({"groups": list(groups)}).build()
    return PlanningProblem(job=job, cluster=cluster, **parts)


def seconds(plan: Plan) -> float:
    return plan.estimate.time.step_s


def test_both_groups_together_beat_each_alone_and_an_even_split() -> None:
    groups = [{**H100, "nodes": 2, "gpus_per_node": 8}, {**A100, "nodes": 2, "gpus_per_node": 8}]
    asked = mixed(*groups, batch=256)
    result = solve(asked)
    best = result.plans[0]
    assert result.status == "optimal"
    assert {block.gpu for block in best.blocks} == {"h100-80gb-sxm", "a100-80gb-sxm"}
    layers = best.layout.stage_layers
    assert layers is not None
    by_gpu = {b.gpu: layers[b.first_stage : b.last_stage + 1] for b in best.blocks}
    assert min(by_gpu["h100-80gb-sxm"]) > max(by_gpu["a100-80gb-sxm"])
    for number in (0, 1):
        cluster = ClusterSpec.model_validate({"groups": [groups[number]]}).build()
        assert seconds(best) < seconds(solve(replace(asked, cluster=cluster), top=1).plans[0])
    slowest = max(s.microbatch_s / s.layers for s in best.estimate.stages)
    even = best.batch.microbatches * slowest * 32 / best.layout.pp
    assert seconds(best) < even
    assert best.gpus_held == sum(block.gpus_held for block in best.blocks) == 32
    assert best.cost.usd == pytest.approx(best.cost.wall_clock_s / 3600 * 16 * (2.5 + 1.2))


@pytest.mark.parametrize("seed", range(6))
def test_no_layout_across_groups_is_better(seed: int) -> None:
    assert compare_free(free_problem(seed, 0, groups=2)) == ()


@pytest.mark.parametrize("seed", range(4))
def test_no_spread_of_layers_on_one_group_is_better(seed: int) -> None:
    assert compare_free(free_problem(seed, 0, groups=1)) == ()


@pytest.mark.parametrize(
    ("seed", "failures"), [(0, 300.0), (1, 3.79), (1, 20_000.0), (4, 300.0), (4, 20_000.0)]
)
def test_failures_count_on_the_nodes_of_all_groups(seed: int, failures: float) -> None:
    """Few nodes fail less often, so that with many failures other layouts win, or nothing ends."""
    failing = Reliability(failures=failures, node_bytes_per_s=1e8)
    assert compare_free(replace(free_problem(seed, 0, groups=2), reliability=failing)) == ()


def test_goodput_of_a_plan_across_groups() -> None:
    asked = mixed(H100, A100, reliability=Reliability(failures=200.0))
    best = solve(asked, top=1).plans[0]
    assert len(best.blocks) == 2
    goodput = best.cost.goodput
    assert goodput is not None
    assert goodput.mttf_s == pytest.approx(1000 / 200 / 2 * 86_400)
    steps = best.cost.steps or 0
    assert best.cost.wall_clock_s == pytest.approx(seconds(best) * steps * goodput.slowdown)
    hours = best.cost.wall_clock_s / 3600
    assert best.cost.usd == pytest.approx(hours * 4 * (2.5 + 1.2))


def test_a_deadline_counts_failures_across_groups() -> None:
    search = Search(cp=(1,), micro_batch=(1,), recompute=("none",))
    asked = mixed(H100, A100, reliability=Reliability(failures=200.0), search=search)
    best = solve(asked, top=1).plans[0]
    wall = best.cost.wall_clock_s
    for factor, status in ((1.001, "optimal"), (0.999, "infeasible")):
        result = solve(replace(asked, limits=Limits(deadline_s=wall * factor)), top=1)
        assert result.status == status


def test_mixed_plans_win_in_some_and_nothing_fits_in_others() -> None:
    found = [solve(free_problem(seed, 0, groups=2), top=1) for seed in (0, 1, 2, 4, 7)]
    assert any(result.plans and result.plans[0].blocks for result in found)
    assert any(result.plans and not result.plans[0].blocks for result in found)
    assert any(result.status == "infeasible" for result in found)
