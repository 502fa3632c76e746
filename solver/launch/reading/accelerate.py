"""A launch out of Accelerate's configuration file."""

from __future__ import annotations

from typing import Any

from topology.errors import InputError

from ...job.job import PlanningProblem
from ..tables import table
from ..targets.accelerate import RESHARDED
from .base import Reading, Text
from .mapping import Config

KINDS = ("FSDP", "DEEPSPEED", "MULTI_GPU", "NO")
_FSDP, _DEEPSPEED, _AXES = "fsdp_config", "deepspeed_config", "parallelism_config"
STRATEGIES = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0, "1": 3, "2": 2, "3": 0}
"""Names and numbers of FSDP 1's strategies."""


def read(text: Text, problem: PlanningProblem) -> Reading:
    """Read a configuration; the batch is the script's.

    Raises
    ------
    InputError
        With unknown keys, also those inside sections, which Accelerate takes without a word, and
        what cannot be.
    """
    config = Config.of(text, table("accelerate")["keys"])
    kind = config.choice(("distributed_type",), KINDS, None)
    machines = config.number(("num_machines",), 1)
    gpus = config.number(("num_processes",), 1)
    if gpus % machines:
        message = f"{gpus} processes do not fill {machines} machines evenly."
        raise InputError(config.fault(("num_processes",), message, "Use a multiple."))
    precision = config.choice(("mixed_precision",), ("bf16", "fp16"), "bf16")
    fields: dict[str, Any] = {"precision": precision, "sp": False, "cp_comm": "ring"}
    if kind == "FSDP":
        fields |= _fsdp(config)
    elif kind == "DEEPSPEED":
        fields |= _deepspeed(config)
    else:
        fields |= {"zero": 0, "recompute": "none", "offload": "none"}
    fields |= _axes(config, kind, gpus)
    return Reading(fields, _notes(config, fields), gpus)


def _fsdp(config: Config) -> dict[str, Any]:
    if config.flag((_FSDP, "fsdp_offload_params")):
        message = "moves weights to the host, which no estimate knows."
        raise InputError(config.fault((_FSDP, "fsdp_offload_params"), message, code="SP115"))
    version = config.choice((_FSDP, "fsdp_version"), (1, 2), 1)
    reshards = config.flag((_FSDP, "fsdp_reshard_after_forward"), True)
    zero = {after: stage for stage, after in RESHARDED.items()}[reshards]
    if version == 1:
        strategy = str(config.get((_FSDP, "fsdp_sharding_strategy"), "FULL_SHARD"))
        if strategy not in STRATEGIES:
            message = f"'{strategy[:40]}' has no shard group of known size."
            hint = "Use fsdp_version 2 with parallelism_config."
            raise InputError(config.fault((_FSDP, "fsdp_sharding_strategy"), message, hint))
        zero = STRATEGIES[strategy]
    full = config.flag((_FSDP, "fsdp_activation_checkpointing"))
    return {"zero": zero, "recompute": "full" if full else "none", "offload": "none"}


def _deepspeed(config: Config) -> dict[str, Any]:
    if config.get((_DEEPSPEED, "deepspeed_config_file")) is not None:
        message = "another file holds what matters."
        hint = "Read that one: --from deepspeed."
        raise InputError(config.fault((_DEEPSPEED, "deepspeed_config_file"), message, hint))
    zero = config.choice((_DEEPSPEED, "zero_stage"), (0, 1, 2, 3), 2)
    devices = {"none": "none", "cpu": "optimizer"}
    offload = config.choice((_DEEPSPEED, "offload_optimizer_device"), devices, "none")
    if config.choice((_DEEPSPEED, "offload_param_device"), devices, "none") != "none":
        message = "moves weights to the host, which no estimate knows."
        raise InputError(config.fault((_DEEPSPEED, "offload_param_device"), message, code="SP115"))
    if offload != "none" and not zero:
        message = "needs zero_stage 1."
        raise InputError(config.fault((_DEEPSPEED, "offload_optimizer_device"), message))
    return {"zero": zero, "recompute": "none", "offload": devices[offload]}


def _axes(config: Config, kind: str, gpus: int) -> dict[str, Any]:
    """Read the N-D section; without it all ranks are data parallel.

    Raises
    ------
    InputError
        Where its sizes do not multiply to the processes, or exclude each other.
    """

    def size(name: str) -> int:
        return config.number((_AXES, f"{_AXES}_{name}_size"), 1)

    replicate, shard, tp, cp = (size(n) for n in ("dp_replicate", "dp_shard", "tp", "cp"))
    section = config.get((_AXES,))
    if not section:
        return {"tp": 1, "cp": 1, "dp": gpus, "dp_replicate": 1}
    if size("sp") > 1:
        message = "and cp_size exclude each other." if cp > 1 else "is DeepSpeed's: no estimate."
        raise InputError(config.fault((_AXES, f"{_AXES}_sp_size"), message, code="SP115"))
    if replicate > 1 and shard == 1 and kind == "FSDP":
        message = "replicas without shards are no FSDP."
        hint = "Use distributed_type MULTI_GPU."
        raise InputError(config.fault((_AXES, f"{_AXES}_dp_shard_size"), message, hint))
    product = replicate * shard * tp * cp
    if product != gpus:
        message = f"sizes multiply to {product}, num_processes is {gpus}."
        raise InputError(config.fault((_AXES,), message, "Make both the same.", "SP108"))
    return {"tp": tp, "cp": cp, "dp": replicate * shard, "dp_replicate": replicate}


def _notes(config: Config, fields: dict[str, Any]) -> tuple[str, ...]:
    found = ["batch, sequence length and optimizer are the problem's: the file has no key for them"]
    if fields["tp"] > 1:
        found.append("without sequence parallelism activations are larger than estimated")
    if config.get(("megatron_lm_config",)):
        found.append("megatron_lm_config is not looked at")
    return tuple(found)
