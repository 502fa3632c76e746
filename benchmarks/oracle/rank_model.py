"""Layers of one rank of Megatron's scheme: tensor, sequence, context and expert parallel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from benchmarks.oracle.config import Config
from benchmarks.oracle.kernels import FlashAttention, FusedNorm, FusedRotary
from benchmarks.oracle.rank_kernels import (
    AllToAll,
    Balanced,
    ColumnLinear,
    PackedSwiGlu,
    Permuted,
    Restored,
    RowLinear,
    ScaledSwiGlu,
    SplitCrossEntropy,
    scattered,
)

HALF = torch.bfloat16


def sequence_ranks(config: Config) -> int:
    """Ranks that a sequence is split over outside attention and MLP."""
    return config.tp if config.sp else 1


class Rank(nn.Module):
    """Layers of one stage, or one virtual stage of it, as one rank holds them."""

    def __init__(self, config: Config, layers: int, first: bool, last: bool) -> None:
        super().__init__()
        self.config, self.first, self.last = config, first, last
        rows = -(-config.vocab // (128 * config.tp)) * 128
        if first:
            self.embedding = self._weight(rows, config.hidden)
        self.layers = nn.ModuleList([Layer(config) for _ in range(layers)])
        if last:
            self.norm = nn.Parameter(torch.empty(config.hidden, dtype=HALF))
            self.head = self._weight(rows, config.hidden)

    @staticmethod
    def _weight(rows: int, columns: int) -> nn.Parameter:
        return nn.Parameter(torch.empty(rows, columns, dtype=HALF))

    def forward(self, x: Tensor) -> Tensor:
        """Run the layers; the last stage returns a loss."""
        ranks = sequence_ranks(self.config)
        if self.first:
            x = functional.embedding(x, self.embedding)
            x = scattered(x, ranks)
        for layer in self.layers:
            again = self.config.ac == "full"
            x = checkpoint(layer, x, use_reentrant=False) if again else layer(x)
        if not self.last:
            return x
        normal = FusedNorm.apply(x, self.norm)
        del x
        logits = ColumnLinear.apply(normal, self.head, ranks)
        del normal
        return SplitCrossEntropy.apply(logits)


class Layer(nn.Module):
    """One layer on one tensor rank."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        hidden, tp = config.hidden, config.tp
        self.narrow = max(config.kv_heads // tp, 1) * config.head_dim
        weight = Rank._weight
        self.before, self.between = (
            nn.Parameter(torch.empty(hidden, dtype=HALF)) for _ in range(2)
        )
        self.projections = weight(hidden // tp + 2 * self.narrow, hidden)
        self.out = weight(hidden, hidden // tp)
        if config.experts:
            self.router = weight(config.experts, hidden)
            local, width = config.experts // config.ep, config.moe_ffn
            self.up = nn.ParameterList([weight(2 * width, hidden) for _ in range(local)])
            self.down = nn.ParameterList([weight(hidden, width) for _ in range(local)])
        else:
            self.up = weight(2 * config.ffn_hidden // tp, hidden)
            self.down = weight(hidden, config.ffn_hidden // tp)

    def forward(self, x: Tensor) -> Tensor:
        """Run both halves."""
        x = x + self._attention(FusedNorm.apply(x, self.before))
        normal = FusedNorm.apply(x, self.between)
        return x + (self._mixture(normal) if self.config.experts else self._mlp(normal))

    def _attention(self, x: Tensor) -> Tensor:
        config, ranks = self.config, sequence_ranks(self.config)
        mixed = ColumnLinear.apply(x, self.projections, ranks)
        del x
        widths = [config.hidden // config.tp, self.narrow, self.narrow]
        query, key, value = mixed.split(widths, dim=-1)
        query, key = FusedRotary.apply(query), FusedRotary.apply(key)
        value = value.contiguous()
        del mixed
        heads = config.heads // config.tp
        return RowLinear.apply(
            FlashAttention.apply(query, key, value, heads, config.cp), self.out, ranks
        )

    def _mlp(self, x: Tensor) -> Tensor:
        ranks = sequence_ranks(self.config)
        wide = ColumnLinear.apply(x, self.up, ranks)
        del x
        return RowLinear.apply(PackedSwiGlu.apply(wide), self.down, ranks)

    def _mixture(self, x: Tensor) -> Tensor:
        """Route, exchange, transform, exchange back, add up; every expert gets the same share."""
        config = self.config
        logits = ColumnLinear.apply(x, self.router, 1).float()
        weights, chosen = functional.softmax(logits, dim=-1).topk(config.top_k, dim=-1)
        routed = torch.zeros_like(logits, dtype=torch.bool).scatter(1, chosen, True)
        balance = (functional.softmax(logits, dim=-1) * routed).mean()
        del logits
        weights = Balanced.apply(weights, balance)
        order = chosen.flatten()
        rows = AllToAll.apply(Permuted.apply(x, order, config.top_k))
        scale = weights.flatten()[order]
        inner = _grouped(ColumnLinear, rows, self.up)
        del rows
        acted = ScaledSwiGlu.apply(inner, scale)
        del inner
        out = _grouped(RowLinear, acted, self.down)
        del acted
        return Restored.apply(AllToAll.apply(out), order, config.top_k)


def _grouped(product: Any, rows: Tensor, weights: nn.ParameterList) -> Tensor:
    """Multiply each expert's rows with its matrix, into one tensor."""
    parts = zip(rows.chunk(len(weights)), weights, strict=True)
    return torch.cat([product.apply(part, weight, 1) for part, weight in parts])
