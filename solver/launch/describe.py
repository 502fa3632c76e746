"""From a plan to a launch, and from a launch to the layout that ``check`` estimates."""

from __future__ import annotations

from typing import Any

import numpy as np

from topology.errors import Problem

from ..cost.goodput import Goodput
from ..cost.stages import layers_by_rule
from ..job.job import PlanningProblem
from ..job.schema import GRAD_BYTES
from ..layout_check import LayoutRequest
from ..plan import Plan
from ..search.search import profile_of
from .description import Launch, Run
from .errors import INEXPRESSIBLE, LaunchError

DEFAULT_MODULES = ("core_attn",)
"""What selective recomputation repeats where an account does not say."""


def describe(problem: PlanningProblem, plan: Plan) -> Launch:
    """Describe a plan's job.

    Raises
    ------
    LaunchError
        Where no target has words for the plan: several kinds of nodes, stages that recompute in
        different ways, fine-tuning.
    """
    _refuse(problem, plan)
    layout, batch, job = plan.layout, plan.batch, problem.job
    profile = profile_of(problem)
    names = {size: name for name, size in GRAD_BYTES.items()}
    layers = layout.stage_layers or layers_by_rule(job.transformer, layout.pp, layout.vpp)
    kind, again = _recomputed(plan, layers)
    moe = job.transformer.moe
    fields: dict[str, Any] = {
        **layout.model_dump(exclude={"dp_shard", "stage_layers"}),
        "layers": layers,
        "mtp_layers": job.transformer.mtp_layers,
        "experts": moe.experts if moe is not None else 0,
        "micro_batch": batch.micro_batch,
        "global_batch": batch.global_sequences,
        "seq_len": job.seq_len,
        "steps": plan.cost.steps,
        "recompute": kind,
        "recompute_modules": plan.options.recompute_modules or DEFAULT_MODULES,
        "recomputed_layers": again,
        "precision": plan.options.precision,
        "fp8_scaling": profile.software.fp8_scaling,
        "optimizer": job.recipe.optimizer,
        "grad_dtype": names[job.recipe.grad_bytes],
        "cp_comm": plan.options.cp_comm,
        "offload": plan.options.offload,
        "schedule": plan.options.schedule,
        "overlap_data": profile.dp_overlap > 0,
        "overlap_tensor": profile.stack.tp_overlap and layout.sp,
        "deduplicated": profile.deduplicated,
    }
    return Launch.model_validate(fields)


def _refuse(problem: PlanningProblem, plan: Plan) -> None:
    found = []

    def refuse(field: str, reason: str, fix: str) -> None:
        found.append(Problem("export", 0, 0, field, INEXPRESSIBLE, reason, fix))

    if plan.blocks or len(problem.cluster.groups) > 1:
        kinds = ", ".join(group.gpu.id for group in problem.cluster.groups)
        refuse("cluster", f"stages on different nodes ({kinds}) have no option in any target.",
               "Plan for one node group.")  # fmt: skip
    if "/" in plan.recompute:
        refuse("recompute", f"{plan.recompute} differs from stage to stage; every target has one "
               "kind for all.", "Solve with one kind, e.g. search: {recompute: full}.")  # fmt: skip
    if problem.job.finetune is not None:
        refuse("finetune", "adapters and frozen weights are set up by the training script.",
               "Export the plan of the whole model, or write this part by hand.")  # fmt: skip
    if found:
        raise LaunchError(*found)


def _recomputed(plan: Plan, layers: tuple[int, ...]) -> tuple[str, tuple[int, ...] | None]:
    """Return kind and fully recomputed layers; all of them are the kind ``full``."""
    again = plan.recomputed_layers
    if again is None or not any(again):
        return plan.recompute, None
    return ("full", None) if again == layers else (plan.recompute, again)


def run_of(problem: PlanningProblem, plan: Plan) -> Run:
    """Describe machine and length of a plan's run.

    Failures and checkpoints are those of the problem, else the usual ones: a run meets them
    whether its plan counted them or not.
    """
    group, nodes = problem.cluster.group, np.array([plan.nodes])
    goodput = Goodput.launched(problem.job, problem.reliability)
    counted = 1.0 if plan.cost.goodput is not None else float(goodput.share(nodes)[0])
    return Run(
        nodes=plan.nodes,
        gpus_per_node=min(group.gpus_per_node, plan.gpus),
        gpu=group.gpu.id,
        framework=problem.framework,
        step_s=plan.estimate.time.step_s,
        wall_clock_s=None if plan.cost.steps is None else plan.cost.wall_clock_s / counted,
        write_s=float(goodput.write_s(nodes)[0]),
        interval_s=goodput.saving_s(plan.nodes),
    )


def request_of(launch: Launch, problem: PlanningProblem) -> LayoutRequest:
    """Return the layout of a launch as ``check`` takes it."""
    rule = layers_by_rule(problem.job.transformer, launch.pp, launch.vpp)
    shared = ("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "dp_replicate", "zero", "micro_batch")
    return LayoutRequest(
        **{name: getattr(launch, name) for name in shared},
        recompute=launch.recompute,
        order=launch.order,
        schedule=launch.schedule,
        stage_layers=None if launch.layers == rule else launch.layers,
        recomputed_layers=launch.recomputed_layers,
    )
