"""Rows of measured peaks and documented failures as problems of the memory model.

The translation of a row into job and layout is the one of the step times (_runs, _job, _software);
what is added here decides memory only: recipe, sharding, what a peak counts, the card's memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from benchmarks._tuning import finetune_of
from solver.calibration.jobs import job_of
from solver.calibration.rows import RefusedError, Row
from solver.calibration.runs import (
    CANNOT_FIT,
    gpu_of,
    group_of,
    shapes_of,
    stack_of,
    stages_of,
    zero_stage,
)
from solver.calibration.switches import software_of
from solver.cost.memory.items import MemoryItems
from solver.cost.memory.options import MemoryOptions, Metric, memory_options
from solver.cost.memory.peak import memory_items
from solver.cost.profile import Profile, load_profile, stacks
from solver.cost.shapes import Shapes, Shardings
from solver.cost.stages import Stages, place
from solver.cost.ticks import FloatArray
from solver.job.job import Job
from solver.job.recipe import Recipe
from solver.job.search import Recompute
from solver.job.transformer import MAX_LAYERS, Transformer
from topology.errors import InputError
from topology.units import GIB

STAND_IN = "A100-80GB"
"""Card whose rates stand in for one without an entry: memory needs its size only, which a row
gives."""
SHIPPED_SEQ = 8192
"""Tokens a sequence of torchtitan's shipped configurations, where its row gives none."""
SHIPPED_MICRO_BATCH = 1
FILLED_BATCHES = 4
"""Micro-batches a stage where a row gives no batch: more than are ever in flight."""
FAMILY_STACKS = (
    (r"kempner", "kempnerforge"),
    (r"axolotl|hugging|trl|accelerate|\bhf\b|oumi|llama-factory", "huggingface"),
    (r"torchtune", "torchtune"),
    (r"fsdp1", "fsdp1"),
    (r"litgpt|fsdp|titan|torch", "pytorch"),
    (r"deepspeed|zero-?3", "deepspeed-zero3"),
    (r"neox|colossal|intern", "megatron-deepspeed"),
)
"""Stack whose memory options a framework without a profile takes: the first that matches."""

Outcome = Literal["ran", "oom"]
_METRICS: tuple[tuple[str, Metric], ...] = (
    (r"mem\w* = [^.;,]*reserved|max reserved\)|peak reserved", "reserved"),
    (r"nvidia-smi|device used", "device"),
    (r"mem\w* = [^.;,]*allocated|max allocated|peak allocated|memory active|max_memory_allocated"
     r"|memory_allocated", "allocated"),
)  # fmt: skip


@dataclass(frozen=True)
class MemoryRun:
    """One row; ``measured_bytes`` and ``outcome`` are for scoring only."""

    id: str
    stack: str
    options_of: str
    """Stack whose memory options are taken."""
    model: str
    metric: Metric
    measured_bytes: float | None
    outcome: Outcome
    usable_bytes: float
    job: Job
    profile: Profile
    shapes: Shapes
    stages: Stages
    shardings: Shardings
    kind: Recompute

    @property
    def items(self) -> MemoryItems:
        """The product's estimate."""
        return memory_items(
            self.job, self.profile, self.shapes, self.stages, self.shardings, (self.kind,)
        )

    def predicted_bytes(self, metric: Metric) -> float:
        """Peak of the worst stage by a metric."""
        return self._worst(self.items.total(metric))

    @property
    def reclaimable_bytes(self) -> float:
        """What the allocator gives back before it fails."""
        return self._worst(self.items.reclaimable)

    def _worst(self, value: FloatArray) -> float:
        return float(np.where(self.stages.count[:, :, None, None] > 0, value, 0.0).max())


def memory_run(values: Mapping[str, Any]) -> MemoryRun:
    """Translate one row.

    Raises
    ------
    RefusedError
        With the reason, for any row that is malformed or not supported.
    """
    row = Row(values)
    peak = row.number("mem_gib_per_gpu", default=0)
    failed = row.text("oom") in ("1", "1.0", "true", "True")
    ran = peak > 0 or row.number("step_s", "step_time_s", default=0) > 0
    if not ran and not failed:
        raise RefusedError("neither a peak nor an outcome is given")
    kind = row.text("n_representable", default="yes")
    if kind != "yes":
        raise RefusedError(f"{kind}: Mamba and linear-attention layers are not supported yet")
    try:
        return _run(row, peak * GIB or None, "oom" if failed else "ran")
    except InputError as error:
        raise RefusedError(str(error).splitlines()[0]) from None
    except ValueError as error:  # pydantic's validation of a shape
        raise RefusedError(re.sub(r"\s+", " ", str(error))[:160]) from None


def _run(given: Row, measured: float | None, outcome: Outcome) -> MemoryRun:
    tuned = finetune_of(given)
    # What is trained is read above, and more of it than step times are known of.
    row = filled(Row({**given.values, "n_task": "pretrain"}))
    gpus = row.count("gpus", "n_gpus")
    try:
        gpu = gpu_of(row.text("n_gpu", "gpu"))
    except ValueError:
        gpu = gpu_of(STAND_IN)
        row.number("n_gpu_mem_gib")  # refused without
    group = group_of(row, gpu, gpus)
    named = stack_of(row)
    options_of = named if named in stacks() else fallback_stack(row)
    base = load_profile(options_of if options_of in stacks() else "fsdp1", gpu.id)
    job = job_of(row, base)
    job = job.model_copy(
        update={
            "recipe": recipe_of(row, job, named),
            "fused_loss": _fused(row),
            "finetune": tuned,
        }
    )
    shapes = shapes_of(row, job, gpus)
    profile = base.model_copy(
        update={
            "software": software_of(row, group, job),
            "memory": options(row, memory_options(options_of)),
        }
    )
    kind = row.text("n_recompute", "recompute_kind", default="none")
    run = MemoryRun(
        id=row.text("id", default="?"),
        stack=named,
        options_of=options_of,
        model=row.text("model", default="?"),
        metric=metric_of(row, profile.memory),
        measured_bytes=measured,
        outcome=outcome,
        usable_bytes=row.number("n_gpu_mem_gib", default=gpu.usable_bytes / GIB) * GIB,
        job=job,
        profile=profile,
        shapes=shapes,
        stages=_stages(row, job.transformer, shapes),
        shardings=sharding_of(row, shapes),
        kind=recompute_of(kind),
    )
    guessed = "n_recompute" in row.text("n_assumed") or kind == "unknown"
    if not guessed or run.kind != "none":
        return run
    cannot = run.predicted_bytes("device") > CANNOT_FIT * run.usable_bytes
    return replace(run, kind="full") if cannot else run


def _stages(row: Row, model: Transformer, shapes: Shapes) -> Stages:
    """Place the layers; an uneven split of uneven layers gives the first stages one more."""
    stages = stages_of(row, model, shapes)
    pp = shapes.pp
    left = model.layers % int(pp[0])
    if row.text("n_layer_split") != "uneven" or not left:
        return stages
    light = model.layers // pp
    lights = np.maximum(pp - 1 - left, 0) * (pp > 1)
    return place(model, pp, (light + 1, light + 1, light), lights)


def recompute_of(text: str) -> Recompute:
    """Return the kind; unknown ones count as none."""
    kinds: dict[str, Recompute] = {"selective": "selective", "full": "full", "full_k": "full"}
    return kinds.get(text, "none")


def filled(row: Row) -> Row:
    """Fill what memory hardly depends on, or what a framework's shipped configuration says."""
    values = dict(row.values)
    if row.text("n_stack") == "torchtitan":
        values.setdefault("seq_len", "")
        values["seq_len"] = values["seq_len"] or str(SHIPPED_SEQ)
        values["micro_batch"] = values.get("micro_batch") or str(SHIPPED_MICRO_BATCH)
    row = Row(values)
    micro = row.count("micro_batch")
    if not row.text("global_batch_seqs"):
        tp, pp, cp = (row.count(f"n_{x}", x, default=1) for x in ("tp", "pp", "cp"))
        dp = max(row.count("gpus", "n_gpus") // (tp * pp * cp), 1)
        batches = row.count("n_num_microbatches", default=FILLED_BATCHES * pp if pp > 1 else 1)
        values["global_batch_seqs"] = str(micro * dp * batches)
        values["n_num_microbatches"] = str(batches)
    return Row(values)


def fallback_stack(row: Row) -> str:
    """Return the stack whose memory options a framework without a profile takes."""
    text = f"{row.text('n_stack')} {row.text('framework')}".lower()
    return next((stack for words, stack in FAMILY_STACKS if re.search(words, text)), "pytorch")


def recipe_of(row: Row, job: Job, stack: str) -> Recipe:
    """Return the recipe: what the row's precision and optimizer say."""
    recipe = job.recipe
    if re.search(r"\bpure\b|bf16-true|states? (in )?bf16", row.text("precision"), re.I):
        change = {"grad_bytes": 2, "master_bytes": 0, "moment_bytes": 4}
        recipe = recipe.model_copy(update=change)
    if stack == "megatron-deepspeed" and recipe.precision == "bf16" and recipe.grad_bytes == 4:
        # Its bf16 optimizer accumulates in fp32 beside the engine's 16-bit gradients.
        recipe = recipe.model_copy(update={"grad_bytes": 6})
    framework = row.text("framework").lower()
    if "bridge" in framework and job.transformer.mla is not None:
        # Its recipes of latent-attention models take the precision-aware optimizer.
        recipe = recipe.model_copy(update={"grad_bytes": 2, "moment_bytes": 4})
    elif re.search(r"^nemo", framework) and not row.text("grad_dtype_bytes"):
        # NeMo 2 logs 10 bytes a parameter beside a rank's 12 / DP: gradients are 16 bit.
        recipe = recipe.model_copy(update={"grad_bytes": 2})
    if re.search(r"8[- ]?bit", row.text("optimizer"), re.I):
        recipe = recipe.model_copy(update={"moment_bytes": 2})
    return recipe


def _fused(row: Row) -> bool:
    text = f"{row.text('framework')} {row.text('loss')} {row.text('notes')}"
    return bool(re.search(r"liger|\+chunked ?ce|chunked loss", text, re.I))


def options(row: Row, default: MemoryOptions) -> MemoryOptions:
    """Return the stack's options with what the row states."""
    changes: dict[str, Any] = {}
    if row.number("compile", default=0) > 0:
        changes["compiled"] = True
    if "liger" in row.text("framework").lower():
        changes["implementation"] = "fused"
    offload = row.text("n_offload")
    if "params" in offload:
        changes["offloaded"] = True
    if "activations" in offload:
        stated = re.search(r"activations:(\d+)", offload)
        changes["offloaded_layers"] = int(stated[1]) if stated else MAX_LAYERS
    if "fused" in row.text("optimizer").lower():
        changes["update_moments"] = 0.0
    return default.model_copy(update=changes)


def metric_of(row: Row, memory: MemoryOptions) -> Metric:
    """Return what the row's peak counts: as its notes say, else as its stack reports."""
    notes = row.text("notes") + " " + row.text("mem_note")
    return next((metric for words, metric in _METRICS if re.search(words, notes)), memory.metric)


def sharding_of(row: Row, shapes: Shapes) -> Shardings:
    """Return the stated sharding as the single column."""
    text = row.text("n_zero", "zero_stage", default="1")
    one = np.ones((1, 1), np.int64)
    ranks = int(shapes.dp[0] * shapes.cp[0])
    shard = row.count("n_state_shard_ranks", default=ranks) if text == "hsdp" else ranks
    replicas = max(round(ranks / shard), 1)
    return Shardings(zero_stage(text) * one, replicas * one, one.astype(bool))
