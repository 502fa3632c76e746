"""Megatron-Core's configuration, layer split and rank groups: ``megatron.py < entries.json``.

An entry has ``text`` (the arguments), ``model`` (fields of TransformerConfig), ``layers`` (of each
stage), ``degrees`` and ``groups`` (ranks by axis).
"""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

RENAMED = {
    "decoder_first_pipeline_num_layers": "num_layers_in_first_pipeline_stage",
    "decoder_last_pipeline_num_layers": "num_layers_in_last_pipeline_stage",
    "num_virtual_stages_per_pipeline_rank": "virtual_pipeline_model_parallel_size",
    "fp8_format": "fp8",
    "fp4_format": "fp4",
    "num_experts": "num_moe_experts",
}
"""Arguments whose field has another name (megatron/training/arguments.py)."""
LISTS = ("recompute_modules",)
DDP = {
    "use_distributed_optimizer": "use_distributed_optimizer",
    "overlap_grad_reduce": "overlap_grad_reduce",
    "overlap_param_gather": "overlap_param_gather",
    "accumulate_allreduce_grads_in_fp32": "grad_reduce_in_fp32",
    "use_megatron_fsdp": "use_megatron_fsdp",
    "data_parallel_sharding_strategy": "data_parallel_sharding_strategy",
    "num_distributed_optimizer_instances": "num_distributed_optimizer_instances",
}


def arguments(text: str) -> dict[str, Any]:
    """Read options: the name without dashes, True for a flag."""
    found: dict[str, Any] = {}
    name = ""
    for word in shlex.split(text):
        if word.startswith("--"):
            name = word[2:].replace("-", "_")
            found[name] = True
        elif found[name] is True:
            found[name] = [word]
        else:
            found[name].append(word)
    return {key: _value(key, value) for key, value in found.items()}


def _value(key: str, value: Any) -> Any:
    if value is True or key in LISTS:
        return value
    word = value[0]
    return int(word) if word.isdigit() else word


def faults(entry: dict[str, Any]) -> list[str]:
    """Return what Megatron-Core refuses, or does otherwise than meant."""
    import torch  # noqa: PLC0415
    from megatron.core.distributed import DistributedDataParallelConfig  # noqa: PLC0415
    from megatron.core.transformer import (  # noqa: PLC0415
        MLATransformerConfig,
        TransformerConfig,
        transformer_config,
    )

    # Transformer Engine needs CUDA: a current release is taken for granted.
    transformer_config.is_te_min_version = lambda *_, **__: True
    given = arguments(entry["text"])
    config_class = MLATransformerConfig if "kv_lora_rank" in entry["model"] else TransformerConfig
    fields = config_class.__dataclass_fields__
    named = {RENAMED.get(key, key): value for key, value in given.items()}
    named["pipeline_dtype"] = torch.bfloat16  # Megatron-LM sets it from --bf16
    try:
        config = config_class(**entry["model"], **{k: v for k, v in named.items() if k in fields})
        DistributedDataParallelConfig(**{DDP[k]: v for k, v in given.items() if k in DDP})
        found = _other_layers(config, entry)
        return found + _other_ranks(entry)
    except Exception as error:  # whatever it refuses with
        return [f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]]


def _other_layers(config: Any, entry: dict[str, Any]) -> list[str]:
    from megatron.core import parallel_state  # noqa: PLC0415
    from megatron.core.transformer.transformer_block import (  # noqa: PLC0415
        get_num_layers_to_build,
    )

    layout = config.pipeline_model_parallel_layout
    vpp = config.virtual_pipeline_model_parallel_size or 1
    parallel_state.set_virtual_pipeline_model_parallel_world_size(vpp if vpp > 1 else None)
    stages = range(config.pipeline_model_parallel_size)
    built = [
        sum(
            layout.get_num_layers_to_build(vp_stage=v, pp_rank=stage)
            if layout is not None
            else get_num_layers_to_build(config, vp_stage=v, pp_rank=stage)
            for v in range(vpp)
        )
        for stage in stages
    ]
    return [] if built == entry["layers"] else [f"layers {built}, meant {entry['layers']}"]


def _other_ranks(entry: dict[str, Any]) -> list[str]:
    from megatron.core.parallel_state import RankGenerator  # noqa: PLC0415

    d = entry["degrees"]
    experts = {"tp": d["etp"], "ep": d["ep"], "dp": d["edp"], "pp": d["pp"], "cp": 1}
    dense = {"tp": d["tp"], "ep": 1, "dp": d["dp"], "pp": d["pp"], "cp": d["cp"]}
    found = []
    for axis, ranks in entry["groups"].items():
        sizes = experts if axis in ("ep", "etp", "edp") else dense
        theirs = {"etp": "tp", "edp": "dp"}.get(axis, axis)
        groups = sorted(RankGenerator(**sizes, order=d["order"]).get_ranks(theirs))
        if groups != sorted(ranks):
            found.append(f"{axis} groups {groups[:2]}, meant {ranks[:2]}")
    return found


if __name__ == "__main__":
    results = [faults(entry) for entry in json.load(sys.stdin)]
    print(f"\n{json.dumps(results)}")
