"""Stand-ins for fused kernels: each keeps for backward what the kernel keeps, and nothing more."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


class FusedNorm(torch.autograd.Function):
    """Root-mean-square norm that keeps its input and the inverse deviation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        """Normalise in fp32."""
        inverse = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)
        ctx.save_for_backward(x, weight, inverse)
        return (x * inverse.to(x.dtype)) * weight

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of input and weight."""
        x, weight, inverse = ctx.saved_tensors
        scale = inverse.to(x.dtype)
        normal = x * scale
        grad_weight = (grad * normal).flatten(0, -2).sum(0)
        inner = grad * weight
        along = (inner * normal).mean(-1, keepdim=True)
        return (inner - normal * along) * scale, grad_weight


class FusedSwiGlu(torch.autograd.Function):
    """Gated activation that keeps its two inputs."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        """Silu of the gate times the other branch."""
        ctx.save_for_backward(gate, up)
        return functional.silu(gate) * up

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of both branches."""
        gate, up = ctx.saved_tensors
        open_ = torch.sigmoid(gate)
        return grad * up * open_ * (1 + gate * (1 - open_)), grad * gate * open_


class FusedRotary(torch.autograd.Function):
    """Rotary positions: backward rotates back, nothing is kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Rotate into a new tensor."""
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Rotate back."""
        return grad.clone()


def rotary(x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary positions by plain operations."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * table[0] + turned * table[1]


class FlashAttention(torch.autograd.Function):
    """Attention that keeps query, key, value, output and a statistic; (tokens, heads · width).

    With context parallelism, keys and values of another rank come through two buffers at a time
    (a ring), forward and backward, and their gradients go with them.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, heads: int, ranks: int
    ) -> Tensor:
        """Allocate the output, and what moves round the ring."""
        out = torch.empty_like(query)
        statistic = query.new_empty((query.shape[0], heads), dtype=torch.float32)
        ring = [torch.empty_like(t) for t in (key, value)] if ranks > 1 else []
        ctx.save_for_backward(query, key, value, out, statistic)
        ctx.ranks = ranks
        del ring
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        """Allocate the gradients."""
        query, key, value, _, _ = ctx.saved_tensors
        ring = [torch.empty_like(t) for t in (key, value, key, value)] if ctx.ranks > 1 else []
        found = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
        del ring
        return *found, None, None
