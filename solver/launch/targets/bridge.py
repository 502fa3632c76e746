"""Overrides of a Megatron-Bridge recipe: ``key=value`` on its command line."""

from __future__ import annotations

from ..description import Launch, Run
from .base import Exported, Target, Wanted, words_of
from .megatron import CP_COMM, STRATEGY, block_layers, refuse, stage_words

NAME = "megatron-bridge"
VERSIONS = ("0.7.0",)
"""Names of ConfigContainer's paths at 067f987d, as its Llama recipes assign them."""
RECIPES = {
    "bf16": "bf16_mixed",
    "fp16": "fp16_mixed",
    "fp8": "bf16_with_fp8_current_scaling_mixed",
    "mxfp8": "bf16_with_mxfp8_mixed",
    "nvfp4": "bf16_with_nvfp4_mixed",
}
"""Names of ``mixed_precision`` (megatron/bridge/training/mixed_precision.py)."""
BLOCK_SCALED = "bf16_with_fp8_subchannel_scaling_mixed"
STAGE_KEYS = {
    "first": "num_layers_in_first_pipeline_stage",
    "last": "num_layers_in_last_pipeline_stage",
    "embedding": "account_for_embedding_in_pipeline_split",
    "loss": "account_for_loss_in_pipeline_split",
    "layout": "pipeline_model_parallel_layout",
}
"""Fields of megatron-core's TransformerConfig, which Bridge's model providers extend."""


def write(launch: Launch, run: Run, wanted: Wanted) -> Exported:
    """Write the overrides."""
    refuse(launch, NAME)
    values = {
        **_model(launch),
        **_recompute(launch),
        **_training(launch),
        **_sharding(launch),
        **_optimizer(launch),
    }
    options = [(f"{key}={_shown(value)}",) for key, value in values.items()]
    notes = ("a recipe of Megatron-Bridge names the model and the data",)
    words = words_of(options)
    return Exported("".join(f"{word}\n" for word in words), "bridge.overrides", notes, words)


def _shown(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(value)}]"
    return f"'{value}'" if isinstance(value, str) and not value.isidentifier() else str(value)


def _model(launch: Launch) -> dict[str, object]:
    values: dict[str, object] = {
        "tensor_model_parallel_size": launch.tp,
        "sequence_parallel": launch.sp,
        "pipeline_model_parallel_size": launch.pp,
        "virtual_pipeline_model_parallel_size": launch.vpp if launch.vpp > 1 else None,
        "context_parallel_size": launch.cp,
        "seq_length": launch.seq_len,
    }
    if launch.cp > 1:
        values["cp_comm_type"] = CP_COMM[launch.cp_comm]
    if launch.experts:
        values["expert_model_parallel_size"] = launch.ep
        values["expert_tensor_parallel_size"] = launch.etp
    if launch.ep > 1:
        kind = "flex" if launch.deduplicated else "alltoall"
        values["moe_token_dispatcher_type"] = kind
    values |= {STAGE_KEYS[name]: value for name, value in stage_words(launch).items()}
    return {f"model.{key}": value for key, value in values.items()}


def _recompute(launch: Launch) -> dict[str, object]:
    values: dict[str, object] = {"granularity": None, "method": None, "num_layers": None}
    if launch.recompute == "selective":
        values |= {"granularity": "selective", "modules": launch.recompute_modules}
    elif launch.recompute == "full":
        values |= {"granularity": "full", "method": "uniform", "num_layers": 1}
    elif launch.recomputed_layers is not None:
        number = block_layers(launch)
        values |= {"granularity": "full", "method": "block", "num_layers": number}
    return {f"model.recompute_{key}": value for key, value in values.items()}


def _training(launch: Launch) -> dict[str, object]:
    recipe = RECIPES[launch.precision]
    if launch.fp8_scaling == "block":
        recipe = BLOCK_SCALED
    steps = {} if launch.steps is None else {"train.train_iters": launch.steps}
    return {
        "train.micro_batch_size": launch.micro_batch,
        "train.global_batch_size": launch.global_batch,
        **steps,
        "mixed_precision": recipe,
        "dist.use_tp_pp_dp_mapping": launch.order.endswith("dp"),
    }


def _sharding(launch: Launch) -> dict[str, object]:
    values: dict[str, object] = {
        "ddp.use_distributed_optimizer": launch.zero > 0,
        "ddp.overlap_grad_reduce": launch.overlap_data,
        "ddp.overlap_param_gather": launch.overlap_data and launch.zero > 0,
        "ddp.grad_reduce_in_fp32": launch.grad_dtype == "fp32",
        "comm_overlap.tp_comm_overlap": launch.overlap_tensor,
    }
    if launch.zero in STRATEGY:
        values["ddp.use_megatron_fsdp"] = True
        values["ddp.data_parallel_sharding_strategy"] = STRATEGY[launch.zero]
    if launch.dp_replicate > 1:
        values["ddp.num_distributed_optimizer_instances"] = launch.dp_replicate
    return values


def _optimizer(launch: Launch) -> dict[str, object]:
    values: dict[str, object] = {}
    if launch.optimizer == "adamw16" or launch.offload != "none":
        values["optimizer.use_precision_aware_optimizer"] = True
    if launch.optimizer == "adamw16":
        values["optimizer.exp_avg_dtype"] = "torch.bfloat16"
        values["optimizer.exp_avg_sq_dtype"] = "torch.bfloat16"
    if launch.offload != "none":
        values["optimizer.optimizer_cpu_offload"] = True
        values["optimizer.optimizer_offload_fraction"] = 1.0
    return values


BRIDGE = Target(NAME, write, versions=VERSIONS)
