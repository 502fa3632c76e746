"""What a problem's parts must agree on before the search starts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topology.errors import InputError, Problem, UnsupportedError

from ..cost.own_profile import find_profile
from ..cost.profile import FRAMEWORK_STACK
from ..cost.ticks import TICK_S
from ..job.job import PlanningProblem
from ..job.price_kinds import asked_kinds
from ..job.search import Search, Variants
from .instance import LONGEST_STEP

TEXTBOOK_ONLY_ONE = ("cp", "ep", "etp", "vpp")
"""Axes that the textbook account does not have."""


def validate(problem: PlanningProblem) -> None:
    """Raise ``InputError`` with everything that contradicts itself or is not supported."""
    faults = [*_money(problem), *_search(problem), *_precision(problem)]
    if faults:
        raise InputError(*faults)
    unsupported = [*_textbook(problem), *_stages(problem), *_late_weights(problem)]
    if unsupported:
        raise UnsupportedError(*unsupported)


def _fault(problem: PlanningProblem, field: str, code: str, message: str, hint: str) -> Problem:
    line, column = problem.positions.get(field, (0, 0))
    return Problem(problem.path or "problem", line, column, field, code, message, hint)


def too_long(problem: PlanningProblem) -> Problem:
    """Return the fault of a batch whose step is longer than the search represents."""
    return _fault(
        problem, "training.global_batch", "SP109",
        f"a step of {problem.job.step_tokens:,} tokens takes over {LONGEST_STEP * TICK_S:,.0f} s "
        "on this cluster; steps up to that long are planned.",
        "Use a smaller batch, or more GPUs.",
    )  # fmt: skip


def _money(problem: PlanningProblem) -> list[Problem]:
    faults, priced = [], problem.cluster.group.price_usd_per_gpu_hour is not None
    limits, tokens = problem.limits, problem.job.tokens
    if "cost" in (problem.objective.minimise, *problem.objective.then) and not priced:
        faults.append(
            _fault(problem, "cluster.price", "SP112", "objective cost needs a price.",
                   "Add --price 2.50 or cluster.price: there is no default, prices change.")
        )  # fmt: skip
    if limits.budget_usd is not None and not priced:
        faults.append(
            _fault(problem, "limits.budget", "SP112", "a budget needs a price.",
                   "Add --price 2.50 or cluster.price.")
        )  # fmt: skip
    for field, value in (("budget", limits.budget_usd), ("deadline", limits.deadline_s)):
        if value is not None and tokens is None:
            faults.append(
                _fault(problem, f"limits.{field}", "SP113",
                       f"a {field} needs the tokens of the whole run.",
                       "Add training.tokens, e.g. tokens: 100B.")
            )  # fmt: skip
    return faults


def _search(problem: PlanningProblem) -> list[Problem]:
    search, group = problem.search, problem.cluster.group
    faults = []
    if search.gpus is not None and search.max_gpus is not None and search.gpus > search.max_gpus:
        faults.append(
            _fault(problem, "search.gpus", "SP103",
                   f"needs {search.gpus} GPUs, max_gpus allows {search.max_gpus}.",
                   "Drop one of the two.")
        )  # fmt: skip
    if search.gpus is not None and search.gpus > group.gpus:
        faults.append(
            _fault(problem, "search.gpus", "SP103",
                   f"needs {search.gpus} GPUs, the cluster has {group.gpus}.",
                   f"Use at most {group.gpus}, or add nodes.")
        )  # fmt: skip
    if search.gpus is not None and not is_whole(search.gpus, group.gpus_per_node):
        node = group.gpus_per_node
        low = search.gpus // node * node
        faults.append(
            _fault(problem, "search.gpus", "SP103",
                   f"{search.gpus} GPUs neither divide a node of {node} nor fill whole nodes.",
                   f"Use {low} or {low + node}.")
        )  # fmt: skip
    return faults


def is_whole(gpus: int, node: int) -> bool:
    """Whether so many GPUs fill whole nodes, or an even part of one."""
    return gpus % node == 0 or (gpus < node and node % gpus == 0)


def _precision(problem: PlanningProblem) -> list[Problem]:
    gpu, precision = problem.cluster.group.gpu, problem.job.recipe.precision
    peak = {"fp8": "fp8", "mxfp8": "fp8", "nvfp4": "fp4"}.get(precision)
    lacks = peak is not None and not gpu.peak_flops.get(peak)
    if precision == "bf16" and not gpu.peak_flops.get("bf16"):
        return [
            _fault(problem, "training.precision", "SP118", f"{gpu.name} has no bf16 matrix units.",
                   "Use precision: fp16.")
        ]  # fmt: skip
    if not lacks:
        return []
    able = [p for p in ("bf16", "fp16", "fp8") if gpu.peak_flops.get(p)]
    return [
        _fault(problem, "training.precision", "SP118",
               f"{gpu.name} has no matrix units for {precision}.", f"Use one of {', '.join(able)}.")
    ]  # fmt: skip


def chooses_stages(problem: PlanningProblem) -> bool:
    """Whether layers can be chosen stage by stage in this account and job."""
    return problem.account.cost_model == "calibrated" and problem.job.finetune is None


def spreads_evenly(problem: PlanningProblem) -> bool:
    """Whether the even rule leaves out splits of layers, or of recomputed layers in a stage."""
    search = problem.search
    if search.stages == "free" or chooses_stages(problem):
        return search.stages != "free"
    gpus = max(group.gpus for group in problem.cluster.groups)
    most = min(problem.limits.max_stages, problem.job.transformer.layers, gpus)
    return bool(search.allows("pp", np.arange(2, most + 1)).any())


def may_free_stages(problem: PlanningProblem) -> bool:
    """Whether layers are spread evenly where they could be chosen stage by stage."""
    able = chooses_stages(problem) and not problem.objective.then
    return able and spreads_evenly(problem)


def _stages(problem: PlanningProblem) -> list[Problem]:
    if problem.search.stages != "free" or chooses_stages(problem):
        return []
    return [
        _fault(problem, "search.stages", "SP115",
               "layers are chosen freely in the calibrated account, for whole models, only.",
               "Drop the field: layers are then spread evenly.")
    ]  # fmt: skip


ZB_H1_STACKS = ("zero-bubble-megatron",)
"""Software stacks whose profiles know ZB-H1. Megatron-core and DeepSpeed have no such schedule;
torchtitan 0.3.0 has PyTorch's InterleavedZeroBubble, which is ZB-H1 with one stage a rank, but
takes two stages a rank or more."""


def validate_schedules(problem: PlanningProblem) -> None:
    """Raise where a schedule is asked for that this problem cannot have: none is left out silently.

    Raises
    ------
    InputError
        Where rules leave no schedule.
    UnsupportedError
        Where the stack, the account or the cluster has none but 1F1B.
    """
    search = problem.search
    if not search.schedules:
        raise InputError(
            _fault(problem, "search.schedule", "SP103", "the rules leave no pipeline schedule.",
                   "Fix or forbid fewer.")
        )  # fmt: skip
    if "zb-h1" not in search.schedules:
        return
    if len(problem.cluster.groups) > 1:
        raise UnsupportedError(
            _fault(problem, "search.schedule", "SP115",
                   "zb-h1 is planned on clusters of one kind of node only.",
                   "Use schedule: 1f1b, or plan for one node group.")
        )  # fmt: skip
    late = replace(problem, search=search.model_copy(update={"schedule": "zb-h1"}))
    faults = _late_weights(late)
    if faults:
        raise UnsupportedError(*faults)


def _late_weights(problem: PlanningProblem) -> list[Problem]:
    """Say why weight gradients cannot wait, where the search wants them to."""
    if not problem.search.zero_bubble:
        return []

    def fault(message: str, hint: str) -> Problem:
        return _fault(problem, "search.schedule", "SP115", message, hint)

    if problem.account.cost_model == "textbook":
        hint = "Use cost_model: calibrated, or schedule: 1f1b."
        return [fault("the textbook account has no zb-h1.", hint)]
    name = problem.account.profile or FRAMEWORK_STACK[problem.framework]
    stack = find_profile(name, problem.cluster.group.gpu.id).stack.stack
    faults = []
    if stack not in ZB_H1_STACKS:
        message = f"{stack} has no schedule zb-h1; {', '.join(ZB_H1_STACKS)} has."
        faults.append(fault(message, f"Use --profile {ZB_H1_STACKS[0]}, or schedule: 1f1b."))
    if problem.job.finetune is not None:
        hint = "Use schedule: 1f1b."
        faults.append(fault("zb-h1 is planned for whole models only.", hint))
    if "activations" in problem.search.offload:
        hint = "Use offload: optimizer, or schedule: 1f1b."
        faults.append(fault("zb-h1 keeps activations on the GPU.", hint))
    return faults


def validate_order(problem: PlanningProblem) -> None:
    """Raise ``UnsupportedError`` for what several objectives in order do not have."""
    if not problem.objective.then:
        return
    alternatives = len(asked_kinds(problem)) > 1 or problem.search.variants != Variants()
    found = {
        "several kinds of nodes": len(problem.cluster.groups) > 1,
        "alternatives of precision, offload, exchange, modules or price": alternatives,
        "stages: free": problem.search.stages == "free",
    }
    what = next((name for name, asked in found.items() if asked), None)
    if what is not None:
        raise UnsupportedError(
            _fault(problem, "objective.minimise", "SP115",
                   f"several objectives in order do not go with {what}.",
                   "Give one objective, or leave that out.")
        )  # fmt: skip


def validate_mixed(problem: PlanningProblem) -> None:
    """Raise ``UnsupportedError`` for an account that prices one kind of node only."""
    if len(problem.cluster.groups) > 1 and problem.account.cost_model == "textbook":
        raise UnsupportedError(
            _fault(problem, "cost_model", "SP115", "the textbook account has one kind of node.",
                   "Use cost_model: calibrated, or plan for one node group.")
        )  # fmt: skip


def _textbook(problem: PlanningProblem) -> list[Problem]:
    if problem.account.cost_model != "textbook":
        return []
    search: Search = problem.search
    faults = [
        _fault(problem, f"search.{axis}", "SP115",
               f"the textbook account has no {axis.upper()}: only 1 is possible.",
               "Drop the field, or use cost_model: calibrated.")
        for axis in TEXTBOOK_ONLY_ONE
        if ((wanted := getattr(search, axis)) is not None and 1 not in wanted)
        or not search.keeps(axis, np.array(1))
    ]  # fmt: skip
    if problem.job.finetune is not None:
        faults.append(
            _fault(problem, "finetune", "SP115", "the textbook account trains the whole model.",
                   "Use cost_model: calibrated for fine-tuning.")
        )  # fmt: skip
    if problem.job.transformer.moe is not None:
        faults.append(
            _fault(problem, "model", "SP115", "the textbook account knows dense models only.",
                   "Use cost_model: calibrated for a mixture of experts.")
        )  # fmt: skip
    return faults
