"""Scripts that start a run: plain torchrun, node by node, and a Slurm job."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from topology.errors import InputError, Problem
from topology.units import show_seconds, shown

from ..description import Launch, Run
from ..schedule import Times, clock, late, times
from .base import Exported, Target, Wanted, Words, continued
from .command import PORT, Command, command, ordered

LONGEST_NAME = 200


def torchrun(launch: Launch, run: Run, wanted: Wanted) -> Exported:
    """Write a script that every node runs with its NODE_RANK and the first node's name."""
    found = command(launch, run, wanted)
    several = run.nodes > 1
    place = '--node-rank "$NODE_RANK" --master-addr "$HEAD"' if several else "--standalone"
    needs = [': "${NODE_RANK:?0 on the first node, 1 on the next}"',
             ': "${HEAD:?name of the first node}"'] if several else []  # fmt: skip
    port = f" --master-port {PORT}" if several else ""
    start = f"exec torchrun --nnodes {run.nodes} --nproc-per-node {run.gpus_per_node} {place}{port}"
    text = "\n".join([
        "#!/usr/bin/env bash",
        *_about(launch, run),
        "set -euo pipefail",
        *needs,
        *_environment(found),
        continued([start, *_program(found, found.arguments)]),
        "",
    ])  # fmt: skip
    notes = (
        f"{found.rest[0]}: {found.rest[1]}",
        "nodes in rank order: shardplan topology ranks --to torchrun",
    )
    return Exported(text, "launch.sh", notes)


def slurm(launch: Launch, run: Run, wanted: Wanted) -> Exported:
    """Write a batch script: nodes, time, checkpoints, one torchrun a node in rank order."""
    found, limits = command(launch, run, wanted), times(run, wanted)
    arguments = ordered(found, found.saving(limits))
    start = (
        "srun --kill-on-bad-exit=1 --ntasks-per-node=1 bash -c "
        """'exec torchrun --node-rank "$SLURM_NODEID" "$@"' torchrun"""
    )
    group = (f'--nnodes {run.nodes} --nproc-per-node {run.gpus_per_node} --master-addr "$HEAD" '
             f"--master-port {PORT}")  # fmt: skip
    text = "\n".join([
        "#!/usr/bin/env bash",
        *(f"#SBATCH {line}" for line in _directives(run, wanted, limits)),
        *_about(launch, run),
        f"# Saves every {limits.save_steps:,} steps, {show_seconds(limits.save_every_s)}.",
        "set -euo pipefail",
        *_environment(found),
        'HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        "# Node n of the allocation holds the n-th ranks; the variable is the task's, not this "
        "script's.",
        "# shellcheck disable=SC2016",
        continued([start, group, *_program(found, arguments)]),
        "",
    ])  # fmt: skip
    notes = (
        f"{found.rest[0]}: {found.rest[1]}",
        "nodes under one leaf after the other: shardplan topology ranks --to slurm",
        *(("each job goes on where the last one saved: name one folder to save to and load from",)
          if limits.jobs > 1 else ()),
        *late(limits),
    )  # fmt: skip
    return Exported(text, "job.sbatch", notes)


def _directives(run: Run, wanted: Wanted, limits: Times) -> list[str]:
    chain = [f"--array=1-{limits.jobs}%1"] if limits.jobs > 1 else []
    return [
        f"--job-name={job_name(wanted.name)}",
        f"--nodes={run.nodes}",
        "--ntasks-per-node=1",
        f"--gpus-per-node={run.gpus_per_node}",
        "--exclusive",
        f"--time={clock(limits.limit_s)}",
        "--requeue",
        *chain,
    ]


def job_name(name: str) -> str:
    """Quote the name of a job; Slurm reads its directives as a shell reads words.

    Raises
    ------
    InputError
        SP114 for what no quotes hold in one line: control characters, nothing, far too much.
    """
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        message = f"{shown(name)} is no name of a job."
        hint = f"Write 1 to {LONGEST_NAME} printable characters."
        raise InputError(Problem("--name", 0, 0, "", "SP114", message, hint))
    return shlex.quote(name)


def _about(launch: Launch, run: Run) -> list[str]:
    """Say what is started, for whoever opens the script."""
    degrees = " × ".join(
        f"{name} {size}"
        for name, size in (("TP", launch.tp), ("CP", launch.cp), ("DP", launch.dp),
                           ("PP", launch.pp))
    )  # fmt: skip
    last = run.gpus_per_node - 1
    return [
        f"# {launch.gpus} ranks = {degrees}, ranks filled in the order {launch.order}; node n has "
        f"ranks {run.gpus_per_node} n to {run.gpus_per_node} n + {last}.",
        f"# Predicted: {show_seconds(run.step_s)} a step."
        + ("" if run.wall_clock_s is None else f" {show_seconds(run.wall_clock_s)} in all."),
    ]


def _environment(found: Command) -> list[str]:
    name, what = found.rest
    return [
        *(f"export {key}={shlex.quote(value)}" for key, value in found.variables),
        f': "${{{name}:?{what}}}"',
        f'read -ra own <<<"${name}"',
    ]


def _program(found: Command, arguments: Sequence[Words]) -> list[str]:
    """Return the lines of what torchrun starts; the user's own arguments come first."""
    program = " ".join(map(shlex.quote, found.program))
    return [f'{program} "${{own[@]}}"', *(" ".join(map(shlex.quote, o)) for o in arguments)]


TORCHRUN = Target("torchrun", torchrun)
SLURM = Target("slurm", slurm)
