"""What of memory depends on the software: explicit options, with a default for each stack.

The defaults are data (profiles/memory.yaml); a caller that knows better replaces fields.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from topology.packaged import packaged

Implementation = Literal["fused", "eager", "transformers"]
Metric = Literal["allocated", "reserved", "device"]
"""What a peak counts: tensors, what the allocator holds for them, or all of the card."""

Bytes = Field(ge=0, le=1e12)


class MemoryOptions(BaseModel):
    """Options and constants of the memory model; profiles/memory.yaml says where each comes from.

    Attributes
    ----------
    implementation
        Which intermediate results elementwise kernels keep: fused norms and activations keep their
        inputs, eager PyTorch keeps every operation's, Hugging Face transformers some more.
    gathered_inputs_kept
        Sequence parallelism keeps the gathered inputs of its blocks (PyTorch's DTensor); otherwise
        they are gathered again in backward (Megatron).
    fp8_saved
        With 8-bit and 4-bit recipes, inputs of matrix products are kept in 8 bits.
    late_probabilities
        Routing probabilities are applied to the experts' outputs, which are then kept.
    cp_bytes
        Copies that context parallelism keeps: bytes a token, layer and query unit of a rank.
    stage_bytes
        Buffers that a pipeline engine holds for each micro-batch in flight, bytes a token and
        hidden unit.
    loss_bytes, whole_loss_bytes, loss_hidden_bytes
        Logits and loss: bytes a logit of this rank's share of the vocabulary, a logit of the whole
        vocabulary, and a token and hidden unit.
    fused_loss_bytes
        In place of the first two where the loss never holds all logits.
    compiled, compiled_loss_bytes
        torch.compile fuses elementwise kernels; bytes a logit then.
    owned_bytes
        Beside the recipe's states: bytes a parameter that this rank owns.
    update_moments
        Temporaries of the optimizer step, each as large as one moment (foreach kernels: one).
    gradients_persist
        Gradients live in buffers of their own from step to step (Megatron, DeepSpeed); PyTorch
        frees them. Sharded weights free them everywhere.
    cached_gradients
        One gradient buffer of each distinct weight shape is kept (Transformer Engine with fused
        accumulation).
    weight_copy
        Sharded weights exist in 16 bit beside the master copy (DeepSpeed); otherwise the master
        copy is the weight, and 16-bit values exist only while gathered (PyTorch FSDP).
    experts_sharded
        Experts that are spread by EP are sharded over their data-parallel ranks like other weights.
    reduce_bytes
        Bytes a gradient while it is reduced, sharded weights only.
    gathered_layers
        Layers whose sharded weights are gathered at once.
    bucket_bytes
        Buckets of the engine that shards weights.
    reshard
        Sharded weights are freed after forward.
    root_reshard
        Embedding and head are freed after forward too (PyTorch keeps them unless told).
    pipelined_unsharded
        With pipelines, sharded weights stay gathered, and gradients whole until the last
        micro-batch.
    offloaded_layers
        Layers of a stage whose kept activations live on the host.
    offloaded
        Weights, gradients and optimizer states live on the host.
    allocator
        Reserved over allocated: cached blocks and fragments.
    reclaimed
        Share of that excess which the allocator gives back before it fails.
    reuse
        Memory freed in one phase of a step serves the next one; otherwise gradients and the
        optimizer's temporaries are reserved beside what forward and backward had.
    context_bytes
        CUDA context and libraries.
    communication_bytes
        Buffers of the communication library.
    metric
        What a peak counts where its source doesn't say.
    expected_error
        Mean absolute error of a peak, relative.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    implementation: Implementation
    gathered_inputs_kept: bool
    fp8_saved: bool
    late_probabilities: bool
    cp_bytes: float = Bytes
    stage_bytes: float = Bytes
    loss_bytes: float = Bytes
    whole_loss_bytes: float = Bytes
    loss_hidden_bytes: float = Bytes
    fused_loss_bytes: float = Bytes
    compiled: bool
    compiled_loss_bytes: float = Bytes
    owned_bytes: float = Bytes
    update_moments: float = Field(ge=0, le=16)
    gradients_persist: bool
    cached_gradients: bool
    weight_copy: bool
    experts_sharded: bool
    reduce_bytes: float = Bytes
    gathered_layers: float = Field(ge=1, le=100)
    bucket_bytes: float = Bytes
    reshard: bool
    root_reshard: bool
    pipelined_unsharded: bool
    offloaded_layers: int = Field(ge=0)
    offloaded: bool
    allocator: float = Field(ge=1, le=10)
    reclaimed: float = Field(ge=0, le=1)
    reuse: bool
    context_bytes: float = Bytes
    communication_bytes: float = Bytes
    metric: Metric
    expected_error: float = Field(gt=0, le=1)


@cache
def _read() -> dict[str, Any]:
    text = resources.files("solver.cost").joinpath("profiles", "memory.yaml").read_text("utf-8")
    data: dict[str, Any] = packaged(text)
    return data


def memory_options(stack: str) -> MemoryOptions:
    """Return the options of a stack; those of Megatron-Core for one that has none of its own."""
    data = _read()
    return MemoryOptions(**{**data["shared"], **data["stacks"].get(stack, {})})
