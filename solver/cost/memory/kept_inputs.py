"""Which inputs of matrix products are kept for the gradient of a weight, and what adapters keep."""

from __future__ import annotations

from dataclasses import dataclass

from ...job.finetune import adapted_attention, adapted_mlp
from ...job.job import Job

RANK_BYTES = 2.0
"""Bytes of a value between an adapter's two matrices: kept for the gradient of the second one."""


@dataclass(frozen=True)
class KeptInputs:
    """What a layer keeps for the gradients of its weights.

    A product hands on the gradient of its input without its input; only the gradient of its weight
    needs it. So a frozen matrix without an adapter keeps nothing of its own.

    Attributes
    ----------
    attention, mlp, experts
        Whether inputs of projections to queries, keys and values, of MLPs, of experts are kept.
    mixture
        Whether what enters a mixture is kept: its router or its experts read it.
    attention_bytes, mlp_bytes, expert_bytes
        What adapters keep, a token (of an expert: a routed token).
    """

    attention: bool = True
    mlp: bool = True
    experts: bool = True
    mixture: bool = True
    attention_bytes: float = 0.0
    mlp_bytes: float = 0.0
    expert_bytes: float = 0.0


def kept_inputs(job: Job) -> KeptInputs:
    """Return what is kept for the weights that a job trains."""
    finetune, model = job.finetune, job.transformer
    if finetune is None:
        return KeptInputs()
    if not finetune.adapts:
        experts = finetune.trains("experts")
        return KeptInputs(
            finetune.trains("attention"),
            finetune.trains("mlp"),
            experts,
            experts or finetune.trains("router"),
        )
    each = RANK_BYTES * (finetune.lora_rank or 0)
    in_attention = each * len(adapted_attention(model, finetune))
    in_mlp = each * len(adapted_mlp(model, finetune, model.ffn))
    return KeptInputs(
        finetune.qkv, finetune.mlp, finetune.mlp, finetune.mlp, in_attention, in_mlp, in_mlp
    )
