"""One layer on one GPU: forward, backward and communication times of a micro-batch.

They depend on the tensor, context and expert degrees and the micro-batch alone, so they are worked
out once for each such combination (a core), however many shapes share it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..axes import context, expert, tensor
from ..job.job import Job
from .attention import attention_half
from .communication import exposed_and_total, total_seconds
from .kernels import floored, linear_seconds
from .machine import Machine
from .mlp import dense_mlp, experts
from .shapes import Shapes
from .ticks import FloatArray
from .work import Core, Work

HOST_BACKWARD = 1.5
"""Backward over forward launch time of a layer."""
LOSS_FORWARD = 1 / 3
"""Forward's share of the loss's traffic."""

Times = tuple[FloatArray, FloatArray]
"""(exposed, total) seconds."""


@dataclass(frozen=True)
class Part:
    """Times of a part of a stage for one micro-batch, seconds, arrays of shape (N,).

    Attributes
    ----------
    forward, backward
        Compute, without recomputation.
    attention
        What selective recomputation repeats: the forward of the attention core, unless the
        software's switches name other modules.
    tp, cp, ep
        Communication of an axis, forward; (exposed, total) each.
    weight
        Part of backward that only gives the gradients of weights in matrix products.
    """

    forward: FloatArray
    backward: FloatArray
    attention: FloatArray
    tp: Times
    cp: Times
    ep: Times
    weight: FloatArray

    @property
    def least(self) -> FloatArray:
        """The least of forward, gradients of inputs and gradients of weights."""
        inputs = self.backward - self.weight
        return np.minimum(np.minimum(self.forward, inputs), self.weight)


@dataclass(frozen=True)
class LayerTimes:
    """Times of the parts that stages are made of."""

    dense: Part
    moe: Part
    embedding: Part
    head: Part


def layer_times(job: Job, machine: Machine, cores: Shapes) -> LayerTimes:
    """Work out the parts for each core (degrees ``tp cp ep etp micro_batch`` of ``cores``)."""
    core = Core(job, machine, cores)
    dense, moe = _dense(core), _moe(core)
    return LayerTimes(
        dense, moe, _embedding(core), _head(core, moe if job.transformer.moe else dense)
    )


def _host(core: Core, seconds: float) -> FloatArray:
    """Launch time of a forward: tensor-parallel and latent-attention layers launch more."""
    gpu, stack = core.machine.profile.gpu, core.stack
    latent = stack.host_latent if core.model.mla is not None else 1.0
    return seconds * gpu.host * latent * np.where(core.tp > 1, stack.host_tp, 1.0)


def _launched(core: Core, work: Work, host: float, apart: float | FloatArray = 0.0) -> Work:
    """Hold work to its launch time, then add what neither hides.

    Kernels of one layer and their launches overlap, so the slower of the two sets the pace.
    """
    floor = _host(core, host)
    return Work(
        floored(work.forward, floor) + core.stack.layer_overhead_s + apart,
        floored(work.backward, HOST_BACKWARD * floor) + 2 * (core.stack.layer_overhead_s + apart),
        work.repeated,
        work.weight,
    )


def _dense(core: Core) -> Part:
    """Price a layer with a dense MLP."""
    profile = core.machine.profile
    work = attention_half(core) + dense_mlp(core, core.model.ffn)
    work = _launched(core, work, profile.host_layer_s)
    return _part(core, work, blocks=2, ep=(core.zero, core.zero))


def _moe(core: Core) -> Part:
    """Price a layer with a mixture of experts."""
    moe, profile = core.model.moe, core.machine.profile
    if moe is None:
        return _compute(core, Work(core.zero, core.zero, core.zero, core.zero))
    work = attention_half(core) + experts(core, moe)
    local = moe.experts / core.cores.ep
    apart = profile.expert_overhead_s(core.precision) * local**core.stack.expert_power
    work = _launched(core, work, profile.host_moe_layer_s, apart)
    deduplicated = profile.deduplicated
    dispatch = expert.traffic(core.job, core.cores, core.machine.domain, once=deduplicated)
    exposed, total = exposed_and_total(core.machine, dispatch, profile.ep_exposed)
    sliced = total_seconds(core.machine, expert.sliced_traffic(core.job, core.cores))
    exposed, total = exposed + core.stack.etp_exposed * sliced, total + sliced
    return _part(core, work, blocks=1, ep=(exposed, total))


def _part(core: Core, work: Work, *, blocks: int, ep: Times) -> Part:
    """Add the traffic of tensor and context parallelism."""
    profile = core.machine.profile
    sent = tensor.traffic(core.job, core.cores, blocks=blocks)
    if profile.software.cp_comm == "ring":
        across, waits = context.traffic(core.job, core.cores), core.stack.cp_exposed
    else:  # attention cannot start before the heads are there, nor end before they are back
        across, waits = context.head_traffic(core.job, core.cores, core.machine.domain), 1.0
    return Part(
        work.forward,
        work.backward,
        work.repeated,
        exposed_and_total(core.machine, sent, _tensor_waits(core)),
        exposed_and_total(core.machine, across, waits),
        ep,
        work.weight,
    )


def _tensor_waits(core: Core) -> float:
    """Share of tensor-parallel traffic on the critical path.

    Products with adapters beside them hide none: the adapter needs the gathered input too, and adds
    to the output before it is scattered. NeMo's and Megatron Bridge's recipes for adapters switch
    the overlap off (but for 8-bit products of two ranks in NeMo's).
    """
    finetune = core.job.finetune
    adapted = finetune is not None and finetune.adapts
    return 1.0 if adapted else core.machine.profile.tp_exposed


def _compute(core: Core, work: Work) -> Part:
    """Work without communication."""
    none = (core.zero, core.zero)
    return Part(work.forward, work.backward, work.repeated, none, none, none, work.weight)


def _vocabulary(core: Core) -> FloatArray:
    """Rows of the embedding on a rank, padded as Megatron-LM pads: to 128 a rank."""
    padded = np.ceil(core.model.vocab / (128 * core.tp)) * 128
    return np.asarray(padded, dtype=np.float64)


def _embedding(core: Core) -> Part:
    """Price the input embedding: its gradient is a pass over the table for each micro-batch."""
    table = _vocabulary(core) * core.model.hidden
    finetune = core.job.finetune
    trained = core.trains("embedding") and not (finetune and finetune.frozen_layers)
    backward = core.moved(core.stack.embedding_bytes * table * trained)
    # Its rows are added up inside the backward pass: no product that could wait.
    return _compute(core, Work(core.zero, backward, core.zero, core.zero))


def _head(core: Core, layer: Part) -> Part:
    """Price the output projection and loss, and multi-token-prediction modules with theirs."""
    rows, hidden = _vocabulary(core), np.full_like(core.tp, core.model.hidden)
    forward, backward, weight = linear_seconds(
        core.machine, core.tokens, (rows, hidden), "bf16", trained=core.trains("head")
    )
    loss = core.moved(core.stack.logit_bytes * core.tokens * rows)
    forward, backward = forward + LOSS_FORWARD * loss, backward + (1 - LOSS_FORWARD) * loss
    extra = core.model.mtp_layers
    if not extra:
        return _compute(core, Work(forward, backward, core.zero, weight))
    joined = core.linears([(hidden, 2 * hidden)], trained=core.trains("mlp"))
    return Part(
        forward * (1 + extra) + extra * (layer.forward + joined.forward),
        backward * (1 + extra) + extra * (layer.backward + joined.backward),
        extra * layer.attention,
        (extra * layer.tp[0], extra * layer.tp[1]),
        (extra * layer.cp[0], extra * layer.cp[1]),
        (extra * layer.ep[0], extra * layer.ep[1]),
        weight * (1 + extra) + extra * (layer.weight + joined.weight),
    )
