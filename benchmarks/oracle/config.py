"""One configuration of the oracle, read from a row of its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Config:
    """What is measured; columns of the table.

    Attributes
    ----------
    model
        Label.
    hidden, layers, heads, kv_heads, ffn_hidden, vocab, tied_embeddings
        Shape.
    experts, top_k, moe_ffn
        Mixture in every layer; 0 experts for none.
    impl, fused
        ``own`` model with kernels that keep their inputs only (1) or plain operations (0), or
        ``hf``, Hugging Face transformers as shipped.
    ac
        Recomputation: ``none``, ``full``.
    mode
        ``fsdp2`` and ``fsdp2_noreshard``: PyTorch's fully sharded engine; ``rank``: the tensors of
        one rank of Megatron's scheme; ``single``: one GPU, everything in 16 bit.
    world
        Data-parallel (times context-parallel) ranks.
    seq, mbs, microbatches
        Tokens a sequence, sequences a micro-batch, micro-batches a step.
    tp, sp, cp, ep, pp, vpp, stage
        Degrees of ``rank`` and the stage that is measured.
    grad_reduce
        Type of gradients: while they are reduced (fsdp2), or of the main gradients (rank).
    lora_rank, lora_targets, frozen, frozen_layers
        Fine-tuning, for ``single``.
    """

    model: str = "model"
    hidden: int = 1024
    layers: int = 2
    heads: int = 8
    kv_heads: int = 8
    ffn_hidden: int = 4096
    vocab: int = 32000
    tied_embeddings: int = 0
    experts: int = 0
    top_k: int = 0
    moe_ffn: int = 0
    impl: str = "own"
    fused: int = 1
    ac: str = "none"
    mode: str = "fsdp2"
    world: int = 8
    seq: int = 4096
    mbs: int = 1
    microbatches: int = 1
    tp: int = 1
    sp: int = 1
    cp: int = 1
    ep: int = 1
    pp: int = 1
    vpp: int = 1
    stage: int = 0
    grad_reduce: str = "fp32"
    lora_rank: int = 0
    lora_targets: str = "qkv"
    frozen: str = ""
    frozen_layers: int = 0

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.hidden // self.heads

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch on one context rank."""
        return self.mbs * self.seq // self.cp


def config_of(row: Mapping[str, str]) -> Config:
    """Read a row; columns that are empty or absent take their default."""
    values: dict[str, int | str] = {}
    for field in fields(Config):
        text = row.get(field.name) or ""
        if text:
            values[field.name] = int(text) if field.type == "int" else text
    return Config(**values)  # type: ignore[arg-type]
