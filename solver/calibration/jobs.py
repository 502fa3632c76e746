"""The model and the job that a row states."""

from __future__ import annotations

import math

from ..cost.profile import Profile
from ..job.finetune import Finetune
from ..job.job import Job
from ..job.presets import find_model, is_model, models
from ..job.recipe import Precision, Recipe
from ..job.transformer import Mla, Moe, Transformer
from .rows import RefusedError, Row

USUAL_HEAD_DIM = 128
"""Head width where a row gives no heads (most models of the table)."""
HEADS_IN = 32
GPT2_VOCAB = 50257
"""Vocabulary where a row gives none: the GPT-2 tokenizer, which the runs without one use."""
PACKED_SPAN = 100.0
"""Mean keys of a query in fine-tuning rows, which pack question-answering documents (SQuAD, about
200 tokens with its context) into their sequences."""
ADAPTERS = Finetune(lora_rank=32, lora_targets=("all",))
"""What fine-tuning with adapters trains where a row doesn't say: the default of NeMo's recipes."""
TASKS = ("pretrain", "sft", "lora")


def usual_heads(hidden: int) -> int:
    """Return the heads of a width where a row gives none: 128 wide, if that divides it.

    Else the nearest count that divides it and that tensor ranks divide, a multiple of 32.
    """
    wanted = hidden / USUAL_HEAD_DIM
    if hidden % USUAL_HEAD_DIM == 0:
        return int(wanted)
    even = [n for n in range(HEADS_IN, hidden + 1, HEADS_IN) if hidden % n == 0]
    return min(even, key=lambda n: abs(math.log(n / wanted)), default=max(int(wanted), 1))


def task_of(row: Row) -> str:
    """Return what the run trains."""
    task = row.text("n_task", "task", default="pretrain")
    if task not in TASKS:
        raise RefusedError(f"{task[:40]}: only {', '.join(TASKS)} are supported")
    return task


def transformer_of(row: Row) -> Transformer:
    """Build the model's shape."""
    named = row.text("model")
    if not row.text("n_layers", "layers") and is_model(named):
        return find_model(named)
    hidden = row.count("n_hidden", "hidden")
    heads = row.count("n_heads", "heads", default=usual_heads(hidden))
    positions = row.text("n_pos_embedding", default="rope")
    window = row.count("n_attn_window", default=0, least=0)
    moe = _moe(row)
    ffn = row.count("n_ffn_dense", "ffn_hidden", default=4 * hidden, least=0)
    shape = Transformer(
        name=row.text("model", default="run")[:80],
        layers=row.count("n_layers", "layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=row.count("n_kv_heads", "kv_heads", default=heads),
        head_dim=row.count("n_head_dim", default=max(hidden // heads, 1)),
        ffn=ffn or (moe.ffn if moe else 0),  # a pure mixture has no dense width
        gated=row.number("gated_mlp", default=0) > 0,
        vocab=row.count("n_vocab", "vocab", default=GPT2_VOCAB),
        tied=row.number("tied_embeddings", default=0) > 0,
        learned_positions=row.count("seq_len") if positions == "learned" else 0,
        alibi=positions == "alibi",
        window=window or None,
        window_layers=row.count("n_window_layers", default=0, least=0) if window else 0,
        moe=moe,
        mla=_mla(row),
        mtp_layers=row.count("n_mtp_layers", default=0, least=0),
    )
    return shape.model_copy(update={"mlp_bias": _known_biases(shape)})


def _known_biases(shape: Transformer) -> bool:
    """Whether the known model of this very shape has biases in its MLP: no column says it."""
    same = ("layers", "hidden", "heads", "head_dim", "vocab", "moe")
    return any(
        known.mlp_bias and all(_plain(known, name) == _plain(shape, name) for name in same)
        for known in models().values()
    )


def _plain(shape: Transformer, name: str) -> object:
    value = getattr(shape, name)
    return (value.experts, value.top_k, value.ffn) if isinstance(value, Moe) else value


def _moe(row: Row) -> Moe | None:
    if row.number("n_moe_layers", "num_experts", default=0) <= 0:
        return None
    return Moe(
        experts=row.count("num_experts"),
        top_k=row.count("top_k"),
        ffn=row.count("moe_ffn_hidden"),
        shared_ffn=row.count("n_shared_expert_ffn", default=0, least=0),
        first_dense=row.count("n_first_k_dense", default=0, least=0),
        every=row.count("n_moe_layer_freq", default=1),
    )


def _mla(row: Row) -> Mla | None:
    if not row.text("n_kv_lora_rank") or row.number("n_kv_lora_rank") <= 0:
        return None
    return Mla(
        q_lora_rank=row.count("n_q_lora_rank", default=0, least=0) or None,
        kv_lora_rank=row.count("n_kv_lora_rank"),
        qk_nope_head_dim=row.count("n_qk_nope_head_dim"),
        qk_rope_head_dim=row.count("n_qk_rope_head_dim"),
        v_head_dim=row.count("n_v_head_dim"),
    )


def job_of(row: Row, profile: Profile) -> Job:
    """Build the job; gradients are as wide as the row says, else as the stack keeps them."""
    precision = row.text("n_precision", "precision", default="bf16")
    known: dict[str, Precision] = {
        "bf16": "bf16", "fp16": "fp16", "16bit": "bf16", "fp8": "fp8", "mxfp8": "mxfp8",
        "nvfp4": "nvfp4",
    }  # fmt: skip
    if precision not in known:
        raise RefusedError(f"precision {precision[:40]!r} is not known")
    flash = row.text("flash_attention", default="0" if _old(row, profile) else "1")
    tuned = task_of(row) != "pretrain"
    return Job(
        transformer=transformer_of(row),
        seq_len=row.count("seq_len"),
        global_batch=row.count("global_batch_seqs"),
        recipe=Recipe(
            precision=known[precision],
            grad_bytes=row.number("grad_dtype_bytes", default=profile.stack.gradient_bytes),
        ),
        attention="unfused" if flash in ("0", "0.0") else "flash",
        attention_span=PACKED_SPAN if tuned else None,
        finetune=ADAPTERS if task_of(row) == "lora" else None,
    )


def _old(row: Row, profile: Profile) -> bool:
    """Whether attention stores its scores, where a row doesn't say.

    Megatron-LM and its relatives got flash attention with Hopper-era releases.
    """
    family = row.text("n_stack") in (
        "megatron-classic",
        "megatron-deepspeed",
        "zero-bubble-megatron",
    )
    return family and profile.gpu.family == "a100"
