"""FLOPs that training takes a token: forward, gradients of inputs, gradients of trained weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .counting import (
    FLOP_PER_MULTIPLY_ADD,
    TRAINING_TO_FORWARD,
    attention_core_flops,
    forward_flops,
    mean_span,
)
from .finetune import blocks

if TYPE_CHECKING:
    from .finetune import Finetune
    from .transformer import Transformer


def training_flops(model: Transformer, seq_len: float, finetune: Finetune | None) -> float:
    """FLOPs of forward and backward per token, causal attention, nothing recomputed.

    Three forward passes where everything is trained. Else a frozen matrix needs no gradient of its
    own, frozen first layers no backward, and a reference model adds a forward pass. ``seq_len`` is
    what attention runs over: the sequence, or a packed document.
    """
    forward = forward_flops(model, seq_len, "causal", None)
    if finetune is None:
        return TRAINING_TO_FORWARD * forward
    matrices, cores = _matrices_and_cores(model, seq_len)
    passed = 1 - min(finetune.frozen_layers, model.layers) / model.layers
    head = FLOP_PER_MULTIPLY_ADD * model.hidden * model.vocab * (1 + model.mtp_layers)
    backward = passed * (matrices - head + 2 * cores) + head
    trained = FLOP_PER_MULTIPLY_ADD * _active(model, finetune)
    # An adapter also runs forward, and hands on the gradient of its input.
    weights = trained * (TRAINING_TO_FORWARD if finetune.adapts else 1)
    return forward * (2 if finetune.reference_model else 1) + backward + weights


def _matrices_and_cores(model: Transformer, seq_len: float) -> tuple[float, float]:
    """FLOPs of forward per token in products with weights, and in the cores of attention."""
    cores = (model.layers - model.window_layers) * attention_core_flops(model, mean_span(seq_len))
    cores += model.window_layers * attention_core_flops(model, mean_span(seq_len, model.window))
    return forward_flops(model, seq_len, "causal", None) - cores, cores


@dataclass(frozen=True, slots=True)
class PassFlops:
    """FLOPs per token of forward, gradients of inputs, and gradients of weights."""

    forward: float
    inputs: float
    weights: float


def pass_flops(model: Transformer, seq_len: float) -> PassFlops:
    """Part the training FLOPs of a whole model, all of it trained, by pass.

    A product takes as much in each; the core of attention has no weights, and its backward takes
    twice its forward, all of it for the gradients of its inputs.
    """
    matrices, cores = _matrices_and_cores(model, seq_len)
    return PassFlops(matrices + cores, matrices + 2 * cores, matrices)


def _active(model: Transformer, finetune: Finetune) -> float:
    """Trained parameters in matrices that one token meets."""
    part, moe = blocks(model, finetune), model.moe
    after = 1 - min(finetune.frozen_layers, model.layers) / model.layers
    mixture = part.router.total + part.shared.total
    mixture += part.expert.total * (moe.top_k if moe else 0)
    dense = model.dense_layers * (part.attention.total + part.mlp.total)
    mixtures = model.moe_layers * (part.attention.total + mixture)
    table = model.vocab * model.hidden * (1 + model.mtp_layers) * part.head
    return after * (dense + mixtures) + table
