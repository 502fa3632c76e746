"""Clusters of several node groups: blocks of stages, against brute force over every layout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solver import solve
from solver.job.job import Job, PlanningProblem
from solver.job.presets import find_model
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


def test_mixed_plans_win_in_some_and_nothing_fits_in_others() -> None:
    found = [solve(free_problem(seed, 0, groups=2), top=1) for seed in (0, 1, 2, 4, 7)]
    assert any(result.plans and result.plans[0].blocks for result in found)
    assert any(result.plans and not result.plans[0].blocks for result in found)
    assert any(result.status == "infeasible" for result in found)
