"""Textbook cases: which link each axis should run over, as the solver answers it."""

from __future__ import annotations

from typing import Any

import pytest

from solver.job.job import Account, Job, Limits, PlanningProblem
from solver.job.presets import find_model
from solver.job.recipe import Recipe
from solver.job.search import Search
from solver.job.transformer import Transformer
from solver.plan import Plan
from solver.result import Result
from solver.search.search import solve
from topology import ClusterSpec

FREE = Limits(max_comm=10.0)
"""No limit on communication: what is chosen is chosen for its time."""


def answer(cluster: str | dict[str, Any], job: Job, search: Search, **parts: Any) -> Result:
    built = ClusterSpec.model_validate(cluster).build()
    given = {"limits": FREE, **parts}
    return solve(PlanningProblem(job=job, cluster=built, search=search, **given), top=1)


def best(cluster: str | dict[str, Any], job: Job, search: Search | None = None, **p: Any) -> Plan:
    return answer(cluster, job, search or Search(), **p).plans[0]


def level(plan: Plan, axis: str) -> str:
    assert plan.placement is not None
    return next(placed.level for placed in plan.placement.axes if placed.axis == axis)


def pretrain(model: str, batch: int) -> Job:
    return Job(transformer=find_model(model), seq_len=4096, global_batch=batch)


# -- tensor parallelism over InfiniBand ----------------------------------------

# The 18.4B model, cluster and configuration of vTrain's measurements (VIA-Research/vTrain,
# ground_truth_multi.csv): TP 8 took 10.45 s a step, TP 16 over two nodes 20.41 s.
VTRAIN_CLUSTER = {"nodes": 32, "gpus_per_node": 8, "gpu": "a100-80gb-sxm", "inter": "12.5GB/s"}
VTRAIN = Job(
    transformer=Transformer.model_validate(
        {"layers": 40, "hidden": 6144, "heads": 48, "ffn": 24576, "vocab": 50257, "gated": False}
    ),
    seq_len=2048,
    global_batch=1024,
    recipe=Recipe(precision="fp16"),
    attention="unfused",
)


def vtrain(tp: int, *, tp_within_node: bool) -> Result:
    return answer(
        VTRAIN_CLUSTER,
        VTRAIN,
        Search(
            tp=(tp,), pp=(1,), cp=(1,), zero=(0,), micro_batch=(2,), recompute=("full",), gpus=256
        ),
        limits=Limits(max_comm=10.0, mem_headroom=0.0, tp_within_node=tp_within_node),
        account=Account(profile="megatron-classic"),
    )


def test_tensor_parallelism_over_two_nodes_is_refused_and_twice_as_slow_when_allowed() -> None:
    refused = vtrain(16, tp_within_node=True)
    assert refused.status == "infeasible"
    assert refused.reasons[0].startswith("tp_within_node: without it TP 16")
    inside, across = (vtrain(tp, tp_within_node=False).plans[0] for tp in (8, 16))
    assert (level(inside, "tp"), level(across, "tp")) == ("nvlink", "leaf")
    assert 1.5 <= across.estimate.time.step_s / inside.estimate.time.step_s <= 2.1


# -- experts over a whole NVLink domain ----------------------------------------


def experts(number: int) -> Job:
    shape = {
        "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 4, "ffn": 12288, "vocab": 128_000,
        "moe": {"experts": number, "top_k": 8, "ffn": 1536},
    }  # fmt: skip
    transformer = Transformer.model_validate(shape)
    return Job(transformer=transformer, seq_len=4096, global_batch=9 * 128)


def test_experts_spread_over_a_whole_rack_where_that_beats_gathering_them() -> None:
    job = experts(144)
    plan = best("18x4xgb200", job, Search(gpus=72))
    assert (plan.layout.ep, level(plan, "ep")) == (72, "nvlink")
    sharded = best("18x4xgb200", job, Search(gpus=72, ep=(1,), tp=(1,), pp=(1,), zero=(3,)))
    assert plan.estimate.time.step_s < sharded.estimate.time.step_s


def test_experts_stay_in_the_node_where_the_next_level_is_the_network() -> None:
    plan = best({"gpu": "h100", "nodes": 9}, experts(144), Search(gpus=72))
    assert plan.layout.ep <= 8
    assert plan.layout.ep == 1 or level(plan, "ep") == "nvlink"


def test_a_part_of_a_rack_is_as_near_as_a_whole_one() -> None:
    # 64 of 72 GPUs: groups of 64 do not tile racks of 72, but one of them fits into one.
    part, whole = (
        best(cluster, pretrain("qwen3-30b-a3b", 1024), Search(gpus=64))
        for cluster in ("18x4xgb200", "16x4xgb200")
    )
    assert part.layout == whole.layout
    assert part.estimate.time.step_s == whole.estimate.time.step_s
    assert level(part, "ep") == "nvlink"


# -- pods ----------------------------------------

PODS = {"gpu": "h100", "nodes": 16, "leaf_nodes": 8, "oversubscription": 8}


def test_stages_go_between_oversubscribed_pods_and_replicas_stay_inside() -> None:
    job = pretrain("llama3-70b", 512)
    plan = best(PODS, job, Search(recompute_by_stage=True, gpus=128))
    assert (level(plan, "pp"), level(plan, "dp")) == ("spine", "leaf")
    between = best(PODS, job, Search(recompute_by_stage=True, gpus=128, pp=(1,)))
    assert level(between, "dp") == "spine"
    assert plan.estimate.time.step_s < 0.95 * between.estimate.time.step_s
    layout, order = plan.layout, ("tp-cp-ep-pp-dp",)
    search = Search(
        recompute_by_stage=True, gpus=128, order=order,
        tp=(layout.tp,), pp=(layout.pp,), cp=(layout.cp,),
    )  # fmt: skip
    swapped = best(PODS, job, search)
    assert (level(swapped, "pp"), level(swapped, "dp")) == ("leaf", "spine")
    assert plan.estimate.time.step_s < swapped.estimate.time.step_s


# -- hybrid sharding ----------------------------------------


@pytest.mark.parametrize("model", ["llama2-7b", "llama2-13b"])
def test_sharding_inside_the_node_wins_on_a_slow_fabric(model: str) -> None:
    cluster = {"gpu": "a100-80gb-sxm", "nodes": 8, "inter": "12.5GB/s"}
    job, full = pretrain(model, 512), Search(zero=(3,), gpus=64)
    plan = best(cluster, job, full, framework="fsdp")
    assert (plan.layout.dp_shard, plan.layout.dp_replicate) == (8, 8)
    assert (level(plan, "dp_shard"), level(plan, "dp_replicate")) == ("nvlink", "leaf")
    flat = best(cluster, job, full.model_copy(update={"hsdp": False}), framework="fsdp")
    assert plan.estimate.time.step_s < 0.9 * flat.estimate.time.step_s
