"""Hugging Face Accelerate's configuration file: FSDP2 with N-D parallelism, DeepSpeed, or DDP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from topology.placement import MEGATRON_ORDER

from ..description import Launch, Run
from ..errors import Refusals
from ..tables import table
from .base import Exported, Target, Wanted, continued

NAME = "accelerate"
SAYS = frozenset({"tp", "cp", "dp", "dp_replicate", "zero", "recompute", "precision", "offload"})
RESHARDED = {2: False, 3: True}
"""FSDP2 that keeps gathered weights after forward is ZeRO 2, one that frees them ZeRO 3."""
OPTIMIZERS = {
    "adamw": "adamw_torch",
    "adamw8bit": "adamw_bnb_8bit",
    "lion": "lion_32bit",
    "sgd": "sgd",
    "adafactor": "adafactor",
}
"""Names of ``--optim`` in transformers' TrainingArguments (5.24)."""


def write(launch: Launch, run: Run, wanted: Wanted) -> Exported:
    """Write the configuration, and above it the command that starts it."""
    _refuse(launch)
    data: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": kind(launch),
        "mixed_precision": launch.precision,
        "num_machines": run.nodes,
        "num_processes": launch.gpus,
        "machine_rank": 0,
        "main_process_port": 29500,
        "rdzv_backend": "static",
        "same_network": True,
        "main_training_function": "main",
        "use_cpu": False,
    }
    if launch.zero in RESHARDED:
        data["fsdp_config"] = _fsdp(launch)
        data["parallelism_config"] = _axes(launch)
    elif launch.zero == 1:
        data["deepspeed_config"] = {
            "zero_stage": 1,
            "offload_optimizer_device": "cpu" if launch.offload == "optimizer" else "none",
            "offload_param_device": "none",
            "gradient_accumulation_steps": launch.microbatches,
            # Each machine starts its own processes, as under the other kinds.
            **({"deepspeed_multinode_launcher": "standard"} if run.nodes > 1 else {}),
        }
    text = "".join(f"# {line}\n" for line in _command(launch, run, wanted).splitlines())
    notes = ("the command in its first lines holds the batch, the sequence and the optimizer",)
    return Exported(text + yaml.safe_dump(data, sort_keys=False), "accelerate.yaml", notes)


def kind(launch: Launch) -> str:
    """Return Accelerate's name of what shards."""
    if launch.zero in RESHARDED:
        return "FSDP"
    return "DEEPSPEED" if launch.zero else "MULTI_GPU"


def _fsdp(launch: Launch) -> dict[str, Any]:
    return {
        "fsdp_version": 2,
        "fsdp_reshard_after_forward": RESHARDED[launch.zero],
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_activation_checkpointing": launch.recompute == "full",
        "fsdp_offload_params": False,
        "fsdp_cpu_ram_efficient_loading": True,
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    }


def _axes(launch: Launch) -> dict[str, Any]:
    sizes: dict[str, Any] = {
        "dp_replicate_size": launch.dp_replicate,
        "dp_shard_size": launch.dp_shard,
        "tp_size": launch.tp,
        "cp_size": launch.cp,
    }
    if launch.cp > 1:
        sizes |= {"cp_backend": "torch", "cp_comm_strategy": "alltoall"}
    return {f"parallelism_config_{name}": size for name, size in sizes.items()}


def _command(launch: Launch, run: Run, wanted: Wanted) -> str:
    """Return the command of one node; the batch is the script's, as Transformers names it."""
    ranks = '--machine_rank "$RANK" --main_process_ip "$HEAD" ' if run.nodes > 1 else ""
    values = {
        "per_device_train_batch_size": launch.micro_batch,
        "gradient_accumulation_steps": launch.microbatches,
        "max_length": launch.seq_len,
        "optim": OPTIMIZERS[launch.optimizer],
        **({} if launch.steps is None else {"max_steps": launch.steps}),
    }
    start = f"accelerate launch --config_file accelerate.yaml {ranks}{wanted.script or 'train.py'}"
    return continued([start, *(f"--{key} {value}" for key, value in values.items())])


def _refuse(launch: Launch) -> None:
    out = Refusals(NAME)
    sharded = launch.zero in RESHARDED
    out.unless(launch.pp == 1, "pp", "no pipeline there.", "Use --forbid pp.")
    out.unless(
        launch.ep == 1 and launch.etp == 1, "ep", "no expert parallelism there.", "Use --forbid ep."
    )
    out.unless(
        not launch.sp,
        "sp",
        "its tensor parallelism leaves norms and residuals whole, and "
        "the plan's memory counts on sequence parallelism.",
        "Use --forbid tp.",
    )
    out.unless(
        sharded or launch.tp * launch.cp == 1,
        "zero",
        f"TP and CP stand beside FSDP only, not beside ZeRO {launch.zero}.",
        "Use --min zero=2.",
    )
    out.unless(
        launch.cp_comm == "ring",
        "cp_comm",
        "context parallelism passes keys and values round.",
        "Plan with cp_comm: ring.",
    )
    out.unless(
        launch.dp_replicate == 1 or launch.dp_shard > 1,
        "dp_replicate",
        "replicas of one rank are no shard groups.",
        "Use zero=0.",
    )
    out.unless(
        launch.recompute == "none" or (launch.recompute == "full" and sharded),
        "recompute",
        f"{launch.recompute} recomputation has no key beside ZeRO {launch.zero}; with FSDP "
        "there is the full one.",
        "Solve with recompute none, or --min zero=2.",
    )
    out.unless(
        launch.recomputed_layers is None,
        "recomputed_layers",
        "checkpoints all layers alike.",
        "Solve with --stages even.",
    )
    out.unless(
        launch.precision in ("bf16", "fp16"),
        "precision",
        f"no {launch.precision} without a backend of your choice.",
        "Plan with --precision bf16.",
    )
    out.unless(
        launch.grad_dtype == "fp32",
        "grad_dtype",
        "gradients stay in the dtype of the sharded weights, fp32.",
        "Plan with grad_dtype: fp32.",
    )
    out.unless(
        launch.optimizer in OPTIMIZERS,
        "optimizer",
        f"no {launch.optimizer} among transformers' optimizers.",
        f"Plan for {', '.join(OPTIMIZERS)}.",
    )
    out.unless(
        launch.offload == "none" or (launch.offload == "optimizer" and launch.zero == 1),
        "offload",
        "FSDP offloads weights with the states, ZeRO 1 the states only.",
        "Plan without, or with --fix zero=1 and offload: optimizer.",
    )
    out.unless(
        launch.order == MEGATRON_ORDER,
        "order",
        "ranks are always in the usual order.",
        f"Use order {MEGATRON_ORDER}.",
    )
    out.settle()


SEARCH = {
    **dict.fromkeys(("tp", "pp", "ep", "etp"), (1,)),
    "recompute": ("none", "full"),
    "stages": "even",
}
PARTS: tuple[Mapping[str, tuple[Any, ...]], ...] = (
    {"zero": tuple(RESHARDED)},
    {"zero": (0, 1), "cp": (1,), "recompute": ("none",)},
)
"""CP and recomputation stand beside FSDP only, as `_refuse` has it."""
ACCELERATE = Target(NAME, write, SAYS, (str(table(NAME)["version"]),), SEARCH, PARTS)
