"""Peak of one rank under PyTorch's fully sharded engine, measured by its own memory tracker."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    checkpoint_wrapper,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore

from benchmarks.oracle.config import Config
from benchmarks.oracle.kernels import FlashAttention, FusedNorm, FusedRotary, FusedSwiGlu, rotary

Table = tuple[Tensor, Tensor]
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Norm(nn.Module):
    """Root-mean-square norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.hidden))
        self.fused = config.fused

    def forward(self, x: Tensor) -> Tensor:
        """Normalise."""
        if self.fused:
            return FusedNorm.apply(x, self.weight)
        wide = x.float()
        inverse = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return (wide * inverse).to(x.dtype) * self.weight


class Attention(nn.Module):
    """Grouped-query attention."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        hidden, narrow = config.hidden, config.kv_heads * config.head_dim
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.key = nn.Linear(hidden, narrow, bias=False)
        self.value = nn.Linear(hidden, narrow, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: Tensor, table: Table) -> Tensor:
        """Attend."""
        config = self.config
        batch, tokens, _ = x.shape
        query, key, value = (
            layer(x).view(batch, tokens, -1, config.head_dim).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        if config.fused:
            query, key = FusedRotary.apply(query), FusedRotary.apply(key)
        else:
            query, key = rotary(query, table), rotary(key, table)
        if config.cp > 1:
            flat = [t.transpose(1, 2).reshape(batch * tokens, -1) for t in (query, key, value)]
            mixed = FlashAttention.apply(*flat, config.heads, config.cp).view(batch, tokens, -1)
            return self.out(mixed)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True
        )
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, -1))


class Mlp(nn.Module):
    """Gated MLP."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.fused = config.fused
        self.gate = nn.Linear(config.hidden, config.ffn_hidden, bias=False)
        self.up = nn.Linear(config.hidden, config.ffn_hidden, bias=False)
        self.down = nn.Linear(config.ffn_hidden, config.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Transform."""
        gate, up = self.gate(x), self.up(x)
        return self.down(FusedSwiGlu.apply(gate, up) if self.fused else functional.silu(gate) * up)


class Mixture(nn.Module):
    """Mixture of gated experts, every one with the same number of tokens."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        # Two dimensions, so that ranks beyond the number of experts have a share of the rows.
        shape = (config.experts * config.hidden, config.moe_ffn)
        self.router = nn.Linear(config.hidden, config.experts, bias=False)
        self.gate = nn.Parameter(torch.empty(shape))
        self.up = nn.Parameter(torch.empty(shape))
        self.down = nn.Parameter(torch.empty((config.experts * config.moe_ffn, config.hidden)))

    def forward(self, x: Tensor) -> Tensor:
        """Route, transform, and add up."""
        config = self.config
        flat = x.flatten(0, 1)
        scores = functional.softmax(self.router(flat), dim=-1, dtype=torch.float32)
        weights, chosen = scores.topk(config.top_k, dim=-1)
        order = chosen.flatten()
        rows = flat.repeat_interleave(config.top_k, 0)[order]
        rows = rows.view(config.experts, -1, config.hidden)
        gate, up = (w.view(config.experts, config.hidden, -1) for w in (self.gate, self.up))
        inner = FusedSwiGlu.apply(torch.bmm(rows, gate), torch.bmm(rows, up))
        scale = weights.flatten()[order].to(x.dtype).view(config.experts, -1, 1)
        down = self.down.view(config.experts, config.moe_ffn, -1)
        out = torch.bmm(Scaled.apply(inner, scale), down).flatten(0, 1)
        return out[order].view(-1, config.top_k, config.hidden).sum(1).view_as(x)


class Scaled(torch.autograd.Function):
    """Product with routing probabilities, fused with the activation: its input is restored."""

    @staticmethod
    def forward(ctx: Any, inner: Tensor, scale: Tensor) -> Tensor:
        """Scale in place."""
        ctx.save_for_backward(scale)
        ctx.mark_dirty(inner)
        return inner.mul_(scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of both."""
        (scale,) = ctx.saved_tensors
        return grad * scale, torch.empty_like(scale)


class Block(nn.Module):
    """One layer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.before, self.between = Norm(config), Norm(config)
        self.attention = Attention(config)
        self.mlp = Mixture(config) if config.experts else Mlp(config)

    def forward(self, x: Tensor, table: Table) -> Tensor:
        """Run both halves."""
        x = x + self.attention(self.before(x), table)
        return x + self.mlp(self.between(x))


class Model(nn.Module):
    """Decoder of the Llama kind."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocab, config.hidden)
        self.layers = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.norm = Norm(config)
        self.head = nn.Linear(config.hidden, config.vocab, bias=False)
        if config.tied_embeddings:
            self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor, table: Table) -> Tensor:
        """Return logits."""
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, table)
        return self.head(self.norm(x))


def hugging_face(config: Config) -> nn.Module:
    """Build the same shape from Hugging Face transformers."""
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415 - needed by few rows

    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=config.hidden,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            intermediate_size=config.ffn_hidden,
            vocab_size=config.vocab,
            tie_word_embeddings=bool(config.tied_embeddings),
            max_position_embeddings=config.seq,
            attn_implementation="sdpa",
            use_cache=False,
        )
    )


def measure(config: Config) -> int:
    """Return the peak of a training step, bytes: tensors of one rank, with inputs.

    An untracked step comes first, so that optimizer states exist. Of several micro-batches the
    last is tracked: sharded gradients of the others exist by then.
    """
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=config.world)
    mesh = init_device_mesh("cpu", (config.world,))
    with FakeTensorMode(allow_non_fake_inputs=True):
        shipped = config.impl == "hf"
        model = hugging_face(config) if shipped else Model(config)
        layers = model.model.layers if shipped else model.layers
        if config.ac == "full":
            for index, layer in enumerate(layers):
                layers[index] = checkpoint_wrapper(
                    layer, checkpoint_impl=CheckpointImpl.NO_REENTRANT
                )
        policy = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16, reduce_dtype=TYPES[config.grad_reduce]
        )
        reshard = config.mode == "fsdp2"
        for part in (*layers, model):
            fully_shard(part, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
        shape = (config.mbs, config.seq // config.cp)
        ids, labels = torch.randint(0, config.vocab, shape), torch.randint(0, config.vocab, shape)
        width = config.head_dim
        table = tuple(torch.zeros(config.seq, width, dtype=torch.bfloat16) for _ in range(2))

        def micro_batch() -> None:
            out = model(ids).logits if shipped else model(ids, table)
            loss = functional.cross_entropy(out.flatten(0, 1).float(), labels.flatten())
            del out
            loss.backward()

        micro_batch()
        optimizer.step()
        optimizer.zero_grad()
        for _ in range(config.microbatches - 1):
            micro_batch()
        tracker = FSDPMemTracker(model, optimizer)
        tracker.track_inputs((ids, labels, *table))
        with tracker:
            micro_batch()
            optimizer.step()
            optimizer.zero_grad()
        peak = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]
        return int(peak["Total"])
