"""``export --check``: hold a configuration against the framework that is to read it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from topology.errors import InputError, Problem
from topology.placement import Placement

from ..job.job import PlanningProblem
from ..job.transformer import Transformer
from .description import Launch
from .errors import NOT_UNDERSTOOD, LaunchError

CLIENTS = ("megatron", "torchtitan", "deepspeed", "accelerate")
"""Targets whose parser can be run; the package that it is in has the same name."""
PYTHON = "SHARDPLAN_CLIENTS"
"""Environment variable: the Python that has the frameworks; unset for this one."""
LONGEST_S = 600
"""Imports alone take 5 to 20 s."""


def python() -> str:
    """Return the Python in which the frameworks are looked for."""
    return os.environ.get(PYTHON) or sys.executable


@cache
def installed(target: str, interpreter: str) -> bool:
    """Whether a target's framework can be imported there."""
    find = f"import importlib.util as u, sys; sys.exit(u.find_spec({target!r}) is None)"
    try:
        done = subprocess.run([interpreter, "-c", find], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def client_faults(
    target: str, entries: Sequence[Mapping[str, Any]], interpreter: str | None = None
) -> list[list[str]]:
    """Run a framework's own parser over configurations.

    Returns
    -------
    For each entry what is refused or arrives otherwise than meant; empty where all is well.

    Raises
    ------
    InputError
        SP161 where the framework is not installed, or its parser does not run.
    """
    with_it = interpreter or python()
    if target not in CLIENTS:
        message = f"there is no parser of {target} to run."
        hint = f"There is one of {', '.join(CLIENTS)}."
        raise InputError(Problem("--check", 0, 0, "", NOT_UNDERSTOOD, message, hint))
    if not installed(target, with_it):
        message = f"{target} is not installed."
        hint = f"Install shardplan[clients], or name a Python that has it in {PYTHON}."
        raise InputError(Problem("--check", 0, 0, "", NOT_UNDERSTOOD, message, hint))
    script = Path(__file__).parent / "clients" / f"{target}.py"
    # -P: the script's own folder must not stand for the package of the same name.
    try:
        done = subprocess.run(
            [with_it, "-P", str(script)],
            input=json.dumps(list(entries)),
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        message = f"the parser of {target} takes longer than {LONGEST_S} s."
        raise InputError(Problem("--check", 0, 0, "", NOT_UNDERSTOOD, message)) from None
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        last = (done.stderr.splitlines() or ["no output"])[-1][:200]
        message = f"the parser of {target} does not run: {last}."
        raise InputError(Problem("--check", 0, 0, "", NOT_UNDERSTOOD, message))
    found: list[list[str]] = json.loads(lines[-1])
    return found


def check(problem: PlanningProblem, launch: Launch, target: str, text: str) -> str:
    """Hold one configuration against its framework.

    Returns
    -------
    A line that says what took it.

    Raises
    ------
    LaunchError
        Where the framework refuses it, or reads it otherwise than meant.
    InputError
        Where it is not installed.
    """
    [found] = client_faults(target, [entry(problem, launch, text)])
    if found:
        where = f"--to {target}"
        raise LaunchError(
            *(Problem(where, 0, 0, "", NOT_UNDERSTOOD, f"refused: {fault}.") for fault in found)
        )
    return f"{target}'s own parser takes it"


def entry(problem: PlanningProblem, launch: Launch, text: str) -> dict[str, Any]:
    """Return what the scripts of `clients` read."""
    placed = Placement(
        problem.cluster.group,
        **{axis: getattr(launch, axis) for axis in ("tp", "cp", "ep", "etp", "dp", "pp")},
        order=launch.order,
    )
    axes = ["tp", "cp", "dp", "pp", *(("ep", "etp", "edp") if launch.experts else ())]
    return {
        "text": text,
        "model": megatron_model(problem.job.transformer),
        "layers": list(launch.layers),
        "vpp": launch.vpp,
        "dp": launch.dp,
        "zero": launch.zero,
        "gpus": launch.gpus,
        "degrees": {
            **launch.model_dump(include={"tp", "cp", "ep", "etp", "dp", "pp", "order"}),
            "edp": placed.edp,
        },
        "groups": {axis: placed.groups(axis).tolist() for axis in axes},
    }


def megatron_model(model: Transformer) -> dict[str, Any]:
    """Return a model's shape as fields of Megatron-Core's TransformerConfig."""
    fields: dict[str, Any] = {
        "num_layers": model.layers,
        "hidden_size": model.hidden,
        "num_attention_heads": model.heads,
        "ffn_hidden_size": model.ffn,
        "kv_channels": model.head_dim,
        "num_query_groups": model.kv_heads,
        "gated_linear_unit": model.gated,
        "add_bias_linear": model.mlp_bias,
    }
    if model.mtp_layers:
        fields["mtp_num_layers"] = model.mtp_layers
    if model.moe is not None:
        fields |= {
            "num_moe_experts": model.moe.experts,
            "moe_router_topk": model.moe.top_k,
            "moe_ffn_hidden_size": model.moe.ffn,
            "moe_grouped_gemm": True,
        }
    if model.mla is not None:
        fields |= {
            "q_lora_rank": model.mla.q_lora_rank,
            "kv_lora_rank": model.mla.kv_lora_rank,
            "qk_head_dim": model.mla.qk_nope_head_dim,
            "qk_pos_emb_head_dim": model.mla.qk_rope_head_dim,
            "v_head_dim": model.mla.v_head_dim,
            "multi_latent_attention": True,
        }
        fields.pop("num_query_groups")
    return fields
