"""Rows of published runs as problems of the product: job, node group, layout, software.

Columns as in the table of published runs; ``n_…`` columns (normalised) first. Only configuration
columns are read, never a measured one. Every value that a row leaves open is filled by a rule
written here, in one place each; nothing is chosen by the name of a model, a series or a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from topology.cluster import NodeGroup
from topology.errors import InputError
from topology.hardware import Gpu, find_gpu
from topology.units import GB

from ..cost.calibrated import Calibrated
from ..cost.profile import Profile, load_profile, stacks
from ..cost.shapes import Shapes, Shardings
from ..cost.stages import Stages, place, split
from ..cost.tables import Choice, evaluate
from ..cost.ticks import MIB, TICK_S
from ..job.job import Job, Limits
from ..job.search import MAX_GPUS, Recompute, Search
from ..job.transformer import Transformer
from .jobs import job_of, task_of
from .rows import RefusedError, Row
from .switches import software_of

CAPPED_CARDS = {"h100-96gb-500w": ("h100-80gb-sxm", 2.4e12, 500 / 700)}
"""Cards without an own entry: nearest GPU, HBM2e bytes/s, power limit over its."""
POWER_EXPONENT = 1 / 3
"""Dynamic power grows with frequency times voltage squared, so the clock with its cube root."""
UNKNOWN_MICRO_BATCH = 1
CANNOT_FIT = 3.0
"""Where recomputation is a guess of "none", a need so many times the card's memory says "full": no
error of the memory model is as large."""
SHARDED_GRADIENTS = 2
SCATTER_LAST = ("meta", "torchtitan")
"""Stacks that, in a pipeline, scatter gradients after the last micro-batch only, so that sharded
gradients have the traffic of ZeRO-1 (torch.distributed.pipelining holds back FSDP's scatter)."""
_KINDS: dict[str, Recompute] = {"selective": "selective", "full": "full"}


@dataclass(frozen=True)
class Run:
    """One row, ready to be priced.

    Attributes
    ----------
    id, series, stack
        For the report only.
    measured_s
        The measured step, seconds; used for scoring only.
    job, group, profile, shapes, stages, search
        The problem and its stated layout.
    state_ranks
        Ranks over which ZeRO-3 shards.
    """

    id: str
    series: str
    stack: str
    labels: Mapping[str, str]
    measured_s: float
    job: Job
    group: NodeGroup
    profile: Profile
    shapes: Shapes
    stages: Stages
    search: Search
    state_ranks: int


def run_of(values: Mapping[str, Any], profile: str | None = None) -> Run:
    """Translate one row.

    Raises
    ------
    RefusedError
        With the reason, for any row that is malformed or not supported.
    """
    row = Row(values)
    measured = row.number("step_s", "step_time_s")
    if measured <= 0:
        raise RefusedError("step_s must be above 0")
    _supported(row)
    try:
        return _run(row, measured, profile)
    except InputError as error:
        raise RefusedError(str(error).splitlines()[0]) from None
    except ValueError as error:  # pydantic's validation of a shape, hardware names
        raise RefusedError(re.sub(r"\s+", " ", str(error))[:160]) from None


def _supported(row: Row) -> None:
    kind = row.text("n_representable", default="yes")
    if kind != "yes":
        raise RefusedError(f"{kind}: Mamba and linear-attention layers are not supported yet")
    task_of(row)
    if row.text("oom") in ("1", "1.0", "true", "True"):
        raise RefusedError("the run went out of memory: it has no step time")


def _run(row: Row, measured: float, profile_name: str | None) -> Run:
    stack = profile_name or stack_of(row)
    if stack not in stacks():
        raise RefusedError(f"no profile for the stack {stack[:40]!r}")
    gpus = row.count("gpus", "n_gpus")
    if gpus > MAX_GPUS:
        raise RefusedError(f"{gpus} GPUs: at most {MAX_GPUS} are supported")
    gpu = gpu_of(row.text("n_gpu", "gpu"))
    group = group_of(row, gpu, gpus)
    profile = load_profile(stack, gpu.id)
    job = job_of(row, profile)
    shapes = shapes_of(row, job, gpus)
    profile = profile.model_copy(update={"software": software_of(row, group, job)})
    zero = row.text("n_zero", "zero_stage", default="1")
    if stack in SCATTER_LAST and zero_stage(zero) == SHARDED_GRADIENTS and shapes.pp[0] > 1:
        zero = "1"
    kind = row.text("n_recompute", "recompute_kind", default="none")
    recompute = _KINDS.get(kind, "none")
    hybrid = zero == "hsdp"
    search = Search(zero=(zero_stage(zero),), recompute=(recompute,), hsdp=hybrid)
    run = Run(
        id=row.text("id", default="?"),
        series=row.text("series", default="?"),
        stack=stack,
        labels={
            "gpu": row.text("n_gpu", "gpu"),
            "precision": row.text("n_precision", "precision"),
            "arch": row.text("n_arch", default="dense"),
            "model": row.text("model"),
        },
        measured_s=measured,
        job=job,
        group=group,
        profile=profile,
        shapes=shapes,
        stages=stages_of(row, job.transformer, shapes),
        search=search,
        state_ranks=row.count("n_state_shard_ranks", default=1) if hybrid else 0,
    )
    guessed = "n_recompute" in row.text("n_assumed") or kind == "unknown"
    if guessed and recompute == "none" and memory_share(run) > CANNOT_FIT:
        return replace(run, search=search.model_copy(update={"recompute": ("full",)}))
    return run


def stack_of(row: Row) -> str:
    """Return the stack whose profile prices the row.

    Megatron-DeepSpeed in fp16 without ZeRO runs Megatron-LM's own engine: DeepSpeed's, with its
    own accumulation, comes with ZeRO or bf16.
    """
    stack = row.text("n_stack", default="megatron-core")
    plain = zero_stage(row.text("n_zero", default="1")) == 0 and row.text("n_precision") == "fp16"
    return "megatron-classic" if stack == "megatron-deepspeed" and plain else stack


def zero_stage(text: str) -> int:
    """Return the ZeRO stage; unknown is 1, the default of Megatron-class recipes."""
    return {"0": 0, "1": 1, "2": 2, "3": 3, "hsdp": 3}.get(text.removesuffix(".0"), 1)


def gpu_of(name: str) -> Gpu:
    """Return the hardware entry of a GPU as a row names it."""
    key = name.lower()
    if key not in CAPPED_CARDS:
        return find_gpu(name)
    nearest, hbm, power = CAPPED_CARDS[key]
    gpu = find_gpu(nearest)
    clock = power**POWER_EXPONENT
    peaks = {k: v * clock for k, v in gpu.peak_flops.items()}
    return replace(gpu, peak_flops=peaks, hbm_bytes_per_s=hbm)


def group_of(row: Row, gpu: Gpu, gpus: int) -> NodeGroup:
    """Build the node group: the row's links; an NVLink domain is held to the job.

    A job that is larger than a rack takes the same number of GPUs in each (64 of 72 for powers of
    two), so that its groups align.
    """
    per_node = min(row.count("gpus_per_node", default=gpu.gpus_per_node), gpus)
    domain = min(row.count("nvlink_domain", default=gpu.nvlink_domain), gpus)
    domain = next(d for d in range(domain, 0, -1) if gpus % d == 0)
    intra = row.number("intra_gb_per_s", default=gpu.nvlink_bytes_per_s / GB) * GB
    inter = row.number("inter_gb_per_s_per_gpu", default=gpu.inter_bytes_per_s / GB) * GB
    return NodeGroup(
        gpu=gpu,
        nodes=-(-gpus // per_node),
        gpus_per_node=per_node,
        nvlink_domain=domain,
        nvlink_bytes_per_s=intra or gpu.nvlink_bytes_per_s,
        inter_bytes_per_s=inter or gpu.inter_bytes_per_s,
    )


def shapes_of(row: Row, job: Job, gpus: int) -> Shapes:
    """Build the stated layout."""
    tp, pp, cp = (row.count(f"n_{x}", x, default=1) for x in ("tp", "pp", "cp"))
    if gpus % (tp * pp * cp):
        raise RefusedError(f"tp {tp} x pp {pp} x cp {cp} does not divide {gpus} GPUs")
    dp = gpus // (tp * pp * cp)
    ep, etp = row.count("n_ep", "ep", default=1), row.count("n_etp", "etp", default=1)
    if (tp * cp * dp) % (ep * etp):
        raise RefusedError(f"ep {ep} x etp {etp} does not divide {tp * cp * dp} ranks of a stage")
    moe = job.transformer.moe
    if moe is not None and moe.experts % ep:
        raise RefusedError(f"ep {ep} does not divide {moe.experts} experts")
    micro = row.count("micro_batch", default=UNKNOWN_MICRO_BATCH)
    batches = row.count("n_num_microbatches", default=max(job.global_batch // (dp * micro), 1))
    if batches * micro * dp != job.global_batch:
        raise RefusedError(f"{batches} x {micro} x dp {dp} is not the batch {job.global_batch}")
    vpp = row.count("n_vpp", "vpp", default=1)
    stated = row.text("n_schedule") + row.text("overlap")
    if vpp == 1 and pp > 1 and "interleaved" in stated:
        vpp = -(-job.transformer.layers // pp)  # interleaving of unstated depth: a layer a chunk
    return Shapes.of(
        tp=tp, pp=pp, cp=cp, ep=ep, etp=etp, dp=dp, vpp=vpp,
        micro_batch=micro, microbatches=batches,
    )  # fmt: skip


def stages_of(row: Row, model: Transformer, shapes: Shapes) -> Stages:
    """Place the layers as stated; the product's rule where nothing special is stated.

    With multi-token prediction among the counted layers, each virtual stage has the same number of
    slots; the module takes two and the loss one, the embedding none; where that leaves the last
    stage without room, embedding, module and loss take one each.
    """
    pp, vpp = int(shapes.pp[0]), int(shapes.vpp[0])
    if pp > model.layers:
        raise RefusedError(f"pp {pp} stages for {model.layers} layers")
    if "mtp" not in row.text("n_layer_split") or pp == 1 or not model.mtp_layers:
        return split(model, shapes.pp, shapes.vpp)
    extra = model.mtp_layers
    for ahead, behind in ((0, 2 * extra + 1), (1, extra + 1)):
        slots = -(-(model.layers + ahead + behind) // (pp * vpp))
        stage = slots * vpp
        last = model.layers - (stage - ahead) - (pp - 2) * stage
        if slots >= behind and 0 <= last <= stage:
            break
    else:
        return split(model, shapes.pp, shapes.vpp)
    counts = tuple(np.array([n], np.int64) for n in (stage - ahead, stage, last))
    return place(model, shapes.pp, (counts[0], counts[1], counts[2]), np.zeros(1, np.int64))


def model_of(run: Run, profile: Profile | None = None) -> Calibrated:
    """Return the product's cost model of the run."""
    return Calibrated(run.job, run.group, Limits(), run.search, profile or run.profile)


def column_of(run: Run, columns: Shardings) -> int:
    """Return the sharding column that is stated."""
    if not run.state_ranks:
        return 0
    ranks = run.shapes.dp[0] * run.shapes.cp[0] / columns.replicas[0]
    return int(np.argmin(np.abs(ranks - run.state_ranks)))


def memory_share(run: Run) -> float:
    """Return the need of the worst stage over what the card shows."""
    model = model_of(run)
    tables = model.tables(run.shapes, stages=run.stages)
    need = evaluate(tables, 0, Choice(column_of(run, tables.shardings), (0, 0, 0)))[1]
    return need * MIB / model.usable_bytes


def predict(run: Run, profile: Profile | None = None) -> float:
    """Predict the step, seconds, through the product's tables and its evaluation of a choice."""
    tables = model_of(run, profile).tables(run.shapes, stages=run.stages)
    choice = Choice(column_of(run, tables.shardings), (0, 0, 0))
    return evaluate(tables, 0, choice)[0] * TICK_S
