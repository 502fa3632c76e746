"""Launch configurations with one fault each, and what we say of them.

All are for Llama-3-70B on 64 GPUs, but for those with experts (Qwen3-30B-A3B).
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Any

import yaml

DENSE, MOE = "llama3-70b", "qwen3-30b-a3b"

MEGATRON = (
    "--tensor-model-parallel-size 8 --sequence-parallel --pipeline-model-parallel-size 4 "
    "--num-virtual-stages-per-pipeline-rank 5 --context-parallel-size 1 "
    "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather "
    "--micro-batch-size 1 --global-batch-size 256 --seq-length 4096 --bf16 "
)
TORCHTITAN = (
    "--parallelism.tensor_parallel_degree 2 --parallelism.pipeline_parallel_degree 4 "
    "--parallelism.data_parallel_shard_degree 8 --training.local_batch_size 32 "
    "--training.global_batch_size 256 --parallelism.pipeline_parallel_microbatch_size 1 "
    "--parallelism.pipeline_parallel_first_stage_less_layers 0 "
    "--parallelism.pipeline_parallel_last_stage_less_layers 0 --training.seq_len 4096 "
)
DEEPSPEED: dict[str, Any] = {
    "train_batch_size": 256,
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 4,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 3, "overlap_comm": True},
}
ACCELERATE: dict[str, Any] = {
    "compute_environment": "LOCAL_MACHINE",
    "distributed_type": "FSDP",
    "mixed_precision": "bf16",
    "num_machines": 8,
    "num_processes": 64,
    "fsdp_config": {"fsdp_version": 2, "fsdp_reshard_after_forward": True},
    "parallelism_config": {
        "parallelism_config_dp_replicate_size": 8,
        "parallelism_config_dp_shard_size": 8,
    },
}
VPP, LAYOUT = "--num-virtual-stages-per-pipeline-rank 5", "--pipeline-model-parallel-layout"
THREE_WAYS = "--expert-model-parallel-size 3 --micro-batch-size 1 --global-batch-size 64"
LOOPED = (
    "--parallelism.pipeline_parallel_schedule Interleaved1F1B "
    "--parallelism.pipeline_parallel_layers_per_stage 7 --parallelism.pipeline_parallel_degree 5"
)
OFFLOAD, AXES = "zero_optimization/offload_optimizer", "parallelism_config/parallelism_config_"
SHARD, REPLICATE = f"{AXES}dp_shard_size", f"{AXES}dp_replicate_size"


@dataclass(frozen=True)
class Wrong:
    source: str
    text: str
    says: str
    model: str = DENSE


def megatron(says: str, *changes: tuple[str, str], add: str = "", model: str = DENSE) -> Wrong:
    text = MEGATRON
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return Wrong("megatron", f"{text}{add}", says, model)


def torchtitan(says: str, *changes: tuple[str, str], add: str = "") -> Wrong:
    text = TORCHTITAN
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return Wrong("torchtitan", f"{text}{add}", says)


def _changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    data = copy.deepcopy(base)
    for path, value in changes.items():
        *outer, last = path.split("/")
        part = data
        for key in outer:
            part = part.setdefault(key, {})
        part[last] = value
    return data


def deepspeed(says: str, **changes: Any) -> Wrong:
    return Wrong("deepspeed", json.dumps(_changed(DEEPSPEED, changes)), says)


def accelerate(says: str, **changes: Any) -> Wrong:
    return Wrong("accelerate", yaml.safe_dump(_changed(ACCELERATE, changes)), says)


ALL = (
    # Mistyped, at every level of nesting.
    megatron(
        r"Did you mean '--tensor-model-parallel-size'",
        ("model-parallel-size 8", "model-paralel-size 8"),
    ),
    megatron(r"Did you mean '--use-distributed-optimizer'", ("distributed-opt", "distibuted-opt")),
    megatron(r"'halfway' unknown. Choose full, selective", add="--recompute-granularity halfway"),
    megatron(r"'fp7' unknown", add="--use-precision-aware-optimizer --main-grads-dtype fp7"),
    torchtitan(
        r"Did you mean '--parallelism.tensor_parallel_degree'",
        ("tensor_parallel_degree", "tensor_paralel_degree"),
    ),
    torchtitan(
        r"--paralelism.*Did you mean '--parallelism.tensor_parallel_degree'",
        ("parallelism.tensor", "paralelism.tensor"),
    ),
    torchtitan(
        r"--paralelism.foo: unknown key. Did you mean 'parallelism'", add="--paralelism.foo 1"
    ),
    torchtitan(r"'sometimes' unknown", add="--parallelism.fsdp_reshard_after_forward sometimes"),
    torchtitan(r"'fully' unknown. Choose none, selective, full", add="activation-checkpoint:fully"),
    deepspeed(
        r"SP101.*zero_optimizaton.*Did you mean 'zero_optimization'",
        **{"zero_optimizaton": {"stage": 1}},
    ),
    deepspeed(r"SP101.*stge.*Did you mean 'stage'", **{"zero_optimization/stge": 3}),
    deepspeed(r"SP101.*devize.*Did you mean 'device'", **{OFFLOAD: {"devize": "cpu"}}),
    deepspeed(r"SP101.*bf16.enable:", **{"bf16/enable": True}),
    deepspeed(r"SP101.*autotp:.*Did you mean 'autotp_size'", **{"tensor_parallel/autotp": 2}),
    accelerate(
        r"SP101.*fsdp_confg.*Did you mean 'fsdp_config'", **{"fsdp_confg": {"fsdp_version": 2}}
    ),
    accelerate(
        r"SP101.*fsdp_verzion.*Did you mean 'fsdp_version'", **{"fsdp_config/fsdp_verzion": 2}
    ),
    accelerate(
        r"SP101.*tp_sizee.*Did you mean 'parallelism_config_tp_size'", **{f"{AXES}tp_sizee": 2}
    ),
    # Products that are not what they should be.
    megatron(
        r"tp 7 x pp 4 x cp 1 = 28 does not divide 64 GPUs", ("parallel-size 8", "parallel-size 7")
    ),
    megatron(
        r"dp x micro_batch 2 does not divide the global batch of 257", ("size 256", "size 257")
    ),
    megatron(
        r"80 layers do not fall on 3 stages", ("model-parallel-size 4", "model-parallel-size 3")
    ),
    torchtitan(
        r"does not divide the global batch of 250",
        ("global_batch_size 256", "global_batch_size 250"),
    ),
    torchtitan(
        r"3 does not divide the local batch of 32", ("microbatch_size 1", "microbatch_size 3")
    ),
    torchtitan(r"degrees multiply to 64 ranks, it starts 32", add="--nnodes 4 --nproc_per_node 8"),
    deepspeed(
        r"1000 is no multiple of micro-batch 1 x accumulation 16",
        **{"train_batch_size": 1000, "gradient_accumulation_steps": 16},
    ),
    deepspeed(r"the layout needs 128 GPUs, the cluster has 64", **{"train_batch_size": 512}),
    accelerate(r"sizes multiply to 72, num_processes is 64", **{SHARD: 9}),
    accelerate(r"60 processes do not fill 8 machines", **{"num_processes": 60}),
    # Splits that cannot be.
    megatron(r"3 virtual stages do not divide", ("per-pipeline-rank 5", "per-pipeline-rank 3")),
    megatron(r"places 81 layers, llama3-70b has 80", (VPP, f"{LAYOUT} 'Et*20|t*20|t*20|t*21L'")),
    megatron(r"has 5 stages for pp 4", (VPP, f"{LAYOUT} 'Et*16|t*16|t*16|t*16|t*16L'")),
    megatron(r"61 layers do not fall on 3 stages", (VPP, "--decoder-first-pipeline-num-layers 19")),
    megatron(r"81 given, llama3-70b has 80", add="--num-layers 81"),
    megatron(r"llama3-70b has no experts", add="--expert-model-parallel-size 8"),
    Wrong("megatron", THREE_WAYS, r"ep 3 does not divide the experts", MOE),
    torchtitan(r"12 stages of 80 layers do not suit Interleaved1F1B", add=LOOPED),
    # What excludes each other, or has no effect.
    megatron(r"needs tensor parallelism", ("--tensor-model-parallel-size 8 ", "")),
    megatron(r"--fp16: and --bf16 exclude", add="--fp16"),
    megatron(r"full needs --recompute-method", add="--recompute-granularity full"),
    megatron(
        r"selective takes neither", add="--recompute-granularity selective --recompute-num-layers 2"
    ),
    megatron(r"needs --ckpt-format fsdp_dtensor", add="--use-megatron-fsdp"),
    megatron(r"needs --use-distributed-optimizer", ("--use-distributed-optimizer ", "")),
    torchtitan(r"mixes names of the releases", add="--training.max_context_length 4096"),
    deepspeed(r"and bf16 exclude", **{"fp16": {"enabled": True}}),
    deepspeed(r"stage: 4 unknown. Choose 0, 1, 2, 3", **{"zero_optimization/stage": 4}),
    deepspeed(
        r"has no effect below stage 3",
        **{"zero_optimization": {"stage": 1, "offload_param": {"device": "cpu"}}},
    ),
    deepspeed(r"'gpu' unknown. Choose none, cpu, nvme", **{OFFLOAD: {"device": "gpu"}}),
    accelerate(r"replicas without shards", **{SHARD: 1, REPLICATE: 64}),
    accelerate(r"exclude each other", **{f"{AXES}cp_size": 2, f"{AXES}sp_size": 2}),
    accelerate(
        r"HALF_SHARD",
        **{"fsdp_config": {"fsdp_version": 1, "fsdp_sharding_strategy": "HALF_SHARD"}},
    ),
)
