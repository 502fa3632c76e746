"""Rows of the memory oracle (real PyTorch models under a fake process group) as problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from solver.calibration.rows import RefusedError, Row
from solver.cost.memory.activations import saved_per_token, tokens_per_rank
from solver.cost.memory.options import Implementation, memory_options
from solver.cost.memory.peak import PHASES, memory_items
from solver.cost.profile import Profile, load_profile
from solver.cost.shapes import Shapes, Shardings
from solver.cost.stages import split
from solver.job.job import Job, Recompute
from solver.job.recipe import Recipe
from solver.job.transformer import Transformer

PURE = Recipe(weight_bytes=2, grad_bytes=2, master_bytes=0, moment_bytes=4)
"""Tensor-parallel and single-rank runs of the oracle: everything in bf16."""
MIXED = Recipe(weight_bytes=2, grad_bytes=4, master_bytes=4, moment_bytes=8)
WHOLE_LOSS, SPLIT_LOSS = 8.0, 6.0
"""DTensor's parallel cross-entropy, bytes a logit: fp32 logits and their gradient whole, the rest
split (seen in the oracle's tensor-parallel rows only)."""
CROSS_ENTROPY = 12.0
"""Bytes a logit of a plain cross-entropy: the oracle's script frees the 16-bit logits first."""
MODES = ("none", "fsdp2", "fsdp2_noreshard", "tp", "tp_sp")


@dataclass(frozen=True)
class OracleRun:
    """One row, ready to be priced; ``measured_bytes`` is for scoring only."""

    label: str
    measured_bytes: float
    per_layer: bool
    job: Job
    profile: Profile
    shapes: Shapes
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
    world, sharded = row.count("world", default=1), mode.startswith("fsdp2")
    tensor = world if mode.startswith("tp") else 1
    accumulate = row.count("accumulate", "microbatches", default=1)
    shapes = Shapes.of(
        tp=tensor, dp=world if sharded else 1, micro_batch=row.count("mbs", default=1),
        microbatches=accumulate,
    )  # fmt: skip
    one = np.ones((1, 1), np.int64)
    recompute = row.text("ac", default="none")
    if recompute not in ("none", "full"):
        raise RefusedError(f"ac {recompute[:40]!r} is not known")
    return OracleRun(
        label=f"{row.text('model')[:20]} {_implementation(row)} {recompute} {mode} {world}",
        measured_bytes=measured,
        per_layer=per_layer,
        job=_job(row, sharded, shapes),
        profile=_profile(row, mode, tensor > 1),
        shapes=shapes,
        shardings=Shardings((3 if sharded else 0) * one, one, one.astype(bool)),
        kind="full" if recompute == "full" else "none",
    )


def _job(row: Row, sharded: bool, shapes: Shapes) -> Job:
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
        )
        batch = int(shapes.micro_batch[0] * shapes.microbatches[0] * shapes.dp[0])
        return Job(
            transformer=model,
            seq_len=row.count("seq"),
            global_batch=batch,
            recipe=MIXED if sharded else PURE,
        )
    except ValueError as error:  # pydantic's validation of a shape
        raise RefusedError(str(error).replace("\n", " ")[:160]) from None


def _implementation(row: Row) -> Implementation:
    if row.text("impl", default="own") == "hf":
        return "transformers"
    return "fused" if row.number("fused", default=0) > 0 else "eager"


def _profile(row: Row, mode: str, tensor: bool) -> Profile:
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


def predicted_bytes(run: OracleRun) -> tuple[float, str]:
    """Return the allocated peak, or what one layer keeps, and the phase that it falls in."""
    if run.per_layer:
        dense, _ = saved_per_token(run.job, run.profile, run.shapes, run.kind)
        return float(dense[0] * tokens_per_rank(run.job, run.shapes)[0]), "layer"
    stages = split(run.job.transformer, run.shapes.pp, run.shapes.vpp)
    items = memory_items(run.job, run.profile, run.shapes, stages, run.shardings, (run.kind,))
    return float(items.allocated[0, 0, 0, 0]), PHASES[int(items.phase[0, 0, 0, 0])]
