"""DeepSpeed's configuration file."""

from __future__ import annotations

import json
from typing import Any

from topology.placement import MEGATRON_ORDER

from ..description import Launch, Run
from ..errors import Refusals
from ..tables import table
from .base import Exported, Target, Wanted

NAME = "deepspeed"
SAYS = frozenset(
    {
        "tp", "cp", "cp_comm", "dp", "zero", "micro_batch", "global_batch", "recompute",
        "precision", "grad_dtype", "offload", "overlap_data",
    }
)  # fmt: skip
FULL_SHARDING = 3


def write(launch: Launch, run: Run, wanted: Wanted) -> Exported:
    """Write the configuration."""
    _refuse(launch)
    data: dict[str, Any] = {
        "train_batch_size": launch.global_batch,
        "train_micro_batch_size_per_gpu": launch.micro_batch,
        "gradient_accumulation_steps": launch.microbatches,
        "zero_optimization": _zero(launch),
        "bf16": {"enabled": launch.precision == "bf16"},
        "fp16": {"enabled": launch.precision == "fp16"},
        "data_types": {"grad_accum_dtype": launch.grad_dtype},
    }
    if launch.tp > 1:
        data["tensor_parallel"] = {"autotp_size": launch.tp}
    if launch.cp > 1:
        data["sequence_parallel_size"] = launch.cp
    notes = [
        f"the script sets what the file has no key for: AdamW, sequences of {launch.seq_len:,} "
        f"tokens{'' if launch.steps is None else f', {launch.steps:,} steps'}"
    ]
    if launch.recompute == "full":
        data["activation_checkpointing"] = {"number_checkpoints": launch.total_layers}
        notes.append("the model calls deepspeed.checkpointing.checkpoint for each layer")
    return Exported(json.dumps(data, indent=2) + "\n", "ds_config.json", tuple(notes))


def _zero(launch: Launch) -> dict[str, Any]:
    zero: dict[str, Any] = {"stage": launch.zero, "overlap_comm": launch.overlap_data}
    if launch.zero:
        zero["contiguous_gradients"] = True
    if launch.offload == "optimizer":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    return zero


def _refuse(launch: Launch) -> None:
    out = Refusals(NAME)
    out.unless(
        launch.pp == 1,
        "pp",
        "the number of stages is an argument of PipelineModule, in code.",
        "Use --forbid pp.",
    )
    out.unless(
        not launch.sp,
        "sp",
        "its tensor parallelism leaves norms and residuals whole, and "
        "the plan's memory counts on sequence parallelism.",
        "Use --forbid tp.",
    )
    out.unless(
        launch.cp_comm == "all_to_all" or launch.cp == 1,
        "cp_comm",
        "sequence parallelism exchanges heads (Ulysses); there is no ring.",
        "Plan with cp_comm: all_to_all.",
    )
    out.unless(
        launch.ep == 1 and launch.etp == 1,
        "ep",
        "the experts' groups are made in code.",
        "Use --forbid ep.",
    )
    out.unless(
        launch.dp_replicate == 1,
        "dp_replicate",
        "zero_hpz_partition_size keeps a second "
        "copy of the weights and still shards states over every rank; there is no HSDP.",
        "Use --forbid dp_replicate.",
    )
    out.unless(
        launch.recompute != "selective",
        "recompute",
        "checkpoints whole layers only.",
        "Solve with recompute none or full.",
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
        f"no {launch.precision} there.",
        "Plan with --precision bf16.",
    )
    out.unless(
        launch.optimizer == "adamw",
        "optimizer",
        f"{launch.optimizer} keeps other states than the fp32 moments that it shards.",
        "Plan for adamw.",
    )
    out.unless(
        launch.offload != "optimizer+activations",
        "offload",
        "cpu_checkpointing moves the inputs of checkpointed layers only.",
        "Plan with offload: optimizer.",
    )
    out.unless(
        launch.offload == "none" or launch.zero > 0,
        "offload",
        "offloading needs ZeRO 1.",
        "Use --min zero=1.",
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
    "hsdp": False,
    "recompute": ("none", "full"),
    "stages": "even",
}
DEEPSPEED = Target(NAME, write, SAYS, (str(table(NAME)["version"]),), SEARCH)
