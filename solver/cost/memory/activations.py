"""What a stage keeps for backward, bytes: by layer shape, implementation and recomputation.

Per token and layer; arrays of shape (N,) over shapes, then (N, 4, K) over stage classes and kinds
of recomputation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...job.job import Job
from ...job.search import Recompute
from ..frozen import layers_with_backward
from ..parameters import padded_vocabulary
from ..profile import Profile
from ..schedule import chunks_in_flight
from ..shapes import Shapes
from ..stages import Stages
from ..ticks import FloatArray
from .kept_inputs import KeptInputs, kept_inputs
from .late_weights import most_held
from .options import MemoryOptions

HALF = 2.0
"""Bytes of a 16-bit value: what compute keeps."""
NORMS = 2
"""Norms in front of attention and MLP; each keeps its input, and its output is kept by what reads
it."""
STATISTICS_BYTES = 4.0
"""Softmax statistics of flash attention, and a norm's inverse deviation, fp32."""
SCORE_BYTES = 5.0
"""Scores, softmax and dropout mask of unfused attention, a score; the masks after attention and MLP
take one byte each a hidden unit (Korthikanti et al. 2022, arXiv 2205.05198, section 4.1)."""
ROUTER_BYTES = 10.0
"""Router logits and probabilities, a token and expert (published peaks of mixtures)."""
ROUTE_BYTES = 4.0
"""Probability of a routed token."""
EAGER_NORM_BYTES = 8.0
"""An eager RMS norm upcasts: two fp32 copies beside its input, both norms, a hidden unit; less the
fused kernel's 16-bit output, which is kept either way (oracle: 8.0)."""
MASK_BYTES = 2.0
"""Causal mask that each attention layer of Hugging Face transformers keeps, a score (oracle)."""
JOINED_BYTES = 8.0
"""Inputs of the two norms in front of a multi-token-prediction module and their outputs, joined,
16 bit, a hidden unit (arXiv 2412.19437, equation 21)."""
EIGHT_BIT = ("fp8", "mxfp8", "nvfp4")


@dataclass(frozen=True)
class Layer:
    """Bytes a token that a layer keeps, by part; each (N,) or a number."""

    norm_inputs: FloatArray
    attention_input: FloatArray
    mlp_input: FloatArray
    mixture_input: FloatArray
    projections: FloatArray
    up_projections: FloatArray
    core: FloatArray
    dense: FloatArray
    dense_input: FloatArray
    router: FloatArray
    experts: FloatArray
    expert_input: FloatArray


def layer_of(job: Job, profile: Profile, shapes: Shapes) -> Layer:
    """Return everything that a layer keeps without recomputation.

    With fused kernels and the GPT shape it gives the 34 s b h / t of Korthikanti et al. 2022, with
    the score matrix and the masks added where attention is unfused.
    """
    model, options = job.transformer, profile.memory
    tp = shapes.tp.astype(np.float64)
    sp = sequence_ranks(profile, shapes)
    hidden = float(model.hidden)
    low = options.fp8_saved and job.recipe.precision in EIGHT_BIT
    stored = 1.0 if low else HALF
    inputs = HALF * NORMS * hidden / sp
    output = stored * hidden / (1.0 if options.gathered_inputs_kept else sp) + 0 * sp
    inputs = inputs + NORMS * STATISTICS_BYTES / sp
    if not is_fused(options):
        inputs = inputs + EAGER_NORM_BYTES * hidden / sp
    plain, latent = _projections(job, profile, shapes)
    if job.attention == "flash":
        core = STATISTICS_BYTES * model.heads / tp
    else:
        core = SCORE_BYTES * model.heads * job.seq_len / tp + HALF * hidden / sp
    copies = np.where(shapes.cp > 1, options.cp_bytes * model.query_width / tp, 0.0)
    needed = kept_inputs(job)
    dense, dense_input = _mlp(job, profile, model.ffn, stored * needed.mlp)
    router, experts, expert_input = _mixture(job, profile, stored * needed.experts, needed)
    return Layer(
        inputs, output * needed.attention, output * needed.mlp, output * needed.mixture,
        plain + copies + needed.attention_bytes, latent, core,
        dense / tp + needed.mlp_bytes, dense_input / tp,
        router / sp, experts / tp, expert_input / tp,
    )  # fmt: skip


def is_fused(options: MemoryOptions) -> bool:
    """Whether elementwise kernels keep their inputs only."""
    return options.compiled or options.implementation == "fused"


def sequence_ranks(profile: Profile, shapes: Shapes) -> FloatArray:
    """Ranks that share a sequence outside attention and MLP, shape (N,)."""
    tp = shapes.tp.astype(np.float64)
    return tp if profile.software.sequence_parallel else np.ones_like(tp)


def _projections(job: Job, profile: Profile, shapes: Shapes) -> tuple[FloatArray, FloatArray]:
    """Query, key, value and output of attention; what latent attention projects up is apart."""
    model, tp = job.transformer, shapes.tp.astype(np.float64)
    value = HALF * model.value_width / tp
    if model.mla is not None:
        mla = model.mla
        # Compressed queries and keys: what their norms read, and what the projections up read.
        read = 2 if kept_inputs(job).attention else 1
        compressed = (mla.q_lora_rank or 0) + mla.kv_lora_rank
        latent = HALF * (read * compressed + mla.qk_rope_head_dim)
        up = HALF * (2 * model.query_width + model.heads * mla.qk_nope_head_dim) / tp + value
        return latent + value, up
    key_value = 2.0 * model.kv_heads * model.head_dim
    plain = HALF * (model.query_width + key_value) / tp + value
    if profile.memory.implementation == "transformers":
        # Keys and values are repeated for each query head.
        repeated = HALF * (2.0 * model.query_width - key_value) / tp
        plain = plain + repeated + MASK_BYTES * job.seq_len
    return plain, 0.0 * tp


def _mlp(job: Job, profile: Profile, ffn: float, stored: float) -> tuple[float, float]:
    """Return what an MLP keeps, and the part of it that is the input of its second product."""
    gated = job.transformer.gated
    kept = HALF * ffn * (2 if gated else 1)
    if gated and not is_fused(profile.memory):
        kept += HALF * ffn  # the activation before the product of the two branches
    second = stored * ffn
    return kept + second, second


def _mixture(
    job: Job, profile: Profile, stored: float, needed: KeptInputs
) -> tuple[float, float, float]:
    """Router, experts (routed tokens and shared), and the input of their second product."""
    model, moe = job.transformer, job.transformer.moe
    if moe is None:
        return 0.0, 0.0, 0.0
    routed, routed_input = _mlp(job, profile, moe.ffn, stored)
    shared, shared_input = _mlp(job, profile, moe.shared_ffn, stored)
    outputs = HALF * model.hidden if profile.memory.late_probabilities else 0.0
    dispatched = HALF * model.hidden * needed.experts
    token = dispatched + routed + ROUTE_BYTES + outputs + needed.expert_bytes
    copies = moe.top_k * job.routed
    experts = copies * token + shared
    return ROUTER_BYTES * moe.experts, experts, copies * routed_input + shared_input


def saved_per_token(
    job: Job, profile: Profile, shapes: Shapes, kind: Recompute
) -> tuple[FloatArray, FloatArray]:
    """Bytes that one layer keeps, a token; (dense layer, mixture layer), shape (N,).

    Full recomputation keeps the layer's input, 2 h; selective drops what the stated modules keep.
    """
    if kind == "full":
        only_input = HALF * job.transformer.hidden / sequence_ranks(profile, shapes)
        return only_input, only_input
    part = layer_of(job, profile, shapes)
    if kind == "selective" and "operators" in profile.software.recompute_modules:
        return _half_the_products(job, profile, shapes)
    dropped = profile.software.recompute_modules if kind == "selective" else ()
    common = part.norm_inputs + part.projections
    for module, value in (
        ("core_attn", part.core),
        ("layernorm", part.attention_input),
        ("mla_up_proj", part.up_projections),
    ):
        if module not in dropped:
            common = common + value
    normed = "layernorm" not in dropped
    dense = 0.0 * common if "mlp" in dropped else part.dense
    experts = 0.0 * common if "moe" in dropped else part.experts
    dense, experts = dense + normed * part.mlp_input, experts + normed * part.mixture_input
    if "moe_act" in dropped and "moe" not in dropped:
        experts = experts - part.expert_input
    return common + dense, common + part.router + experts


def _half_the_products(job: Job, profile: Profile, shapes: Shapes) -> tuple[FloatArray, FloatArray]:
    """Operator-level checkpointing: every other product's output, and attention's, are kept.

    Grouped products are not on its list (torchtitan's per-operator policy), so routed experts keep
    nothing.
    """
    model, tp = job.transformer, shapes.tp.astype(np.float64)
    hidden = HALF * NORMS * model.hidden / sequence_ranks(profile, shapes)
    heads = model.query_width + model.kv_heads * model.head_dim + model.value_width
    common = hidden + (HALF * heads + STATISTICS_BYTES * model.heads) / tp
    moe = model.moe
    shared = HALF * moe.shared_ffn + ROUTER_BYTES * moe.experts if moe else 0.0
    return common + HALF * model.ffn / tp, common + shared / tp


def tokens_per_rank(job: Job, shapes: Shapes) -> FloatArray:
    """Tokens of one micro-batch on a context rank, shape (N,)."""
    return np.asarray(shapes.micro_batch * job.seq_len / shapes.cp)


Saved = tuple[FloatArray, FloatArray]
"""Bytes a token that a dense and a mixture layer keep."""


def activation_bytes(
    job: Job, profile: Profile, shapes: Shapes, stages: Stages, saved: Sequence[Saved]
) -> FloatArray:
    """Return what all micro-batches in flight keep, for each way to keep it, shape (N, 4, K).

    Layers that the stages recompute in full keep their input, whatever the way.
    """
    column = [a[:, None] for a in (shapes.pp, shapes.vpp, shapes.microbatches)]
    chunks = chunks_in_flight(
        column[0], column[1], column[2], stages.index, profile.software.schedule
    )
    options, model = profile.memory, job.transformer
    tokens = tokens_per_rank(job, shapes)[:, None]
    in_flight = chunks / column[1] * tokens
    ahead = model.mtp_layers * stages.has_head
    layers = layers_with_backward(job, shapes, stages)
    moe_layers = layers.moe_layers + (ahead if model.moe is not None else 0)
    dense_layers = layers.dense_layers + (0 if model.moe is not None else ahead)
    here = np.maximum(stages.layers, 1)
    on_card = 1 - np.minimum(options.offloaded_layers, here) / here
    engine = (options.stage_bytes * model.hidden / sequence_ranks(profile, shapes))[:, None]
    again = HALF * model.hidden / sequence_ranks(profile, shapes)
    some = bool(stages.recomputed.any())
    # A prediction module joins two normed tensors: it keeps both, and what it made of them.
    joined = JOINED_BYTES * model.hidden / sequence_ranks(profile, shapes)
    joined = ahead * joined[:, None]
    parts = []
    for dense, moe in saved:
        kept = dense_layers * dense[:, None] + moe_layers * moe[:, None]
        if some:  # recomputed layers keep their input only
            repeated = np.minimum(stages.recomputed_dense, layers.dense_layers)
            kept = kept - repeated * (dense - again)[:, None]
            repeated = np.minimum(stages.recomputed_moe, layers.moe_layers)
            kept = kept - repeated * (moe - again)[:, None]
        each = on_card * kept + engine + joined
        if profile.software.schedule == "zb-h1":
            sequence = sequence_ranks(profile, shapes)
            held = most_held(job, shapes, stages, each, (dense_layers, moe_layers), sequence)
            parts.append(tokens * held)
        else:
            parts.append(in_flight * each)
    return np.stack(parts, axis=-1)


def loss_bytes(job: Job, profile: Profile, shapes: Shapes, stages: Stages) -> FloatArray:
    """Logits, loss and what its backward keeps, on the stage with the head; shape (N, 4)."""
    options, model = profile.memory, job.transformer
    tokens = tokens_per_rank(job, shapes)
    share, whole = options.loss_bytes, options.whole_loss_bytes
    if options.compiled:
        share = min(share, options.compiled_loss_bytes)
    if job.fused_loss:
        share, whole = min(share, options.fused_loss_bytes), 0.0
    # In parts, one part's logits exist at a time.
    logits = (share * padded_vocabulary(model, shapes) + whole * model.vocab) / job.loss_chunks
    # The loss of one prediction head is done before the next one's logits exist.
    total = tokens * (logits + options.loss_hidden_bytes * model.hidden)
    if job.finetune is not None and job.finetune.reference_model:
        # The reference's logits, 16 bit, beside the graph of the trained model.
        total = total + tokens * HALF * padded_vocabulary(model, shapes)
    return np.asarray(total[:, None] * stages.has_head)
