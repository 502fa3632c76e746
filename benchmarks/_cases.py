"""Field cases (configurations that people reported) as rows of the tables of runs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from benchmarks._tuning import task_of
from solver.calibration.rows import Row
from solver.job.presets import models
from solver.job.transformer import Transformer

COLUMNS = {
    "n_layers": "layers", "n_hidden": "hidden", "n_heads": "heads", "n_kv_heads": "kv_heads",
    "n_ffn_dense": "ffn", "n_vocab": "vocab", "num_experts": "experts", "top_k": "top_k",
    "moe_ffn_hidden": "moe_ffn", "tied_embeddings": "tied", "gated_mlp": "gated_mlp",
    "n_gpu": "gpu", "n_gpu_mem_gib": "gpu_mem_gib", "gpus": "gpus",
    "gpus_per_node": "gpus_per_node", "seq_len": "seq_len", "micro_batch": "micro_batch",
    "global_batch_seqs": "global_batch", "n_tp": "tp", "n_sp": "sp", "n_pp": "pp", "n_vpp": "vpp",
    "n_cp": "cp", "n_ep": "ep", "framework": "framework", "precision": "precision",
    "optimizer": "optimizer", "flash_attention": "flash_attention", "model": "model", "id": "id",
    "notes": "notes", "mem_note": "mem_note", "step_s": "step_time_s",
    "mem_gib_per_gpu": "peak_mem_gib", "overlap": "recompute",
}  # fmt: skip
"""Column of the tables of runs, and the field cases' column that holds it."""

Words = tuple[tuple[str, str], ...]
STACKS: Words = (
    (r"zero-3 \(tp", "deepspeed-zero3"),
    (r"megatron-deepspeed|neox", "megatron-deepspeed"),
    (r"bridge|nemo|megatron|swift", "megatron-core"),
    (r"deepspeed|openrlhf|\+ zero", "deepspeed-zero3"),
    (r"torchtitan|touchnet", "torchtitan"),
    (r"nanotron", "nanotron"),
    (r"fms|llm-foundry", "fsdp1"),
)
"""Software stack by words of the framework: the first that matches."""
PRECISIONS: Words = ((r"mxfp8", "mxfp8"), (r"fp8", "fp8"), (r"bf16", "bf16"), (r"fp16", "fp16"))
ZERO: Words = (
    (r"hsdp", "hsdp"),
    (r"zero-?3|fsdp|full shard", "3"),
    (r"zero-?2", "2"),
    (r"bf16optimizer|zero-?1|distributed", "1"),
    (r"stage 0|none", "0"),
)
RECOMPUTE: Words = ((r"selective|per-op", "selective"), (r"full", "full"), (r"none", "none"))
MODULES = ("core_attn", "mla_up_proj", "moe_act", "layernorm", "mlp", "moe")
GPUS: Words = (
    (r"h100-96gb", "H100-96GB-500W"),
    (r"a800-80gb", "A100-80GB"),
    (r"h800", "H100-80GB"),
)
"""Cards that another entry of the hardware data stands for: A800 and H800 differ in NVLink only."""
OVERLAPPED = re.compile(r"^overlap of expert all-to-all", re.I)
"""A case that is about this switch states it there only."""
NEVER_SPLIT = ("megatron-deepspeed", "megatron-classic", "deepspeed-zero3")
"""Stacks without sequence parallelism, where a case doesn't say."""
OPERATOR_STACKS = ("torchtitan", "pytorch")
"""Stacks whose selective recomputation, and their default, works by operators."""


def first(words: Words, text: str, default: str) -> str:
    """Return what the first matching words stand for."""
    return next((value for pattern, value in words if re.search(pattern, text)), default)


def row_of(case: Mapping[str, Any]) -> dict[str, str]:
    """Translate a case into the columns of the tables of runs."""
    given = Row(case)
    values = {column: given.text(source) for column, source in COLUMNS.items()}
    framework = given.text("framework").lower()
    stack = first(STACKS, framework, given.text("framework"))
    precision = given.text("precision").lower()
    if framework == "megatron-lm" and "fp16" in precision:
        stack = "megatron-classic"
    values["n_stack"] = stack
    values["n_gpu"] = first(GPUS, given.text("gpu").lower(), given.text("gpu"))
    values["n_sp"] = given.text("sp") or ("0" if stack in NEVER_SPLIT else "1")
    values["n_precision"] = first(PRECISIONS, precision, "bf16")
    usual = "3" if stack in (*OPERATOR_STACKS, "fsdp1", "deepspeed-zero3") else "1"
    values["n_zero"] = first(ZERO, given.text("zero_fsdp").lower(), usual)
    values["grad_dtype_bytes"] = _gradient_bytes(precision)
    values["global_batch_seqs"], values["n_ep"] = _batch(given), _expert_ranks(given, stack)
    values["n_task"] = task_of(given)
    if OVERLAPPED.search(given.text("planner_check")):
        values["overlap"] += " EP overlap on"
    offload = given.text("offload").lower()
    if "cpu" in offload and "reference" not in offload:
        only_states = offload == "optimizer to cpu"
        values["n_offload"] = "optimizer" if only_states else "optimizer+params"
    values["oom"] = "1" if failed(given) else ""
    if "embeddings take a layer slot" in given.text("notes"):
        values["n_layer_split"] = "embedding+loss count as layers"
    values.update(_recomputed(given.text("recompute").lower(), stack))
    values.update(_shape_facts(given))
    return values


def failed(case: Row) -> bool:
    """Whether the card was too small: a failure that the case calls something else is none."""
    other = re.match(r"verdict fits|.*planner says fits", case.text("planner_check"))
    return case.text("outcome") == "oom" and not other


def _ranks(case: Row) -> int:
    """Ranks of one stage."""
    gpus = case.count("gpus")
    return max(gpus // case.count("pp", default=1), 1)


def _batch(case: Row) -> str:
    """Return the global batch, nothing where it does not go with the other figures."""
    text = case.text("global_batch")
    if not text or not case.text("gpus") or not case.text("micro_batch"):
        return text
    dp = max(_ranks(case) // (case.count("tp", default=1) * case.count("cp", default=1)), 1)
    whole = case.number("global_batch") % (dp * case.number("micro_batch")) == 0
    return text if whole else ""


def _expert_ranks(case: Row, stack: str) -> str:
    """Return EP; where a Megatron-class mixture gives none, experts lie on as many ranks as fit."""
    text = case.text("ep")
    if text or not case.text("experts") or stack != "megatron-core" or not case.text("gpus"):
        return text
    return str(math.gcd(case.count("experts"), _ranks(case)))


def _gradient_bytes(precision: str) -> str:
    if re.search(r"fp32 grad", precision):
        return "4"
    return "2" if "grads accumulate in fp16" in precision else ""


def _recomputed(text: str, stack: str) -> dict[str, str]:
    by_operator = stack in OPERATOR_STACKS
    kind = first(RECOMPUTE, text, "selective" if stack == "torchtitan" else "unknown")
    named = [m for m in MODULES if re.search(rf"\b{m}\b", text)]
    if not named:
        named = ["operators"] if by_operator or "per-op" in text else ["core_attn"]
    return {"n_recompute": kind, "n_recompute_modules": ",".join(named)}


@cache
def _known() -> tuple[Transformer, ...]:
    return tuple(models().values())


def _shape_facts(case: Row) -> dict[str, str]:
    """Fill what a case leaves out of its shape from the known model of the same widths."""
    facts: dict[str, str] = {}
    wanted = [case.number(c, default=0) for c in ("hidden", "heads", "experts", "moe_ffn")]
    experts = wanted[2]
    if experts:
        facts["n_moe_layers"] = case.text("layers")
    for model in _known():
        moe = model.moe
        has = [model.hidden, model.heads, moe.experts if moe else 0, moe.ffn if moe else 0]
        if has != wanted:
            continue
        facts["n_head_dim"] = str(model.head_dim)
        if moe is not None:
            facts["n_shared_expert_ffn"] = str(moe.shared_ffn)
            facts["n_moe_layer_freq"] = str(moe.every)
            share = moe.first_dense * case.number("layers", default=0) / model.layers
            facts["n_first_k_dense"] = str(min(moe.first_dense, max(round(share), 1))
                                           if moe.first_dense else 0)  # fmt: skip
        if model.mla is not None:
            mla = model.mla
            facts["n_q_lora_rank"] = str(mla.q_lora_rank or 0)
            for name in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
                facts[f"n_{name}"] = str(getattr(mla, name))
        break
    return facts
