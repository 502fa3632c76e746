"""Rows of the memory oracle (real PyTorch models under a fake process group) as problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from solver.calibration.rows import RefusedError, Row
from solver.cost.memory.activations import saved_per_token, tokens_per_rank
from solver.cost.memory.items import PHASES
from solver.cost.memory.options import Implementation, memory_options
from solver.cost.memory.peak import memory_items
from solver.cost.profile import Profile, load_profile
from solver.cost.shapes import Shapes, Shardings
from solver.cost.stages import Stages, split
from solver.job.finetune import Finetune
from solver.job.job import Job
from solver.job.recipe import Recipe
from solver.job.search import Recompute
from solver.job.transformer import Moe, Transformer

PURE = Recipe(weight_bytes=2, grad_bytes=2, master_bytes=0, moment_bytes=4)
"""Tensor-parallel and single-rank runs of the oracle: everything in bf16."""
MIXED = Recipe(weight_bytes=2, grad_bytes=4, master_bytes=4, moment_bytes=8)
WHOLE_LOSS, SPLIT_LOSS = 8.0, 6.0
"""DTensor's parallel cross-entropy, bytes a logit: fp32 logits and their gradient whole, the rest
split (seen in the oracle's tensor-parallel rows only)."""
CROSS_ENTROPY = 12.0
"""Bytes a logit of a plain cross-entropy: the oracle's script frees the 16-bit logits first."""
SPLIT_CROSS_ENTROPY = 6.0
"""Bytes a logit of the oracle's ranks: 16-bit logits and fp32 probabilities, changed in place."""
DEGREES = ("tp", "dp", "cp", "ep", "pp", "vpp", "microbatches")
"""Degrees that a row is labelled with."""
RANK = "rank"
"""Mode of one rank of Megatron's scheme; the others are PyTorch's engines."""
SINGLE = "single"
"""Mode of one GPU that fine-tunes."""
MODES = ("none", SINGLE, "fsdp2", "fsdp2_noreshard", "tp", "tp_sp", RANK)


@dataclass(frozen=True)
class OracleRun:
    """One row, ready to be priced; ``measured_bytes`` is for scoring only."""

    label: str
    measured_bytes: float
    per_layer: bool
    job: Job
    profile: Profile
    shapes: Shapes
    stages: Stages
    stage: int
    """Stage class that was measured."""
    shardings: Shardings
    kind: Recompute


def oracle_run(values: Mapping[str, Any]) -> OracleRun:
    """Translate one row.

    Raises
    ------
    RefusedError
        With the reason, for a row that is malformed or not supported.
    """
    row = Row(values)
    kind, mode = row.text("kind", default="whole"), row.text("mode", default="fsdp2")
    if kind not in ("whole", "per_layer"):
        raise RefusedError(f"kind {kind[:40]!r} is not known")
    if mode not in MODES:
        raise RefusedError(f"mode {mode[:40]!r} is not known")
    per_layer = kind == "per_layer"
    measured = row.number("bytes_per_layer" if per_layer else "peak_bytes")
    if measured <= 0:
        raise RefusedError("the measured bytes must be above 0")
    shapes = _shapes(row, mode)
    one = np.ones((1, 1), np.int64)
    zero = {RANK: 1}.get(mode, 3 if mode.startswith("fsdp2") else 0)
    recompute = row.text("ac", default="none")
    if recompute not in ("none", "full"):
        raise RefusedError(f"ac {recompute[:40]!r} is not known")
    job = _job(row, mode, shapes)
    number = row.count("stage", default=0, least=0)
    stages, stage = _class_of(number, split(job.transformer, shapes.pp, shapes.vpp))
    degrees = "x".join(f"{n}{v}" for n, v in shapes.row(0).items() if v > 1 and n in DEGREES)
    return OracleRun(
        label=f"{row.text('model')[:20]} {_implementation(row)} {recompute} {mode} {degrees}",
        measured_bytes=measured,
        per_layer=per_layer,
        job=job,
        profile=_profile(row, mode),
        shapes=shapes,
        stages=stages,
        stage=stage,
        shardings=Shardings(zero * one, one, one.astype(bool)),
        kind="full" if recompute == "full" else "none",
    )


def _shapes(row: Row, mode: str) -> Shapes:
    """Build the layout; ``world`` counts data-parallel times context-parallel ranks."""
    world, cp = row.count("world", default=1), row.count("cp", default=1)
    by_tensor = mode in ("tp", "tp_sp")
    if world % cp:
        raise RefusedError(f"cp {cp} does not divide {world} ranks")
    return Shapes.of(
        tp=world if by_tensor else row.count("tp", default=1),
        dp=1 if by_tensor or mode in ("none", SINGLE) else world // cp,
        cp=cp,
        ep=row.count("ep", default=1),
        pp=row.count("pp", default=1),
        vpp=row.count("vpp", default=1),
        micro_batch=row.count("mbs", default=1),
        microbatches=row.count("accumulate", "microbatches", default=1),
    )


def _class_of(stage: int, stages: Stages) -> tuple[Stages, int]:
    """Return the class that a stage falls into, put where the stage is."""
    first = stages.index[0]
    found = np.flatnonzero((first <= stage) & (stage < first + stages.count[0]))
    if not len(found):
        raise RefusedError(f"there is no stage {stage}")
    index = stages.index.copy()
    index[0, found[0]] = stage
    return replace(stages, index=index), int(found[0])


def _job(row: Row, mode: str, shapes: Shapes) -> Job:
    hidden, heads = row.count("hidden"), row.count("heads")
    try:
        model = Transformer(
            name=row.text("model", default="oracle")[:80],
            layers=row.count("layers"),
            hidden=hidden,
            heads=heads,
            kv_heads=row.count("kv_heads", default=heads),
            head_dim=row.count("head_dim", default=max(hidden // heads, 1)),
            ffn=row.count("ffn_hidden"),
            vocab=row.count("vocab"),
            tied=row.number("tied_embeddings", default=0) > 0,
            moe=_moe(row),
        )
        batch = int(shapes.micro_batch[0] * shapes.microbatches[0] * shapes.dp[0])
        return Job(
            transformer=model,
            seq_len=row.count("seq"),
            global_batch=batch,
            recipe=_recipe(row, mode),
            finetune=_finetune(row),
        )
    except ValueError as error:  # pydantic's validation of a shape
        raise RefusedError(str(error).replace("\n", " ")[:160]) from None


def _moe(row: Row) -> Moe | None:
    if not row.count("experts", default=0, least=0):
        return None
    return Moe(experts=row.count("experts"), top_k=row.count("top_k"), ffn=row.count("moe_ffn"))


def _finetune(row: Row) -> Finetune | None:
    rank, first = (row.count(n, default=0, least=0) for n in ("lora_rank", "frozen_layers"))
    frozen = row.text("frozen").split()
    if not rank and not first and not frozen:
        return None
    return Finetune.model_validate(
        {
            "lora_rank": rank or None,
            "lora_targets": (row.text("lora_targets", default="qkv"),),
            "frozen": tuple(frozen),
            "frozen_layers": first,
        }
    )


def _recipe(row: Row, mode: str) -> Recipe:
    if mode == RANK and row.text("grad_reduce") == "bf16":
        return MIXED.model_copy(update={"grad_bytes": 2.0})
    return MIXED if mode == RANK or mode.startswith("fsdp2") else PURE


def _implementation(row: Row) -> Implementation:
    if row.text("impl", default="own") == "hf":
        return "transformers"
    return "fused" if row.number("fused", default=0) > 0 else "eager"


def _profile(row: Row, mode: str) -> Profile:
    if mode == RANK:
        return _rank_profile(row)
    tensor = mode in ("tp", "tp_sp")
    base = load_profile("torchtitan", "h100-80gb-sxm")
    reduce = row.text("grad_reduce", default="fp32")
    if reduce not in ("fp32", "bf16"):
        raise RefusedError(f"grad_reduce {reduce[:40]!r} is not known")
    options = memory_options("pytorch").model_copy(
        update={
            "implementation": _implementation(row),
            "reduce_bytes": 2.0 if reduce == "bf16" else 4.0,
            "root_reshard": True,
            "reshard": not mode.endswith("noreshard"),
            "loss_bytes": SPLIT_LOSS if tensor else 0.0,
            "whole_loss_bytes": WHOLE_LOSS if tensor else CROSS_ENTROPY,
        }
    )
    software = base.software.model_copy(update={"sequence_parallel": mode != "tp"})
    return base.model_copy(update={"memory": options, "software": software})


def _rank_profile(row: Row) -> Profile:
    """Megatron-Core's structure with the loss that the oracle's rank computes."""
    base = load_profile("megatron-core", "h100-80gb-sxm")
    changes = {
        "loss_bytes": SPLIT_CROSS_ENTROPY,
        "loss_hidden_bytes": 4.0,  # input and output of the final norm
        "cp_bytes": 0.0,
        "cached_gradients": False,
    }
    software = base.software.model_copy(
        update={"sequence_parallel": row.number("sp", default=1) > 0}
    )
    memory = base.memory.model_copy(update=changes)
    return base.model_copy(update={"memory": memory, "software": software})


def predicted_bytes(run: OracleRun) -> tuple[float, str]:
    """Return the allocated peak, or what one layer keeps, and the phase that it falls in."""
    if run.per_layer:
        dense, _ = saved_per_token(run.job, run.profile, run.shapes, run.kind)
        return float(dense[0] * tokens_per_rank(run.job, run.shapes)[0]), "layer"
    items = memory_items(run.job, run.profile, run.shapes, run.stages, run.shardings, (run.kind,))
    place = (0, run.stage, 0, 0)
    return float(items.allocated[place]), PHASES[int(items.phase[place])]
