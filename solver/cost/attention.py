"""The attention half of a layer: projections, core, norms and residuals of the whole layer."""

from __future__ import annotations

import numpy as np

from ..job.finetune import adapted_attention
from ..job.transformer import Transformer
from .kernels import (
    BACKWARD_UNFUSED,
    flash_attention_seconds,
    unfused_attention_seconds,
)
from .ticks import FloatArray
from .work import Core, Width, Work

BLOCK_TRAFFIC = 10
"""Tensors of hidden width that norms, residuals and dropouts of a layer move, forward."""
NORM_TRAFFIC = 4
"""Those of the two norms among them: each reads its input and writes its output."""
ROPE_TRAFFIC = 4
"""Tensors of query and key width that rotary embedding moves, forward."""
BACKWARD_ELEMENTWISE = 2.0
"""Backward over forward traffic of elementwise kernels."""
OPERATOR_SHARE = 0.5
"""Share of the products that operator-level checkpointing repeats: every second one (torchtitan,
``selective_ac_option: op``)."""


def attention_half(core: Core) -> Work:
    """Everything of a layer but its MLP."""
    model = core.model
    trained = core.trains("attention")
    linears = core.linears(_latent_up(core) + _plain_linears(core), trained=trained)
    linears = linears + core.adapters(adapted_attention(model, core.job.finetune))
    heads = _heads(core)
    block = core.moved(_block_traffic(core) * core.stack.elementwise)
    cast = core.cast(core.tokens * (model.hidden + model.value_width / core.tp))
    if core.job.attention == "unfused":
        ratio = BACKWARD_UNFUSED
    else:
        ratio = core.machine.profile.gpu.attention_backward
    return Work(
        linears.forward + heads + block + cast,
        linears.backward + ratio * heads + BACKWARD_ELEMENTWISE * block + cast,
        _repeated(core, linears, heads, block + cast),
        linears.weight,
    )


def _repeated(core: Core, linears: Work, heads: FloatArray, elementwise: FloatArray) -> FloatArray:
    total = core.zero
    if core.repeats("core_attn"):
        total = total + heads
    if core.repeats("layernorm"):
        norms = 2 * core.tokens * NORM_TRAFFIC * core.model.hidden / core.sp
        total = total + core.moved(norms * core.stack.elementwise)
    if core.repeats("mla_up_proj"):
        ups = core.linears(_latent_up(core), trained=core.trains("attention"))
        total = total + ups.forward
    if core.repeats("operators"):
        total = total + OPERATOR_SHARE * linears.forward + elementwise
    return total


def _plain_linears(core: Core) -> list[Width]:
    """Projections from and to the hidden width."""
    model, tp, hidden = core.model, core.tp, np.full_like(core.tp, core.model.hidden)
    out = (hidden, model.value_width / tp)
    if model.mla is None:
        key_value = 2 * np.maximum(model.kv_heads / tp, 1.0) * model.head_dim
        return [(model.query_width / tp + key_value, hidden), out]
    down = np.full_like(tp, model.mla.kv_lora_rank + model.mla.qk_rope_head_dim)
    if model.mla.q_lora_rank is None:
        return [(model.query_width / tp, hidden), (down, hidden), out]
    return [(np.full_like(tp, model.mla.q_lora_rank), hidden), (down, hidden), out]


def _latent_up(core: Core) -> list[Width]:
    """Projections from the latents of MLA to the heads."""
    model, mla = core.model, core.model.mla
    if mla is None:
        return []
    up = model.heads * (mla.qk_nope_head_dim + mla.v_head_dim) / core.tp
    ups = [(up, np.full_like(core.tp, mla.kv_lora_rank))]
    if mla.q_lora_rank is not None:
        ups.append((model.query_width / core.tp, np.full_like(core.tp, mla.q_lora_rank)))
    return ups


def _heads(core: Core) -> FloatArray:
    """Forward of scores and context, all heads of a rank."""
    model, job = core.model, core.job
    span = mean_span(model, job.document_tokens)
    flops = 2 * core.tokens * span * (model.query_width + model.value_width) / core.tp
    width_a_head = (model.query_width + model.value_width) // (2 * model.heads)
    if job.attention == "unfused":
        scores = core.tokens * job.seq_len * model.heads / core.tp
        return unfused_attention_seconds(core.machine, flops, scores, width_a_head)
    seconds = flash_attention_seconds(
        core.machine, flops, job.document_tokens, core.cp, width_a_head
    )
    return seconds * (core.stack.latent_attention if model.mla else 1.0)


def _block_traffic(core: Core) -> FloatArray:
    """Bytes of norms, residuals and rotary embedding, forward."""
    model = core.model
    rope = 0.0 if model.learned_positions or model.alibi else ROPE_TRAFFIC
    heads = model.query_width + model.kv_heads * model.head_dim
    return 2 * core.tokens * (BLOCK_TRAFFIC * model.hidden / core.sp + rope * heads / core.tp)


def mean_span(model: Transformer, seq_len: float) -> float:
    """Mean keys that a query sees over all layers: half the sequence, or the window if shorter."""
    causal = seq_len / 2
    if model.window is None or not model.window_layers:
        return causal
    windowed = min(causal, float(model.window))
    share = model.window_layers / model.layers
    return share * windowed + (1 - share) * causal
