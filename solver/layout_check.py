"""``check``: the estimate of one given layout, with every limit judged; nothing is searched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from topology.errors import InputError, Problem, UnsupportedError
from topology.placement import MEGATRON_ORDER, ORDERS

from .axes import context, expert, tensor
from .axes.data import FULL_SHARDING, MOST_WITH_LATE_WEIGHTS, hsdp_fits
from .cost.shapes import Shapes, Shardings
from .cost.stages import interleaves, stack_fits
from .cost.tables import Choice
from .job.job import PlanningProblem
from .job.schedules import PipelineSchedule
from .job.search import RECOMPUTE
from .plan import Plan
from .search.assemble import judged_plans
from .search.decision import decide
from .search.instance import LONGEST_STEP, Instance
from .search.search import instance_of
from .search.stage_check import StageChoice, check_stages
from .search.validate import TEXTBOOK_ONLY_ONE, too_long

_KIND = "|".join(RECOMPUTE)
Degree = Annotated[int, Field(ge=1, le=1_000_000)]


class LayoutRequest(BaseModel):
    """A layout to check. Degrees left out are 1; ``dp`` left out fills the cluster.

    Attributes
    ----------
    tp, pp, vpp, cp, ep, etp, dp
        Degrees; ``tp * pp * cp * dp`` GPUs are used.
    dp_replicate
        HSDP replica groups; ``dp / dp_replicate`` ranks shard.
    zero
        ZeRO stage, 0–3.
    micro_batch
        Sequences in a micro-batch.
    recompute
        Kind for all stages, or ``first/middle/last``.
    stage_layers, recomputed_layers
        Layers of each stage, and those of them that are recomputed in full; None spreads layers
        evenly and recomputes none so.
    order
        Axes, innermost first; one of ``topology.placement.ORDERS``.
    schedule
        Order of a pipeline's passes; None takes the problem's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    tp: Degree = 1
    pp: Degree = 1
    vpp: Degree = 1
    cp: Degree = 1
    ep: Degree = 1
    etp: Degree = 1
    dp: Degree | None = None
    dp_replicate: Degree = 1
    zero: Annotated[int, Field(ge=0, le=3)] = 1
    micro_batch: Degree = 1
    recompute: Annotated[str, Field(pattern=f"^({_KIND})(/({_KIND})/({_KIND}))?$")] = "none"
    order: Annotated[str, Field(pattern=f"^({'|'.join(ORDERS)})$")] = MEGATRON_ORDER

    stage_layers: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    recomputed_layers: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    schedule: PipelineSchedule | None = None

    def kinds(self) -> tuple[str, str, str]:
        """Return the kind of first, middle and last stages."""
        first, middle, last = (self.recompute.split("/") * 3)[:3]
        return first, middle, last


def check(problem: PlanningProblem, request: LayoutRequest) -> Plan:
    """Estimate a layout and judge every limit; ``Plan.limits`` says which it breaks.

    Raises
    ------
    InputError
        Where the layout cannot exist: a degree does not divide, the GPUs do not suffice.
    """
    problem = _scheduled(problem, request)
    open_search = problem.search.model_copy(
        update={"recompute": RECOMPUTE, "zero": None, "hsdp": True, "gpus": None}
    )
    instance = instance_of(problem, search=open_search)
    ranks = request.tp * request.pp * request.cp
    dp = request.dp or max(problem.cluster.group.gpus // ranks, 1)
    shapes = _shape(instance, request, dp)
    faults = _faults(instance, request, shapes)
    if faults:
        raise InputError(*faults)
    if problem.account.cost_model == "textbook":
        _textbook_axes(shapes)
    one = np.ones((1, 1), np.int64)
    columns = Shardings(request.zero * one, request.dp_replicate * one, one.astype(bool))
    kinds = instance.cost.kinds
    if request.stage_layers is not None or request.recomputed_layers is not None:
        return check_stages(instance, shapes, columns, _stages_of(instance, request))
    # A cost model without a kind treats it as its first: selective is none in the textbook account.
    first, middle, last = (kinds.index(k) if k in kinds else 0 for k in request.kinds())
    tables = instance.cost.tables(shapes, columns)
    choice = Choice(0, (first, middle, last))
    decision = decide(instance, tables, 0, 0, choice)
    if decision.step > LONGEST_STEP:
        raise InputError(too_long(problem))
    return judged_plans(instance, tables, [choice], [decision])[0]


def _scheduled(problem: PlanningProblem, request: LayoutRequest) -> PlanningProblem:
    """Return the problem with the layout's schedule, else the first that it allows."""
    schedule = request.schedule or next(iter(problem.search.schedules), problem.search.schedule)
    return replace(problem, search=problem.search.model_copy(update={"schedule": schedule}))


def _textbook_axes(shapes: Shapes) -> None:
    """Refuse what the textbook account does not have."""
    faults = [
        Problem("--layout", 0, 0, axis, "SP115", f"the textbook account has no {axis.upper()}.",
                "Drop it, or use --cost-model calibrated.")
        for axis in TEXTBOOK_ONLY_ONE
        if int(getattr(shapes, axis)[0]) > 1
    ]  # fmt: skip
    if faults:
        raise UnsupportedError(*faults)


def _stages_of(instance: Instance, request: LayoutRequest) -> StageChoice:
    """Return what a layout says of each stage."""
    kinds = request.kinds()
    if len(set(kinds)) > 1:
        hint = "Write one kind, and recomputed_layers for more on some stages."
        raise InputError(
            Problem("--layout", 0, 0, "recompute", "SP108", "differs from stage to stage.", hint)
        )
    return StageChoice(request.stage_layers, request.recomputed_layers, kinds[0])


def _shape(instance: Instance, request: LayoutRequest, dp: int) -> Shapes:
    node = instance.group.gpus_per_node
    gpus = request.tp * request.pp * request.cp * dp
    return Shapes.of(
        tp=request.tp, pp=request.pp, vpp=request.vpp, cp=request.cp, ep=request.ep,
        etp=request.etp, dp=dp, micro_batch=request.micro_batch,
        microbatches=max(instance.job.global_batch // (dp * request.micro_batch), 1),
        held=-(-gpus // node) * node, order=ORDERS.index(request.order),
    )  # fmt: skip


def _faults(instance: Instance, request: LayoutRequest, shapes: Shapes) -> list[Problem]:
    """Say everything that makes the layout impossible."""
    job, model = instance.job, instance.job.transformer
    s = shapes.row(0)
    faults: list[Problem] = []

    def fault(field: str, message: str, hint: str) -> None:
        faults.append(Problem("--layout", 0, 0, field, "SP108", message, hint))

    def degree(field: str, legal: tuple[int, ...], why: str) -> None:
        if s[field] not in legal:
            fault(field, f"{field} {s[field]} {why}.", f"Possible: {_some(legal)}.")

    degree("tp", tensor.degrees(model), "does not divide the heads and widths of the model")
    degree("cp", context.degrees(job.seq_len, job.seq_len), "does not cut the sequence in 2 a rank")
    degree("ep", expert.degrees(model), "does not divide the experts")
    if s["gpus"] > instance.group.gpus:
        fault("dp", f"the layout needs {s['gpus']} GPUs, the cluster has {instance.group.gpus}.",
              "Lower a degree, or add nodes.")  # fmt: skip
    if job.seq_len % (s["tp"] * s["cp"]):
        fault("tp", f"tp x cp {s['tp'] * s['cp']} does not divide seq_len {job.seq_len}.",
              "Sequence parallelism cuts the sequence by both.")  # fmt: skip
    _experts_fault(instance, shapes, fault)
    if (s["tp"] * s["cp"] * s["dp"]) % (s["ep"] * s["etp"]):
        fault("ep", f"ep x etp {s['ep'] * s['etp']} does not divide tp x cp x dp "
              f"{s['tp'] * s['cp'] * s['dp']}.",
              "Experts are spread over the ranks of one stage.")  # fmt: skip
    if (
        s["order"]
        and s["pp"] > 1
        and model.moe is not None
        and s["tp"] * s["cp"] != s["ep"] * s["etp"]
    ):
        fault("order", f"order {request.order} puts expert and other layers of a stage on "
              f"different ranks unless ep {s['ep']} equals tp x cp {s['tp'] * s['cp']}.",
              f"Use {MEGATRON_ORDER}.")  # fmt: skip
    left = job.global_batch % (s["dp"] * s["micro_batch"])
    if left:
        fault("micro_batch", f"dp x micro_batch {s['dp'] * s['micro_batch']} does not divide the "
              f"global batch of {job.global_batch} sequences.",
              "Choose degrees that divide it.")  # fmt: skip
    _pipeline_faults(instance, shapes, fault)
    _late_weights_faults(instance, request, fault)
    whole = hsdp_fits(instance.group, shapes, np.array([request.dp_replicate]))[0]
    if request.dp_replicate > 1 and not (request.zero == FULL_SHARDING and whole):
        fault("dp_replicate", f"HSDP with {request.dp_replicate} replica groups needs zero 3 and "
              "shard groups that fill whole NVLink domains or nodes.",
              "Choose dp_replicate so that tp x cp x dp / dp_replicate is a multiple of "
              f"{instance.group.gpus_per_node}.")  # fmt: skip
    return faults


def _experts_fault(
    instance: Instance, shapes: Shapes, fault: Callable[[str, str, str], None]
) -> None:
    legal = {int(e[0]) for e in expert.slices(instance.job.transformer, shapes.tp)} - {0}
    etp = int(shapes.etp[0])
    if etp not in legal:
        fault("etp", f"etp {etp} slices no experts here.",
              f"Possible: {', '.join(map(str, sorted(legal)))}.")  # fmt: skip


def _pipeline_faults(
    instance: Instance, shapes: Shapes, fault: Callable[[str, str, str], None]
) -> None:
    model, s = instance.job.transformer, shapes.row(0)
    if s["pp"] > model.layers:
        fault("pp", f"{s['pp']} stages need as many layers, the model has {model.layers}.",
              f"Use pp up to {model.layers}.")  # fmt: skip
        return
    if s["vpp"] > 1 and s["pp"] == 1:
        fault("vpp", "virtual stages need a pipeline.", "Use vpp 1, or pp above 1.")
    elif s["vpp"] > 1 and not interleaves(model, shapes.pp, shapes.vpp)[0]:
        fault("vpp", f"vpp {s['vpp']} x pp {s['pp']} does not cut {model.layers} layers evenly "
              "(one less at either end is possible).",
              "Choose vpp so that pp x vpp divides the layers, or the layers plus 2.")  # fmt: skip
    elif s["vpp"] > 1 and s["microbatches"] % s["pp"]:
        fault("vpp", f"interleaving needs micro-batches ({s['microbatches']}) in multiples of "
              f"pp {s['pp']}.", "Change dp or micro_batch.")  # fmt: skip
    elif not stack_fits(model, shapes.pp, shapes.vpp)[0]:
        fault("pp", "the leading dense layers or the period of expert layers do not fall on whole "
              "stages.", "Use fewer stages or vpp 1.")  # fmt: skip


def _late_weights_faults(
    instance: Instance, request: LayoutRequest, fault: Callable[[str, str, str], None]
) -> None:
    """Say what keeps weight gradients from waiting."""
    if not instance.search.zero_bubble:
        return
    if request.pp == 1 or request.vpp > 1:
        fault("schedule", f"zb-h1 needs a pipeline of whole stages, not pp {request.pp}, "
              f"vpp {request.vpp}.", "Use pp above 1 and vpp 1, or schedule 1f1b.")  # fmt: skip
    if request.zero > MOST_WITH_LATE_WEIGHTS:
        fault("zero", f"the stack of zb-h1 has no ZeRO {request.zero}.",
              "Use zero 0 or 1, or schedule 1f1b.")  # fmt: skip


def _some(values: tuple[int, ...], most: int = 12) -> str:
    shown = ", ".join(map(str, values[:most]))
    return shown + (" …" if len(values) > most else "")
