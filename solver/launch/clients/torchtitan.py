"""torchtitan's ConfigManager, mesh sizes and layer split: ``torchtitan.py < entries.json``.

An entry has ``text`` (the overrides), ``gpus``, ``layers`` (of each stage) and ``vpp``.
"""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

BASE = ("--module", "llama3", "--config", "llama3_8b")
"""Any configuration: what is checked are the overrides, on the entry's own number of layers."""


def faults(entry: dict[str, Any]) -> list[str]:
    """Return what torchtitan refuses, or does otherwise than meant."""
    from torchtitan.config import ConfigManager  # noqa: PLC0415
    from torchtitan.distributed import ParallelDims  # noqa: PLC0415

    try:
        config = ConfigManager().parse_args([*BASE, *shlex.split(entry["text"])])
        ParallelDims.from_config(config.parallelism, entry["gpus"])
        return _other_layers(config.parallelism, entry)
    except (Exception, SystemExit) as error:  # whatever it refuses with
        return [f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]]


def _other_layers(parallelism: Any, entry: dict[str, Any]) -> list[str]:
    from torchtitan.distributed.pipeline_parallel import (  # noqa: PLC0415
        _generate_llm_fqn_per_model_part,
    )

    pp = parallelism.pipeline_parallel_degree
    if pp == 1:
        return []
    total = sum(entry["layers"])
    ends = (
        parallelism.pipeline_parallel_first_stage_less_layers,
        parallelism.pipeline_parallel_last_stage_less_layers,
    )
    each, stages = parallelism.pipeline_parallel_layers_per_stage, pp
    if each is not None:
        stages = -(-(total + sum(ends)) // each)
    parts = _generate_llm_fqn_per_model_part(stages, total, *ends)
    chunks = [sum(name.startswith("layers.") for name in part) for part in parts]
    built = [sum(chunks[stage::pp]) for stage in range(pp)]
    right = built == entry["layers"] and stages == pp * entry["vpp"]
    return [] if right else [f"layers {built} on {stages} stages, meant {entry['layers']}"]


if __name__ == "__main__":
    results = [faults(entry) for entry in json.load(sys.stdin)]
    print(f"\n{json.dumps(results)}")
