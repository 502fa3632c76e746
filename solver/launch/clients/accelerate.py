"""Accelerate's loader, launch parser and environment: ``accelerate.py < entries.json``.

An entry has ``text`` (the file) and ``gpus``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

IN_CAPITALS = ("fsdp_config", "parallelism_config")
"""Sections whose keys reach the script as environment variables of the same name."""
DEEPSPEED = {
    "zero_stage": "ACCELERATE_DEEPSPEED_ZERO_STAGE",
    "gradient_accumulation_steps": "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
    "offload_optimizer_device": "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE",
    "offload_param_device": "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE",
    "deepspeed_multinode_launcher": "",
}
"""The same for DeepSpeed's; the launcher's own key goes nowhere else."""


def faults(entry: dict[str, Any]) -> list[str]:
    """Return what Accelerate refuses, and the keys that do not arrive."""
    try:
        return _differences(entry)
    except Exception as error:  # whatever it refuses with
        return [f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]]


def _differences(entry: dict[str, Any]) -> list[str]:
    data = yaml.safe_load(entry["text"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "accelerate.yaml")
        path.write_text(entry["text"], encoding="utf-8")
        environment = _environment(str(path), data)
    found = [
        f"{key} did not arrive"
        for section in IN_CAPITALS
        for key, value in data.get(section, {}).items()
        if not _arrived(environment, key.upper(), value)
    ]
    found += [
        f"{key} did not arrive"
        for key, value in data.get("deepspeed_config", {}).items()
        if DEEPSPEED[key] and not _arrived(environment, DEEPSPEED[key], value)
    ]
    return found + _sizes(entry, data)


def _environment(path: str, data: dict[str, Any]) -> dict[str, str]:
    from accelerate.commands.config.config_args import load_config_from_file  # noqa: PLC0415
    from accelerate.commands.launch import (  # noqa: PLC0415
        _validate_launch_command,
        launch_command_parser,
    )
    from accelerate.utils.launch import (  # noqa: PLC0415
        prepare_deepspeed_cmd_env,
        prepare_multi_gpu_env,
    )

    load_config_from_file(path)
    words = ["--config_file", path, "--main_process_port", "0", "train.py"]
    args, _, _ = _validate_launch_command(launch_command_parser().parse_args(words))
    if data["distributed_type"] == "DEEPSPEED":
        fields = ",".join(data["deepspeed_config"])
        args.deepspeed_fields_from_accelerate_config = fields  # as launch_command does
        return dict(prepare_deepspeed_cmd_env(args)[1])
    return dict(prepare_multi_gpu_env(args))


def _arrived(environment: dict[str, str], name: str, value: Any) -> bool:
    return environment.get(name, "").lower() == str(value).lower()


def _sizes(entry: dict[str, Any], data: dict[str, Any]) -> list[str]:
    from accelerate import ParallelismConfig  # noqa: PLC0415

    sizes = {
        key.removeprefix("parallelism_config_"): value
        for key, value in data.get("parallelism_config", {}).items()
        if key.endswith("_size")
    }
    if not sizes:
        return []
    total = ParallelismConfig(**sizes).total_size
    return [] if total == entry["gpus"] else [f"{total} ranks, meant {entry['gpus']}"]


if __name__ == "__main__":
    results = [faults(entry) for entry in json.load(sys.stdin)]
    print(f"\n{json.dumps(results)}")
