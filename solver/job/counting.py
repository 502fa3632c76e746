"""Parameter counts and FLOPs of a transformer, block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # the shape calls these functions, so at run time the import goes one way only
    from .transformer import Mla, Moe, Transformer

GATED_MATRICES = 3  # gate, up and down projection (SwiGLU, GeGLU)
PLAIN_MATRICES = 2  # up and down projection
FLOP_PER_MULTIPLY_ADD = 2
TRAINING_TO_FORWARD = 3  # backward computes the gradients of inputs and of weights: 2 x forward


@dataclass(frozen=True, slots=True)
class ParameterCounts:
    """Trainable parameters by block.

    Attributes
    ----------
    embedding
        Token embedding matrix.
    positions
        Learned position embedding; 0 for rotary positions and ALiBi.
    attention_per_layer
        Projections with their biases, and the small norms inside attention.
    dense_mlp_per_layer
        The MLP of a dense layer; 0 where no layer is dense.
    router_per_layer
        Router of a mixture layer, with its bias and the gate of the shared expert.
    expert
        One routed expert.
    shared_expert_per_layer
        All shared experts of a mixture layer.
    norms_per_layer
        Norms around attention and MLP.
    final_norm
        The last norm and, for BLOOM, the norm after the embedding.
    head
        Output projection; 0 where it is tied to the embedding.
    mtp
        All multi-token-prediction modules together.
    total
        All of the above.
    active
        Total less the routed experts that a token does not visit.
    """

    embedding: int
    positions: int
    attention_per_layer: int
    dense_mlp_per_layer: int
    router_per_layer: int
    expert: int
    shared_expert_per_layer: int
    norms_per_layer: int
    final_norm: int
    head: int
    mtp: int
    total: int
    active: int


def norm_size(model: Transformer, width: int) -> int:
    """Parameters of one norm: a scale, and a bias for a layer norm."""
    return width if model.norm == "rms" else 2 * width


def attention_matrices(model: Transformer) -> int:
    """Weights of one layer's attention projections, without biases and norms."""
    if model.mla is not None:
        return _latent_matrices(model, model.mla)
    key_value = 2 * model.kv_heads * model.head_dim
    return model.hidden * (model.query_width + key_value) + model.value_width * model.hidden


def _latent_matrices(model: Transformer, mla: Mla) -> int:
    # DeepSeek-V2 (arXiv 2405.04434) equations 9-17: down and up projections of query and key/value.
    if mla.q_lora_rank is None:
        query = model.hidden * model.query_width
    else:
        query = mla.q_lora_rank * (model.hidden + model.query_width)
    down = model.hidden * (mla.kv_lora_rank + mla.qk_rope_head_dim)
    up = mla.kv_lora_rank * model.heads * (mla.qk_nope_head_dim + mla.v_head_dim)
    return query + down + up + model.value_width * model.hidden


@dataclass(frozen=True, slots=True)
class Linear:
    """One linear layer, and which of its sides tensor parallelism divides."""

    inputs: int
    outputs: int
    by_output: bool = False
    by_input: bool = False


def attention_linears(model: Transformer) -> list[Linear]:
    """Projections of one layer's attention; the output projection is the last."""
    out = Linear(model.value_width, model.hidden, by_input=True)
    hidden, mla = model.hidden, model.mla
    if mla is None:
        key_value = Linear(hidden, model.kv_heads * model.head_dim, by_output=True)
        return [Linear(hidden, model.query_width, by_output=True), key_value, key_value, out]
    down = Linear(hidden, mla.kv_lora_rank + mla.qk_rope_head_dim)
    width = model.heads * (mla.qk_nope_head_dim + mla.v_head_dim)
    up = Linear(mla.kv_lora_rank, width, by_output=True)
    if mla.q_lora_rank is None:
        return [Linear(hidden, model.query_width, by_output=True), down, up, out]
    query = Linear(mla.q_lora_rank, model.query_width, by_output=True)
    return [Linear(hidden, mla.q_lora_rank), query, down, up, out]


def mlp_linears(model: Transformer, ffn: int) -> list[Linear]:
    """Projections of an MLP of the given intermediate width."""
    up = Linear(model.hidden, ffn, by_output=True)
    return [up] * (2 if model.gated else 1) + [Linear(ffn, model.hidden, by_input=True)]


def _attention_extras(model: Transformer) -> int:
    """Biases and the norms inside attention."""
    out = model.hidden if model.out_bias else 0
    if model.mla is not None:
        # A bias sits on the down projections only, as in DeepSeek's `attention_bias`.
        rank = model.mla.q_lora_rank or 0
        down = rank + model.mla.kv_lora_rank + model.mla.qk_rope_head_dim
        norms = rank + model.mla.kv_lora_rank
        return out + norms + (down if model.qkv_bias else 0)
    bias = model.query_width + 2 * model.kv_heads * model.head_dim if model.qkv_bias else 0
    return out + bias + (2 * model.head_dim if model.qk_norm else 0)


def mlp_size(model: Transformer, ffn: int) -> int:
    """Parameters of one MLP of the given intermediate width, with its biases."""
    matrices = GATED_MATRICES if model.gated else PLAIN_MATRICES
    bias = (matrices - 1) * ffn + model.hidden if model.mlp_bias else 0
    return matrices * model.hidden * ffn + bias


def _router_size(model: Transformer, moe: Moe) -> int:
    bias = moe.experts if moe.router_bias else 0
    gate = model.hidden if moe.shared_gate else 0
    return model.hidden * moe.experts + bias + gate


def count(model: Transformer) -> ParameterCounts:
    """Count a model's parameters.

    Parameters
    ----------
    model
        The shape.

    Returns
    -------
    Exact counts: tests hold them to the real checkpoints.
    """
    moe = model.moe
    attention = attention_matrices(model) + _attention_extras(model)
    norms = model.norms_per_layer * norm_size(model, model.hidden)
    dense = mlp_size(model, model.ffn) if model.dense_layers else 0
    router = _router_size(model, moe) if moe else 0
    expert = mlp_size(model, moe.ffn) if moe else 0
    shared = mlp_size(model, moe.shared_ffn) if moe and moe.shared_ffn else 0
    mixture = router + shared + (moe.experts * expert if moe else 0)
    embedding = model.vocab * model.hidden
    positions = model.learned_positions * model.hidden
    ends = (int(model.final_norm) + int(model.embedding_norm)) * norm_size(model, model.hidden)
    head = 0 if model.tied else embedding
    # An MTP module: one more layer of the last kind, a projection of [hidden; embedding] to hidden
    # and three norms; embedding and head are shared (arXiv 2412.19437, section 2.2).
    module = attention + norms + (mixture if moe else mlp_size(model, model.ffn))
    module += 2 * model.hidden * model.hidden + 3 * norm_size(model, model.hidden)
    mtp = model.mtp_layers * module
    layers = model.layers * (attention + norms)
    layers += model.dense_layers * dense + model.moe_layers * mixture
    total = embedding + positions + layers + ends + head + mtp
    idle = (moe.experts - moe.top_k) * expert if moe else 0
    return ParameterCounts(
        embedding=embedding,
        positions=positions,
        attention_per_layer=attention,
        dense_mlp_per_layer=dense,
        router_per_layer=router,
        expert=expert,
        shared_expert_per_layer=shared,
        norms_per_layer=norms,
        final_norm=ends,
        head=head,
        mtp=mtp,
        total=total,
        active=total - (model.moe_layers + model.mtp_layers) * idle,
    )


def _mlp_flops(model: Transformer, ffn: int) -> int:
    matrices = GATED_MATRICES if model.gated else PLAIN_MATRICES
    return FLOP_PER_MULTIPLY_ADD * matrices * model.hidden * ffn


def _mixture_flops(model: Transformer, moe: Moe) -> int:
    routed = moe.top_k * _mlp_flops(model, moe.ffn)
    gate = FLOP_PER_MULTIPLY_ADD * model.hidden if moe.shared_gate else 0
    router = FLOP_PER_MULTIPLY_ADD * model.hidden * moe.experts
    return routed + _mlp_flops(model, moe.shared_ffn) + router + gate


def mean_span(
    seq_len: float,
    window: int | None = None,
    attention: Literal["causal", "full"] = "causal",
    span: float | None = None,
) -> float:
    """Mean number of keys that one query is multiplied with.

    Parameters
    ----------
    seq_len
        Sequence length in tokens.
    window
        Sliding window in tokens, None for all of the sequence.
    attention
        Convention: ``causal`` or ``full``.
    span
        Mean span that the data set gives, before the window.

    Returns
    -------
    Tokens. A causal window w < s leaves w - w^2 / (2 s): full rows of w, less the corner.
    """
    if span is not None:
        return min(span, float(window)) if window is not None else span
    width = min(seq_len, window) if window is not None else seq_len
    return float(width) if attention == "full" else width - width * width / (2 * seq_len)


def attention_core_flops(model: Transformer, span: float) -> float:
    """FLOPs of scores and weighted values in one layer, per token, forward."""
    return FLOP_PER_MULTIPLY_ADD * (model.query_width + model.value_width) * span


def forward_flops(
    model: Transformer,
    seq_len: float,
    attention: Literal["causal", "full"],
    span: float | None,
) -> float:
    """FLOPs of a forward pass per token; see :meth:`Transformer.flops_per_token`."""
    if seq_len < 1:
        raise ValueError(f"seq_len {seq_len} must be at least 1 token")
    everywhere = attention_core_flops(model, mean_span(seq_len, None, attention, span))
    windowed = attention_core_flops(model, mean_span(seq_len, model.window, attention, span))
    projections = FLOP_PER_MULTIPLY_ADD * attention_matrices(model)
    mixture = _mixture_flops(model, model.moe) if model.moe else 0
    head = FLOP_PER_MULTIPLY_ADD * model.hidden * model.vocab
    layers = model.layers * projections
    layers += model.dense_layers * _mlp_flops(model, model.ffn) + model.moe_layers * mixture
    cores = (model.layers - model.window_layers) * everywhere + model.window_layers * windowed
    last = mixture or _mlp_flops(model, model.ffn)
    joint = FLOP_PER_MULTIPLY_ADD * 2 * model.hidden * model.hidden
    mtp = model.mtp_layers * (projections + everywhere + last + joint + head)
    return float(layers + cores + head + mtp)
