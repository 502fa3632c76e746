"""A launch out of DeepSpeed's configuration file."""

from __future__ import annotations

from typing import Any

from topology.errors import InputError

from ...job.job import PlanningProblem
from ..tables import table
from ..targets.deepspeed import FULL_SHARDING
from .base import Reading, Text
from .mapping import Config

_ZERO = ("zero_optimization",)
_BATCH = ("train_batch_size",)
_MICRO = ("train_micro_batch_size_per_gpu",)
_STEPS = ("gradient_accumulation_steps",)
_DEVICES = ("none", "cpu", "nvme")


def read(text: Text, problem: PlanningProblem) -> Reading:
    """Read a configuration; the number of ranks follows from its batch.

    Raises
    ------
    InputError
        With unknown keys, also those that DeepSpeed takes without a word, and what cannot be.
    """
    config = Config.of(text, table("deepspeed")["keys"])
    stage = config.choice((*_ZERO, "stage"), (0, 1, 2, 3), 0)
    _refuse(config, stage)
    fields: dict[str, Any] = {
        "zero": stage,
        "tp": max(config.number(("tensor_parallel", "autotp_size"), 1, least=0), 1),
        "cp": config.number(("sequence_parallel_size",), 1),
        "cp_comm": "all_to_all",
        "sp": False,
        "recompute": "full" if config.get(("activation_checkpointing",)) is not None else "none",
        "overlap_data": config.flag((*_ZERO, "overlap_comm"), stage == FULL_SHARDING),
        **_precision(config),
    }
    offload = config.choice((*_ZERO, "offload_optimizer", "device"), _DEVICES, "none")
    fields["offload"] = "optimizer" if offload == "cpu" else "none"
    fields |= _batch(config, problem)
    return Reading(fields, _notes(config, fields))


def _refuse(config: Config, stage: int) -> None:
    """Refuse what DeepSpeed refuses, or takes and then does not do.

    Raises
    ------
    InputError
        With every reason.
    """
    found = []
    optimizer = (*_ZERO, "offload_optimizer")
    parameters = (*_ZERO, "offload_param")
    if config.get(optimizer) is not None and stage == 0:
        found.append(config.fault(optimizer, "needs stage 1.", "Set stage to 1 or more."))
    if config.choice((*parameters, "device"), _DEVICES, "none") != "none":
        if stage < FULL_SHARDING:
            found.append(config.fault(parameters, "has no effect below stage 3.", "Drop it."))
        else:
            message = "moves weights to the host, which no estimate knows."
            found.append(config.fault(parameters, message, code="SP115"))
    if config.choice((*optimizer, "device"), _DEVICES, "none") == "nvme":
        message = "moves states to a disk, which no estimate knows."
        found.append(config.fault(optimizer, message, "Use cpu.", "SP115"))
    if config.number((*_ZERO, "zero_hpz_partition_size"), 1, least=0) > 1:
        message = "keeps a second copy of the weights in each node, which no estimate knows."
        found.append(config.fault((*_ZERO, "zero_hpz_partition_size"), message, code="SP115"))
    if config.get(("expert_parallel",)) is not None or config.get(("pipeline",)) is not None:
        message = "pipelines and experts are laid out in code; their degrees are not in this file."
        found.append(config.fault((), message, "Use check --layout.", "SP115"))
    if config.flag(("fp16", "enabled")) and _bf16(config):
        found.append(config.fault(("fp16",), "and bf16 exclude each other."))
    if found:
        raise InputError(*found)


def _bf16(config: Config) -> bool:
    return config.flag(("bf16", "enabled")) or config.flag(("bfloat16", "enabled"))


def _precision(config: Config) -> dict[str, Any]:
    if not config.flag(("fp16", "enabled")) and not _bf16(config):
        hint = "Set bf16: {enabled: true}."
        raise InputError(config.fault(("bf16",), "32-bit training has no recipe here.", hint))
    names = {"fp32": "fp32", "bf16": "bf16", "fp16": "bf16"}
    grads = config.choice(("data_types", "grad_accum_dtype"), names, "fp32")
    precision = "fp16" if config.flag(("fp16", "enabled")) else "bf16"
    return {"precision": precision, "grad_dtype": names[grads]}


def _batch(config: Config, problem: PlanningProblem) -> dict[str, Any]:
    """Read two of batch, micro-batch and accumulation; the third follows.

    Raises
    ------
    InputError
        Where the product leaves something over.
    """
    given = {loc: config.get(loc) is not None for loc in (_BATCH, _MICRO, _STEPS)}
    if not given[_BATCH] and not given[_MICRO]:
        message = "neither train_batch_size nor train_micro_batch_size_per_gpu is a number."
        raise InputError(config.fault((), message, "Write both."))
    micro, steps = config.number(_MICRO, 1), config.number(_STEPS, 1)
    if not all(given.values()):
        batch = config.number(_BATCH, problem.job.global_batch)
        return {"global_batch": batch, **({"micro_batch": micro} if given[_MICRO] else {})}
    batch = config.number(_BATCH, 1)
    dp, rest = divmod(batch, micro * steps)
    if rest or not dp:
        message = f"{batch} is no multiple of micro-batch {micro} x accumulation {steps}."
        raise InputError(config.fault(_BATCH, message, f"Use {max(dp, 1) * micro * steps}."))
    return {"global_batch": batch, "micro_batch": micro, "dp": dp}


def _notes(config: Config, fields: dict[str, Any]) -> tuple[str, ...]:
    found = ["sequence length, steps and optimizer are the problem's: the file has no key for them"]
    if fields["tp"] > 1:
        found.append("without sequence parallelism activations are larger than estimated")
    if config.get(("optimizer", "type")) is not None:
        found.append(f"optimizer.type {config.get(('optimizer', 'type'))} is not looked at")
    return tuple(found)
