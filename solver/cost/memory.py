"""Peak memory of one GPU, itemised, for every stage class, recomputation and sharding.

The need is what the card must have: peak allocated bytes times the allocator's overhead, plus the
CUDA context and communication buffers. Shapes of arrays: N shapes, 4 stage classes, K kinds of
recomputation, Z shardings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..job.job import Job, Recompute
from .parameters import Held, held, padded_vocabulary
from .profile import Profile
from .schedule import chunks_in_flight
from .shapes import Shapes, Shardings
from .stages import Stages
from .ticks import FloatArray

NORM_BYTES = 8
"""Inputs and outputs of the two norms a layer, 16 bit, a token and hidden unit."""
STATISTICS_BYTES = 4
"""Softmax statistics of flash attention, fp32, a token and head."""
SCORE_BYTES = 5
"""Scores, softmax and dropout mask of unfused attention, a score (Korthikanti et al. 2022,
arXiv 2205.05198, equation 1: 5 a s / h)."""
ROUTER_BYTES = 10
"""Router logits and probabilities, a token and expert (published MoE memory peaks)."""
FUSED_LOSS_BYTES = 2.5
"""A logit with a fused cross-entropy (fitted on published peaks)."""
GATHERED_LAYERS = 4.0
"""ZeRO-3: 16-bit weights of the current and the prefetched layer, bytes a parameter of a layer."""
UNSHARDED_GRADIENT = 2.0
"""ZeRO-2/3: the 16-bit gradient of a layer before it is scattered, bytes a parameter."""
TEMPORARY_HIDDEN = 2.0
"""First backward of a stage: incoming gradient, 16 bit, a token and hidden unit."""
REGATHERED = 4.0
"""Gathered input and gradient of a sequence-parallel block, 16 bit."""


@dataclass(frozen=True)
class MemoryItems:
    """Bytes by item; each broadcasts to (N, 4, K, Z)."""

    weights: FloatArray
    gradients: FloatArray
    optimizer: FloatArray
    activations: FloatArray
    logits: FloatArray
    buffers: FloatArray
    reserve: FloatArray

    def total(self) -> FloatArray:
        """Sum of the items, shape (N, 4, K, Z)."""
        return np.asarray(
            (self.weights + self.gradients + self.optimizer)
            + (self.activations + self.logits)
            + self.buffers
            + self.reserve
        )


def saved_per_token(job: Job, shapes: Shapes, kind: Recompute) -> tuple[FloatArray, FloatArray]:
    """Bytes that one layer keeps for backward, a token; (dense layer, mixture layer), shape (N,).

    The sum of the tensors that autograd saves with fused kernels, 16 bit; it gives the 34 h/t of
    Korthikanti et al. 2022 (arXiv 2205.05198) for its layer shape. Full recomputation keeps the
    layer's input, 2 h/t. Selective recomputation drops what the attention core keeps.
    """
    model, tp = job.transformer, shapes.tp.astype(np.float64)
    if kind == "full":
        only_input = 2.0 * model.hidden / tp
        return only_input, only_input
    block = (NORM_BYTES * model.hidden + 8) / tp + _attention_bytes(job, shapes)
    if kind == "none":
        block = block + _core_bytes(job) / tp
    return block + _mlp_bytes(job, model.ffn) / tp, block + _moe_bytes(job, shapes)


def _attention_bytes(job: Job, shapes: Shapes) -> FloatArray:
    model, tp = job.transformer, shapes.tp.astype(np.float64)
    if model.mla is None:
        key_value = 2 * model.kv_heads * model.head_dim
        return np.asarray((2.0 * (model.query_width + key_value) + 2.0 * model.value_width) / tp)
    mla = model.mla
    latent = 2.0 * (2 * (mla.q_lora_rank or 0) + 2 * mla.kv_lora_rank + mla.qk_rope_head_dim)
    heads = 2.0 * (2 * model.query_width + model.heads * mla.qk_nope_head_dim)
    return np.asarray(latent + (heads + 2.0 * model.value_width * 2) / tp)


def _core_bytes(job: Job) -> float:
    model = job.transformer
    if job.attention == "flash":
        return float(STATISTICS_BYTES * model.heads)
    return float(SCORE_BYTES * model.heads * job.seq_len + 2 * model.hidden)


def _mlp_bytes(job: Job, ffn: float) -> float:
    return 2.0 * ffn * (2 if job.transformer.gated else 1) + 2.0 * ffn


def _moe_bytes(job: Job, shapes: Shapes) -> FloatArray:
    model, moe, tp = job.transformer, job.transformer.moe, shapes.tp.astype(np.float64)
    if moe is None:
        return np.zeros(len(shapes))
    routed = 2.0 * model.hidden + _mlp_bytes(job, moe.ffn) + 4.0
    shared = _mlp_bytes(job, moe.shared_ffn)
    return np.asarray((ROUTER_BYTES * moe.experts + moe.top_k * routed + shared) / tp)


def tokens_per_rank(job: Job, shapes: Shapes) -> FloatArray:
    """Tokens of one micro-batch on a context rank, shape (N,)."""
    return np.asarray(shapes.micro_batch * job.seq_len / shapes.cp)


def activation_bytes(
    job: Job, shapes: Shapes, stages: Stages, kinds: tuple[Recompute, ...]
) -> FloatArray:
    """Return the saved activations of all micro-batches in flight, shape (N, 4, K)."""
    column = [a[:, None] for a in (shapes.pp, shapes.vpp, shapes.microbatches)]
    chunks = chunks_in_flight(column[0], column[1], column[2], stages.index)
    in_flight = chunks / column[1] * tokens_per_rank(job, shapes)[:, None]
    parts = []
    for kind in kinds:
        dense, moe = saved_per_token(job, shapes, kind)
        kept = stages.dense_layers * dense[:, None] + stages.moe_layers * moe[:, None]
        parts.append(in_flight * kept)
    return np.stack(parts, axis=-1)


def logits_bytes(job: Job, profile: Profile, shapes: Shapes, stages: Stages) -> FloatArray:
    """Logits, loss and what its backward keeps, on the stage with the head; shape (N, 4)."""
    per_logit = FUSED_LOSS_BYTES if job.fused_loss else profile.stack.loss_bytes
    tokens = tokens_per_rank(job, shapes)
    vocabulary = padded_vocabulary(job.transformer, shapes)
    loss = per_logit * tokens * vocabulary
    hidden = profile.stack.loss_hidden_bytes * tokens * job.transformer.hidden
    return np.asarray((loss + hidden)[:, None] * stages.has_head)


def shard_ranks(shapes: Shapes, shardings: Shardings) -> tuple[FloatArray, FloatArray]:
    """Ranks that a dense and an expert parameter's states are sharded over, shape (N, Z)."""
    dense = np.maximum((shapes.dp * shapes.cp)[:, None] / shardings.replicas, 1.0)
    replicas = shapes.tp * shapes.cp * shapes.dp / (shapes.ep * shapes.etp)
    return dense, np.maximum(replicas[:, None] / shardings.replicas, 1.0)


def state_bytes(
    job: Job, parameters: Held, shapes: Shapes, shardings: Shardings
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights, gradients and optimizer states, shape (N, 4, Z) each.

    ZeRO 1 shards optimizer states, 2 also gradients, 3 also weights (Rajbhandari et al. 2020,
    arXiv 1910.02054, figure 1); experts over their own, smaller, data-parallel group.
    """
    recipe = job.recipe
    dense_ranks, expert_ranks = shard_ranks(shapes, shardings)
    whole = (parameters.dense + parameters.expert)[:, :, None]
    owned = (
        parameters.dense[:, :, None] / dense_ranks[:, None, :]
        + parameters.expert[:, :, None] / expert_ranks[:, None, :]
    )
    zero = shardings.zero[:, None, :]
    weights, gradients, states = (np.where(zero >= stage, owned, whole) for stage in (3, 2, 1))
    return (
        recipe.weight_bytes * weights,
        recipe.grad_bytes * gradients,
        recipe.optimizer_bytes() * states,
    )


def _transient_bytes(
    job: Job, shapes: Shapes, stages: Stages, kinds: tuple[Recompute, ...]
) -> FloatArray:
    """Temporaries of the first backward of a stage, shape (N, 4, K)."""
    model, tp = job.transformer, shapes.tp.astype(np.float64)
    tokens = tokens_per_rank(job, shapes)
    widest = max(model.ffn if model.dense_layers else 0, model.moe.ffn if model.moe else 0)
    common = TEMPORARY_HIDDEN * model.hidden / tp + 2.0 * widest * (2 if model.gated else 1) / tp
    common = common + np.where(tp > 1, REGATHERED * model.hidden, 0.0)
    dense, moe = saved_per_token(job, shapes, "none")
    layer = np.maximum(
        np.where(stages.dense_layers > 0, dense[:, None], 0.0),
        np.where(stages.moe_layers > 0, moe[:, None], 0.0),
    )
    parts = [
        tokens[:, None] * (common[:, None] + (layer if kind == "full" else 0.0 * layer))
        for kind in kinds
    ]
    return np.stack(parts, axis=-1)


def _gathered_bytes(job: Job, parameters: Held, shardings: Shardings) -> FloatArray:
    """Unsharded layers that ZeRO 2 and 3 hold for a moment, shape (N, 4, Z)."""
    zero = shardings.zero[:, None, :]
    layer = parameters.layer[:, :, None]
    gradient = (UNSHARDED_GRADIENT + job.recipe.grad_bytes) * layer
    root = job.recipe.weight_bytes * parameters.vocabulary[:, :, None]
    weights = GATHERED_LAYERS * layer + root
    return np.where(zero >= 2, gradient, 0.0) + np.where(zero == 3, weights, 0.0)  # noqa: PLR2004 - ZeRO stages


def memory_items(
    job: Job,
    profile: Profile,
    shapes: Shapes,
    stages: Stages,
    shardings: Shardings,
    kinds: tuple[Recompute, ...],
) -> MemoryItems:
    """Itemise the peak of each stage class, recomputation and sharding."""
    parameters, stack = held(job.transformer, shapes, stages), profile.stack
    weights, gradients, optimizer = (
        stack.state_factor * part[:, :, None, :]
        for part in state_bytes(job, parameters, shapes, shardings)
    )
    activations = stack.activation_factor * activation_bytes(job, shapes, stages, kinds)
    logits = logits_bytes(job, profile, shapes, stages)
    transient = _transient_bytes(job, shapes, stages, kinds)
    gathered = _gathered_bytes(job, parameters, shardings)
    items = MemoryItems(
        weights,
        gradients,
        optimizer,
        activations[..., None],
        logits[:, :, None, None],
        transient[..., None] + gathered[:, :, None, :],
        np.zeros(1),
    )
    reserve = (stack.allocator - 1) * items.total()
    fixed = stack.context_bytes + stack.communication_bytes
    return MemoryItems(
        weights, gradients, optimizer, items.activations, items.logits, items.buffers,
        reserve + fixed,
    )  # fmt: skip


def least_bytes(
    job: Job, profile: Profile, shapes: Shapes, stages: Stages, kinds: tuple[Recompute, ...]
) -> FloatArray:
    """Bound the peak from below over every sharding and recomputation, shape (N, 4).

    ``kinds`` are in order of time, which is the reverse order of what they keep.
    """
    one = np.ones((len(shapes), 1), np.int64)
    everything = Shardings(3 * one, one, one.astype(bool))
    parameters = held(job.transformer, shapes, stages)
    states = sum(part[..., 0] for part in state_bytes(job, parameters, shapes, everything))
    kept = activation_bytes(job, shapes, stages, kinds[-1:])[..., 0]
    stack = profile.stack
    allocated = stack.state_factor * states + stack.activation_factor * kept
    allocated = allocated + logits_bytes(job, profile, shapes, stages)
    fixed = stack.context_bytes + stack.communication_bytes
    return np.asarray(stack.allocator * allocated + fixed)
