"""The MLP half of a layer: dense, shared experts, routed experts."""

from __future__ import annotations

import numpy as np

from ..job.finetune import FrozenPart, adapted_mlp
from ..job.transformer import Moe
from .attention import BACKWARD_ELEMENTWISE, OPERATOR_SHARE
from .kernels import linear_seconds
from .ticks import FloatArray
from .work import Core, Work

GATED_TRAFFIC, PLAIN_TRAFFIC = 3, 2
"""Tensors of FFN width that the activation function moves, gated and not."""


def dense_mlp(core: Core, ffn: float, module: str = "mlp") -> Work:
    """Price an MLP of intermediate width ``ffn``; ``module`` is its name in recomputation."""
    model, tp = core.model, core.tp
    hidden = np.full_like(tp, model.hidden)
    wide = ffn * (2 if model.gated else 1) / tp
    part: FrozenPart = "experts" if module == "moe" else "mlp"
    linears = core.linears([(wide, hidden), (hidden, ffn / tp)], trained=core.trains(part))
    linears = linears + core.adapters(adapted_mlp(model, core.job.finetune, ffn))
    tensors = GATED_TRAFFIC if model.gated else PLAIN_TRAFFIC
    activation = core.moved(2 * core.tokens * tensors * ffn / tp * core.stack.elementwise)
    cast = core.cast(core.tokens * (model.hidden + ffn / tp))
    cast_back = core.cast(core.tokens * (model.hidden + wide))
    forward = linears.forward + activation + cast
    repeated = core.zero
    if core.repeats(module):
        repeated = forward
    elif core.repeats("operators"):
        repeated = OPERATOR_SHARE * linears.forward + activation + cast
    return Work(
        forward,
        linears.backward + BACKWARD_ELEMENTWISE * activation + cast_back,
        repeated,
        linears.weight,
    )


def experts(core: Core, moe: Moe) -> Work:
    """Price the routed experts that a rank holds, with permutation, and its shared experts.

    Grouped products: each expert has its share of the rows, and loses rate like a product of so
    few rows (profiles/stacks.yaml, grouped_…).
    """
    model, stack, tp = core.model, core.stack, core.tp
    etp = core.cores.etp.astype(np.float64)
    local = moe.experts / core.cores.ep
    rows = core.tokens / tp * moe.top_k * etp * core.job.routed
    width = moe.ffn / etp
    wide = width * (2 if model.gated else 1)
    hidden = np.full_like(rows, model.hidden)
    slow = (1 + stack.grouped_half_rows / np.maximum(rows / local, 1.0)) / stack.grouped_efficiency
    trained = core.trains("experts")
    up = linear_seconds(core.machine, rows, (wide, hidden), core.precision, trained=trained)
    down = linear_seconds(core.machine, rows, (hidden, width), core.precision, trained=trained)
    permute = core.moved(stack.routed_bytes * rows * model.hidden)
    bias = stack.expert_bias_bytes if model.mlp_bias else 0.0
    activation = core.moved((stack.expert_activation_bytes * 2 + bias) * rows * width)
    held = local * (wide + width) * model.hidden
    weights = core.moved((core.job.recipe.grad_bytes if trained else core.restored_bytes) * held)
    restored = core.moved((0.0 if trained else core.restored_bytes) * held)
    cast = core.cast(rows * (model.hidden + width))
    thin = _expert_adapters(core, moe, rows)
    forward = slow * (up[0] + down[0]) + permute + activation + cast + restored + thin.forward
    if core.repeats("moe"):
        repeated = forward
    else:
        repeated = activation if core.repeats("moe_act") else core.zero
    routed = Work(
        forward,
        slow * (up[1] + down[1])
        + BACKWARD_ELEMENTWISE * (permute + activation)
        + weights
        + cast
        + thin.backward,
        repeated,
        slow * (up[2] + down[2]) + weights * trained + thin.weight,
    )
    return routed + dense_mlp(core, moe.shared_ffn, "moe") if moe.shared_ffn else routed


def _expert_adapters(core: Core, moe: Moe, rows: FloatArray) -> Work:
    """Adapters of the routed experts, over the rows of a rank."""
    finetune = core.job.finetune
    total = Work(core.zero, core.zero, core.zero, core.zero)
    for linear in adapted_mlp(core.model, finetune, moe.ffn):
        rank = np.full_like(rows, (finetune.lora_rank or 0) if finetune else 0)
        for shape in (
            (rank, np.full_like(rows, linear.inputs)),
            (np.full_like(rows, linear.outputs), rank),
        ):
            times = linear_seconds(core.machine, rows, shape, core.precision)
            total = total + Work(times[0], times[1], core.zero, times[2])
    return total
