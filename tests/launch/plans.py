"""Random plans of many models, layouts and recipes, each expressible in a target."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from solver.job.job import Job, PlanningProblem
from solver.job.read import parse_problem
from solver.job.recipe import Recipe
from solver.launch.describe import describe, run_of
from solver.launch.description import Launch, Run
from solver.launch.export import TARGETS
from solver.launch.targets.base import Wanted
from solver.layout_check import LayoutRequest, check
from solver.plan import Plan
from topology import InputError

DENSE = ("llama3-8b", "llama3-70b", "llama3.1-405b", "qwen2-7b")
MOE = ("qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v3")
PROBLEM = """
model: {model}
cluster: {{gpu: h100, nodes: {nodes}}}
framework: {framework}
training: {{seq_len: 4096, global_batch: 256seq, tokens: 10B}}
"""
USUAL, INSIDE = "tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"

WIDE: dict[str, Sequence[Any]] = {
    "model": (*DENSE, *MOE), "framework": ("megatron", "fsdp"), "nodes": (1, 2, 4, 8, 16),
    "seq_len": (4096, 8192, 16384), "global_batch": (64, 128, 256, 512),
    "optimizer": ("adamw", "adamw", "adamw16"), "precision": ("bf16", "bf16", "fp8", "fp16"),
    "grad_bytes": (4.0, 4.0, 2.0), "cp_comm": ("ring", "all_to_all"),
    "offload": ("none", "none", "none", "optimizer"), "tp": (1, 1, 2, 4, 8),
    "pp": (1, 1, 2, 3, 4, 5, 8, 16), "vpp": (1, 1, 1, 2, 4, 5), "cp": (1, 1, 1, 2, 4),
    "ep": (1, 2, 4, 8), "etp": (1, 1, 2), "zero": (0, 1, 1, 2, 3), "dp_replicate": (1, 2, 4),
    "micro_batch": (1, 1, 2, 4), "recompute": ("none", "none", "full", "selective"),
    "order": (USUAL, USUAL, USUAL, INSIDE), "uneven": (False, True),
}  # fmt: skip
"""What plans are drawn from; a value that stands twice comes up twice as often."""
PLAIN: dict[str, Sequence[Any]] = {
    "optimizer": ("adamw",), "precision": ("bf16",), "grad_bytes": (4.0,), "offload": ("none",),
    "order": (USUAL,), "etp": (1,), "recompute": ("none", "full"), "uneven": (False,),
}  # fmt: skip
NARROW: dict[str, dict[str, Sequence[Any]]] = {
    "megatron": {},
    "torchtitan": {**PLAIN, "zero": (2, 3, 3), "cp_comm": ("ring",), "uneven": (False, True)},
    "deepspeed": {
        **PLAIN, "tp": (1,), "pp": (1,), "cp_comm": ("all_to_all",), "ep": (1,),
        "precision": ("bf16", "fp16"), "grad_bytes": (4.0, 2.0), "dp_replicate": (1,),
        "offload": ("none", "none", "optimizer"),
    },
    "accelerate": {
        **PLAIN, "tp": (1,), "pp": (1,), "cp_comm": ("ring",), "ep": (1,),
        "precision": ("bf16", "fp16"), "offload": ("none", "none", "optimizer"),
    },
}  # fmt: skip
"""What a target can say at all, so that few plans are drawn in vain."""


@dataclasses.dataclass(frozen=True)
class Drawn:
    problem: PlanningProblem
    plan: Plan
    launch: Launch
    run: Run


@cache
def problem_of(model: str, nodes: int, framework: str) -> PlanningProblem:
    return parse_problem(PROBLEM.format(model=model, nodes=nodes, framework=framework))


@cache
def plans(target: str, count: int, seed: int) -> tuple[Drawn, ...]:
    """Return so many plans that a target can express."""
    rng = random.Random(f"{target} {seed}")
    found: list[Drawn] = []
    while len(found) < count:
        drawn = _draw(target, rng)
        found += [drawn] if drawn is not None else []
    return tuple(found)


def _draw(target: str, rng: random.Random) -> Drawn | None:
    chosen = {key: rng.choice(NARROW[target].get(key, values)) for key, values in WIDE.items()}
    problem = _with(problem_of(chosen["model"], chosen["nodes"], chosen["framework"]), chosen)
    ranks = chosen["tp"] * chosen["pp"] * chosen["cp"]
    dp, rest = divmod(chosen["nodes"] * 8, ranks)
    if rest or not dp:
        return None
    try:
        plan = check(problem, _request(problem, chosen, dp, rng))
        launch, run = describe(problem, plan), run_of(problem, plan)
        TARGETS[target].write(launch, run, Wanted())
    except InputError:
        return None
    return Drawn(problem, plan, launch, run)


def _with(problem: PlanningProblem, chosen: dict[str, Any]) -> PlanningProblem:
    job = {name: getattr(problem.job, name) for name in Job.model_fields}
    recipe = Recipe.of(chosen["optimizer"], chosen["precision"], chosen["grad_bytes"])
    job |= {"recipe": recipe, "seq_len": chosen["seq_len"], "global_batch": chosen["global_batch"]}
    update = {"cp_comm": chosen["cp_comm"], "offload": chosen["offload"]}
    search = problem.search.model_copy(update=update)
    return dataclasses.replace(problem, job=Job(**job), search=search)


def _request(
    problem: PlanningProblem, chosen: dict[str, Any], dp: int, rng: random.Random
) -> LayoutRequest:
    keys = ["tp", "pp", "cp", "zero", "micro_batch", "recompute", "order"]
    values = {key: chosen[key] for key in keys} | {"dp": dp}
    if chosen["pp"] > 1:
        values["vpp"] = chosen["vpp"]
    if problem.job.transformer.moe is not None:
        values |= {"ep": chosen["ep"], "etp": chosen["etp"]}
    if chosen["zero"] == 3:
        values["dp_replicate"] = chosen["dp_replicate"]
    if chosen["uneven"] and chosen["pp"] > 1 and values["vpp"] == 1:
        values |= _uneven(problem.job.transformer.layers, chosen["pp"], chosen["recompute"], rng)
    return LayoutRequest(**values)


def _uneven(layers: int, pp: int, kind: str, rng: random.Random) -> dict[str, Any]:
    """Move a layer or two from stage to stage, and recompute some of each alike."""
    each = [layers // pp + (i < layers % pp) for i in range(pp)]
    for _ in range(rng.randint(0, 2)):
        one, other = rng.sample(range(pp), 2)
        each[one], each[other] = each[one] - 1, each[other] + 1
    found: dict[str, Any] = {"stage_layers": tuple(each)}
    if kind == "none":
        again = rng.randint(0, max(each))
        found["recomputed_layers"] = tuple(min(again, n) for n in each)
    return found
