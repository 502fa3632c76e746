"""A SkyPilot task: nodes, GPUs, and the command that each of them runs."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import yaml

from topology.errors import InputError, Problem

from ..description import Launch, Run
from ..errors import INEXPRESSIBLE, LaunchError
from ..schedule import times
from .base import Exported, Target, Wanted, continued
from .command import PORT, command, ordered

ACCELERATORS = {
    "v100-32gb-sxm": "V100-32GB",
    "a100-40gb-sxm": "A100",
    "a100-80gb-sxm": "A100-80GB",
    "a100-80gb-pcie": "A100-80GB",
    "h100-80gb-sxm": "H100",
    "h100-80gb-pcie": "H100",
    "h200-141gb-sxm": "H200",
    "b200-180gb-sxm": "B200",
    "b300-288gb-sxm": "B300",
    "gb200-186gb": "GB200",
    "l40s-48gb": "L40S",
    "mi300x-192gb": "MI300X",
}
"""SkyPilot's names of GPUs (its catalogue's AcceleratorName)."""


def write(launch: Launch, run: Run, wanted: Wanted) -> Exported:
    """Write the task."""
    found = command(launch, run, wanted)
    # A task has no time limit, and so no chain of tasks: its length only sets the checkpoints.
    limits = times(run, replace(wanted, longest_s=None)) if run.wall_clock_s else None
    arguments = found.arguments
    if limits is not None:
        arguments = ordered(found, found.saving(limits))
    data: dict[str, Any] = {
        "name": _name(wanted.name),
        "num_nodes": run.nodes,
        "resources": {"accelerators": f"{_accelerator(run.gpu)}:{run.gpus_per_node}"},
        "envs": {**dict(found.variables), found.rest[0]: found.rest[1]},
        "run": "\n".join([
            "set -euo pipefail",
            f'read -ra own <<<"${found.rest[0]}"',
            'HEAD=$(head -n 1 <<<"$SKYPILOT_NODE_IPS")',
            continued([
                f"torchrun --nnodes {run.nodes} --nproc-per-node {run.gpus_per_node} "
                f'--node-rank "$SKYPILOT_NODE_RANK" --master-addr "$HEAD" --master-port {PORT}',
                " ".join(map(shlex.quote, found.program)) + ' "${own[@]}"',
                *(" ".join(map(shlex.quote, option)) for option in arguments),
            ]),
            "",
        ]),
    }  # fmt: skip
    notes = (f"set {found.rest[0]}: {found.rest[1]}",)
    return Exported(yaml.dump(data, Dumper=_Dumper, sort_keys=False), "task.yaml", notes)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, as people do."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _name(name: str) -> str:
    """Take a name as SkyPilot does: letters, digits, dots, dashes and underscores.

    Raises
    ------
    InputError
        SP114 for another one.
    """
    plain = name.replace("-", "").replace("_", "").replace(".", "")
    if plain.isascii() and plain.isalnum() and name[0].isalpha():
        return name
    hint = "Begin with a letter; use letters, digits, '.', '-' and '_'."
    message = f"'{name[:40]}' is no name of a SkyPilot task."
    raise InputError(Problem("--name", 0, 0, "", "SP114", message, hint))


def _accelerator(gpu: str) -> str:
    """Return SkyPilot's name of a GPU.

    Raises
    ------
    LaunchError
        Where none is known.
    """
    if gpu in ACCELERATORS:
        return ACCELERATORS[gpu]
    message = f"no name of {gpu} is known there."
    hint = f"Known: {', '.join(ACCELERATORS)}."
    raise LaunchError(Problem("--to skypilot", 0, 0, "cluster.gpu", INEXPRESSIBLE, message, hint))


SKYPILOT = Target("skypilot", write)
