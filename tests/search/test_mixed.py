"""Clusters of several node groups: blocks of stages, against brute force over every layout."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from solver import solve
from solver.cost.ticks import TICK_S
from solver.job.job import Job, Limits, Objective, PlanningProblem, Search
from solver.job.presets import find_model
from solver.job.transformer import Transformer
from solver.plan import Plan
from tests.oracle.mixed import least_step, pipelines
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


def tiny(seed: int) -> PlanningProblem:
    """A random model of a few wide layers on two or three small groups."""
    dice = random.Random(seed)
    model = Transformer(
        name="tiny", layers=dice.choice((3, 4)), hidden=4096, heads=32, kv_heads=2, head_dim=128,
        ffn=14_336, gated=True, vocab=dice.choice((32_000, 128_256)), norm="rms",
    )  # fmt: skip
    gpus = ("h100-80gb-sxm", "a100-80gb-sxm", "a100-40gb-sxm")
    groups = [
        {"nodes": dice.choice((1, 2)), "gpus_per_node": dice.choice((1, 2)), "gpu": gpu,
         "price": dice.choice((0.5, 1.2, 2.5))}
        for gpu in dice.sample(gpus, 2)
    ]  # fmt: skip
    kinds = dice.choice((("none",), ("none", "full")))
    return mixed(
        *groups, model=model, batch=dice.choice((4, 8)), seq_len=dice.choice((2048, 8192)),
        limits=Limits(max_bubble=dice.choice((0.3, 1.0)), mem_headroom=dice.choice((0.1, 0.4, 0.6)),
                      max_comm=dice.choice((0.1, 0.5))),
        search=Search.model_validate({"recompute": kinds, "stages": "free", "order": (
            "tp-cp-ep-dp-pp",)}),
        objective=Objective(minimise=dice.choice(("time", "cost"))),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_no_layout_across_groups_is_better(seed: int) -> None:
    asked = tiny(seed)
    cost = asked.objective.minimise == "cost"
    known = []
    for group in asked.cluster.groups:
        alone = solve(replace(asked, cluster=replace(asked.cluster, groups=(group,))), top=1)
        price = round((group.price_usd_per_gpu_hour or 0.0) * 1e6)
        for plan in alone.plans[:1]:
            ticks = round(seconds(plan) / TICK_S)
            known.append(ticks * plan.gpus_held * price if cost else ticks)
    for pipeline, rate in pipelines(asked):
        step = least_step(pipeline)
        if step is not None:
            known.append(step * rate if cost else step)
    result = solve(asked, top=1)
    assert result.status == ("optimal" if known else "infeasible")
    if known:
        plan = result.plans[0]
        ticks = round(seconds(plan) / TICK_S)
        value = ticks
        if cost:
            blocks = [(b.gpus_held, b.usd_per_gpu_hour or 0.0) for b in plan.blocks]
            gpu = plan.estimate.stages[0].gpu
            group = next(g for g in asked.cluster.groups if g.gpu.id == gpu)
            blocks = blocks or [(plan.gpus_held, group.price_usd_per_gpu_hour or 0.0)]
            value = ticks * sum(n * round(price * 1e6) for n, price in blocks)
        assert value == min(known)
