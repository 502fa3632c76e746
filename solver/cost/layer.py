"""One layer on one GPU: forward, backward and communication times of a micro-batch.

They depend on the tensor, context and expert degrees and the micro-batch alone, so they are worked
out once for each such combination (a core), however many shapes share it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..axes import context, expert, tensor
from ..axes.base import Traffic
from ..job.job import Job
from ..job.transformer import Transformer
from .communication import exposed_and_total
from .kernels import (
    BACKWARD_ATTENTION,
    QUANTISE_BYTES,
    flash_attention_seconds,
    floored,
    linear_seconds,
    pass_seconds,
    unfused_attention_seconds,
)
from .machine import Machine
from .shapes import Shapes
from .ticks import FloatArray

GATED_TRAFFIC, PLAIN_TRAFFIC = 3, 2
"""Tensors of FFN width that the activation function moves, gated and not."""
BLOCK_TRAFFIC = 10
"""Tensors of hidden width that norms, residuals and dropouts of a layer move, forward."""
ROPE_TRAFFIC = 4
"""Tensors of query and key width that rotary embedding moves, forward."""
BACKWARD_ELEMENTWISE = 2.0
"""Backward over forward traffic of elementwise kernels."""
HOST_BACKWARD = 1.5
"""Backward over forward launch time of a layer."""
ROUTED_TRAFFIC = 10.0
"""Bytes that permuting moves a routed element, there and back (fitted)."""
EXPERT_ACTIVATION_TRAFFIC = 8.0
"""Bytes that the experts' activation moves an intermediate element, forward (fitted)."""
GROUPED_EFFICIENCY, GROUPED_HALF_ROWS = 0.8, 58.0
"""Grouped products of the experts: share of the plain rate, rows an expert at half rate."""
LOSS_TRAFFIC = 20.0
"""Bytes that logits and loss move an element of tokens × vocabulary (fitted)."""
EMBEDDING_TRAFFIC = 12.0
"""Bytes that the embedding's gradient moves a parameter and micro-batch (fitted)."""
EMBEDDING_PARTS = 3


@dataclass(frozen=True)
class Part:
    """Times of a part of a stage for one micro-batch, seconds, arrays of shape (N,).

    Attributes
    ----------
    forward, backward
        Compute, without recomputation.
    attention
        Forward of the attention core alone: what selective recomputation repeats.
    tp, cp, ep
        Communication of an axis, forward; (exposed, total) each.
    """

    forward: FloatArray
    backward: FloatArray
    attention: FloatArray
    tp: tuple[FloatArray, FloatArray]
    cp: tuple[FloatArray, FloatArray]
    ep: tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class LayerTimes:
    """Times of the parts that stages are made of."""

    dense: Part
    moe: Part
    embedding: Part
    head: Part


def layer_times(job: Job, machine: Machine, cores: Shapes) -> LayerTimes:
    """Work out the parts for each core (degrees ``tp cp ep etp micro_batch`` of ``cores``)."""
    times = _Layers(job, machine, cores)
    return LayerTimes(times.dense(), times.moe(), times.embedding(), times.head())


class _Layers:
    """The arithmetic of one set of cores; every array has shape (N,)."""

    def __init__(self, job: Job, machine: Machine, cores: Shapes) -> None:
        self.job, self.machine, self.cores = job, machine, cores
        self.model: Transformer = job.transformer
        self.precision = job.recipe.precision
        self.tp = cores.tp.astype(np.float64)
        self.cp = cores.cp.astype(np.float64)
        self.tokens = cores.micro_batch * job.seq_len / self.cp
        """Tokens of a micro-batch on one context rank."""
        self.zero = np.zeros(len(cores))

    def _linears(self, shapes: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
        forward, backward = self.zero, self.zero
        for shape in shapes:
            ahead, back = linear_seconds(self.machine, self.tokens, shape, self.precision)
            accumulate = pass_seconds(
                self.machine, self.job.recipe.grad_bytes * shape[0] * shape[1]
            )
            forward, backward = forward + ahead, backward + back + accumulate
        return forward, backward

    def _quantise(self, elements: float | FloatArray) -> FloatArray:
        return pass_seconds(
            self.machine, QUANTISE_BYTES[self.precision] * self.tokens * np.asarray(elements)
        )

    def _attention_linears(self) -> list[tuple[FloatArray, FloatArray]]:
        model, tp, full = self.model, self.tp, np.ones_like(self.tp)
        hidden = full * model.hidden
        out = (hidden, model.value_width / tp)
        if model.mla is None:
            key_value = 2 * np.maximum(model.kv_heads / tp, 1.0) * model.head_dim
            return [(model.query_width / tp + key_value, hidden), out]
        mla = model.mla
        down = full * (mla.kv_lora_rank + mla.qk_rope_head_dim)
        up = model.heads * (mla.qk_nope_head_dim + mla.v_head_dim) / tp
        latent = [(down, hidden), (up, full * mla.kv_lora_rank), out]
        if mla.q_lora_rank is None:
            return [(model.query_width / tp, hidden), *latent]
        rank = full * mla.q_lora_rank
        return [(rank, hidden), (model.query_width / tp, rank), *latent]

    def _attention_core(self) -> FloatArray:
        """Forward of scores and context, all heads of a rank."""
        model, job = self.model, self.job
        span = mean_span(model, job.seq_len)
        width = (model.query_width + model.value_width) / self.tp
        flops = 2 * self.tokens * span * width
        if job.attention == "unfused":
            scores = self.tokens * job.seq_len * model.heads / self.tp
            return unfused_attention_seconds(self.machine, flops, scores)
        width_a_head = (model.query_width + model.value_width) // (2 * model.heads)
        return flash_attention_seconds(
            self.machine, flops, float(job.seq_len), self.cp, width_a_head
        )

    def _block_traffic(self) -> FloatArray:
        """Bytes of norms, residuals and rotary embedding, forward."""
        model = self.model
        rope = 0.0 if model.learned_positions or model.alibi else ROPE_TRAFFIC
        widths = BLOCK_TRAFFIC * model.hidden / self.tp + rope * (
            model.query_width + model.kv_heads * model.head_dim
        ) / self.tp
        return 2 * self.tokens * widths * self.machine.profile.stack.elementwise

    def _attention_half(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Forward, backward of everything but the MLP, and the attention core's forward."""
        model = self.model
        forward, backward = self._linears(self._attention_linears())
        core = self._attention_core()
        block = pass_seconds(self.machine, self._block_traffic())
        cast = self._quantise((model.hidden + model.query_width / self.tp))
        ratio = BACKWARD_ATTENTION if self.job.attention == "flash" else 2.0
        return (
            forward + core + block + cast,
            backward + ratio * core + BACKWARD_ELEMENTWISE * block + cast,
            core,
        )

    def _mlp(self, ffn: float) -> tuple[FloatArray, FloatArray]:
        """Forward and backward of a dense MLP of intermediate width ``ffn``."""
        model, tp = self.model, self.tp
        hidden = np.full_like(tp, model.hidden)
        wide = ffn * (2 if model.gated else 1) / tp
        forward, backward = self._linears([(wide, hidden), (hidden, ffn / tp)])
        width = GATED_TRAFFIC if model.gated else PLAIN_TRAFFIC
        activation = pass_seconds(
            self.machine,
            2 * self.tokens * width * ffn / tp * self.machine.profile.stack.elementwise,
        )
        cast = self._quantise(model.hidden + ffn / tp)
        cast_back = self._quantise(model.hidden + wide)
        return (
            forward + activation + cast,
            backward + BACKWARD_ELEMENTWISE * activation + cast_back,
        )

    def dense(self) -> Part:
        """A layer with a dense MLP."""
        stack = self.machine.profile.stack
        forward, backward, core = self._attention_half()
        mlp_forward, mlp_backward = self._mlp(self.model.ffn)
        host = stack.host_layer_s
        return Part(
            floored(forward + mlp_forward, host) + stack.layer_overhead_s,
            floored(backward + mlp_backward, HOST_BACKWARD * host) + 2 * stack.layer_overhead_s,
            core,
            self._priced(tensor.traffic(self.job, self.cores, blocks=2), stack.tp_exposed),
            self._priced(context.traffic(self.job, self.cores), stack.cp_exposed),
            (self.zero, self.zero),
        )

    def moe(self) -> Part:
        """A layer with a mixture of experts."""
        moe = self.model.moe
        if moe is None:
            return self._nothing()
        stack = self.machine.profile.stack
        forward, backward, core = self._attention_half()
        routed_forward, routed_backward = self._experts()
        if moe.shared_ffn:
            shared_forward, shared_backward = self._mlp(moe.shared_ffn)
            routed_forward, routed_backward = (
                routed_forward + shared_forward,
                routed_backward + shared_backward,
            )
        local = moe.experts / self.cores.ep
        apart = stack.expert_overhead_s * local**stack.expert_power
        host = stack.host_moe_layer_s
        return Part(
            floored(forward + routed_forward, host) + stack.layer_overhead_s + apart,
            floored(backward + routed_backward, HOST_BACKWARD * host)
            + 2 * (stack.layer_overhead_s + apart),
            core,
            self._priced(tensor.traffic(self.job, self.cores, blocks=1), stack.tp_exposed),
            self._priced(context.traffic(self.job, self.cores), stack.cp_exposed),
            self._priced(self._dispatch(), stack.ep_exposed),
        )

    def _experts(self) -> tuple[FloatArray, FloatArray]:
        """Forward and backward of the routed experts that a rank holds."""
        moe, model = self.model.moe, self.model
        assert moe is not None
        etp = self.cores.etp.astype(np.float64)
        local = moe.experts / self.cores.ep
        rows = self.tokens / self.tp * moe.top_k * etp
        width = moe.ffn / etp
        wide = width * (2 if model.gated else 1)
        rows_each = np.maximum(rows / local, 1.0)
        hidden = np.full_like(rows, model.hidden)
        slow = (1 + GROUPED_HALF_ROWS / rows_each) / GROUPED_EFFICIENCY
        up = linear_seconds(self.machine, rows, (wide, hidden), self.precision)
        down = linear_seconds(self.machine, rows, (hidden, width), self.precision)
        permute = pass_seconds(self.machine, ROUTED_TRAFFIC * rows * model.hidden)
        activation = pass_seconds(self.machine, EXPERT_ACTIVATION_TRAFFIC * rows * 2 * width)
        held = local * (wide + width) * model.hidden
        weights = pass_seconds(self.machine, (2 * self.job.recipe.grad_bytes + 4) * held)
        cast = pass_seconds(
            self.machine, QUANTISE_BYTES[self.precision] * rows * (model.hidden + width)
        )
        elementwise = permute + activation
        return (
            slow * (up[0] + down[0]) + elementwise + cast,
            slow * (up[1] + down[1]) + BACKWARD_ELEMENTWISE * elementwise + weights + cast,
        )

    def _priced(self, traffic: Traffic, exposed: float) -> tuple[FloatArray, FloatArray]:
        return exposed_and_total(self.machine, traffic, exposed)

    def _dispatch(self) -> Traffic:
        return expert.traffic(
            self.job, self.cores, self.machine.domain, once=self.machine.profile.stack.ep_dedup
        )

    def _nothing(self) -> Part:
        none = (self.zero, self.zero)
        return Part(self.zero, self.zero, self.zero, none, none, none)

    def _vocabulary(self) -> FloatArray:
        """Rows of the embedding on a rank, padded as Megatron-LM pads: to 128 a rank."""
        padded = np.ceil(self.model.vocab / (128 * self.tp)) * 128
        return np.asarray(padded, dtype=np.float64)

    def embedding(self) -> Part:
        """The input embedding: its gradient is a pass over the table for each micro-batch."""
        nothing = self._nothing()
        table = self._vocabulary() * self.model.hidden
        backward = pass_seconds(self.machine, EMBEDDING_TRAFFIC * table)
        return Part(self.zero, backward, self.zero, nothing.tp, nothing.cp, nothing.ep)

    def head(self) -> Part:
        """The output projection and loss, and multi-token-prediction modules with theirs."""
        nothing, rows = self._nothing(), self._vocabulary()
        hidden = np.full_like(rows, self.model.hidden)
        forward, backward = linear_seconds(self.machine, self.tokens, (rows, hidden), "bf16")
        loss = pass_seconds(self.machine, LOSS_TRAFFIC * self.tokens * rows)
        forward, backward = forward + loss / EMBEDDING_PARTS, backward + 2 * loss / EMBEDDING_PARTS
        extra = self.model.mtp_layers
        if not extra:
            return Part(forward, backward, self.zero, nothing.tp, nothing.cp, nothing.ep)
        block = self.moe() if self.model.moe else self.dense()
        joined, joined_back = self._linears([(hidden, 2 * hidden)])
        return Part(
            forward * (1 + extra) + extra * (block.forward + joined),
            backward * (1 + extra) + extra * (block.backward + joined_back),
            extra * block.attention,
            (extra * block.tp[0], extra * block.tp[1]),
            (extra * block.cp[0], extra * block.cp[1]),
            (extra * block.ep[0], extra * block.ep[1]),
        )


def mean_span(model: Transformer, seq_len: int) -> float:
    """Mean keys that a query sees over all layers: half the sequence, or the window if shorter."""
    causal = seq_len / 2
    if model.window is None or not model.window_layers:
        return causal
    windowed = min(causal, float(model.window))
    share = model.window_layers / model.layers
    return share * windowed + (1 - share) * causal
