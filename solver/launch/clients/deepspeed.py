"""DeepSpeed's configuration class: ``deepspeed.py < entries.json``.

An entry has ``text`` (the file), ``dp`` (data-parallel ranks) and ``zero``.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


class Ranks:
    """Tells DeepSpeed how many data-parallel ranks there are."""

    def __init__(self, dp: int) -> None:
        self.dp = dp

    def get_data_parallel_world_size(self) -> int:
        """Return them."""
        return self.dp


def start() -> None:
    """Make DeepSpeed see a group of processes, without which it takes every size for 1."""
    import torch.distributed as dist  # noqa: PLC0415
    from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415

    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    import deepspeed  # noqa: PLC0415

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    deepspeed.init_distributed(dist_backend="gloo", dist_init_required=False)


def faults(entry: dict[str, Any]) -> list[str]:
    """Return what DeepSpeed refuses, or reads otherwise than meant."""
    try:
        return _differences(entry)
    except Exception as error:  # whatever it refuses with
        return [f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]]


def _differences(entry: dict[str, Any]) -> list[str]:
    from deepspeed.runtime.config import DeepSpeedConfig  # noqa: PLC0415

    data = json.loads(entry["text"])
    config = DeepSpeedConfig(data, mpu=Ranks(entry["dp"]))
    zero = config.zero_config
    found = []
    if config.zero_optimization_stage != entry["zero"]:
        found.append(f"stage {config.zero_optimization_stage}, meant {entry['zero']}")
    for key, value in data.get("zero_optimization", {}).items():
        arrived = getattr(zero, key)
        if not isinstance(value, dict) and arrived != value:
            found.append(f"{key} {arrived}, meant {value}")
    checkpoints = data.get("activation_checkpointing", {}).get("number_checkpoints")
    if config.activation_checkpointing_config.number_checkpoints != checkpoints:
        found.append("activation_checkpointing did not arrive")
    if config.grad_accum_dtype != data.get("data_types", {}).get("grad_accum_dtype"):
        found.append("grad_accum_dtype did not arrive")
    return found


if __name__ == "__main__":
    start()
    results = [faults(entry) for entry in json.load(sys.stdin)]
    print(f"\n{json.dumps(results)}")
