"""Peak of one rank of Megatron's scheme: tensor, sequence, context, expert and pipeline parallel.

The rank's own tensors run through PyTorch's autograd, and every live storage is counted. Fused
kernels and collectives are stand-ins that allocate what theirs allocate. What is tested: what
autograd keeps, what recomputation drops, the order of passes in a pipeline, and static states. What
is not: the kernels' own workspaces, the caching allocator, communication buffers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from benchmarks.oracle.config import Config
from benchmarks.oracle.kernels import FlashAttention, FusedNorm, FusedRotary
from benchmarks.oracle.tracker import AllocationMode

Tensor = torch.Tensor
HALF = torch.bfloat16
OPTIMIZER_VALUES = 3
"""fp32 values a parameter in the optimizer: master weight and two moments."""


def sequence_ranks(config: Config) -> int:
    """Ranks that a sequence is split over outside attention and MLP."""
    return config.tp if config.sp else 1


class ColumnLinear(torch.autograd.Function):
    """Product with a matrix of which this rank has some outputs; the input is gathered first.

    The gathered input is not kept but gathered again in backward. The weight's gradient is added
    to the main gradient inside the product, so that nothing is allocated for it.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, ranks: int) -> Tensor:
        """Gather and multiply."""
        ctx.save_for_backward(x, weight)
        ctx.ranks = ranks
        return functional.linear(_gathered(x, ranks), weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Gather again, multiply, scatter."""
        x, weight = ctx.saved_tensors
        again = _gathered(x, ctx.ranks)
        whole = grad @ weight
        del again
        return _scattered(whole, ctx.ranks), None, None


class RowLinear(torch.autograd.Function):
    """Product with a matrix of which this rank has some inputs; the sum is scattered."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, ranks: int) -> Tensor:
        """Multiply and scatter."""
        ctx.save_for_backward(x, weight)
        ctx.ranks = ranks
        return _scattered(functional.linear(x, weight), ranks)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Gather and multiply."""
        _, weight = ctx.saved_tensors
        return _gathered(grad, ctx.ranks) @ weight, None, None


def _gathered(x: Tensor, ranks: int) -> Tensor:
    return x.new_empty((x.shape[0] * ranks, *x.shape[1:])) if ranks > 1 else x


def _scattered(x: Tensor, ranks: int) -> Tensor:
    return x.new_empty((x.shape[0] // ranks, *x.shape[1:])) if ranks > 1 else x


class AllToAll(torch.autograd.Function):
    """Exchange of rows between ranks, as many out as in."""

    @staticmethod
    def forward(_ctx: Any, x: Tensor) -> Tensor:
        """Receive."""
        return torch.empty_like(x)

    @staticmethod
    def backward(_ctx: Any, grad: Tensor) -> Tensor:
        """Receive."""
        return torch.empty_like(grad)


class SplitCrossEntropy(torch.autograd.Function):
    """Cross-entropy over a vocabulary that is split: fp32 probabilities, changed in place."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        """Keep the probabilities."""
        wide = logits.float()
        ctx.save_for_backward(wide)
        return wide.new_empty(())

    @staticmethod
    def backward(ctx: Any, _grad: Tensor) -> Tensor:
        """Turn the probabilities into the gradient."""
        (wide,) = ctx.saved_tensors
        return wide.to(HALF)


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
            x = _scattered(x, ranks)
        for layer in self.layers:
            if self.config.ac == "full":
                x = checkpoint(layer, x, use_reentrant=False)
            else:
                x = layer(x)
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
        scores = functional.softmax(functional.linear(x, self.router.detach()).float(), dim=-1)
        weights, chosen = scores.topk(config.top_k, dim=-1)
        order = chosen.flatten()
        rows = AllToAll.apply(Permuted.apply(x, order, config.top_k))
        scale = weights.flatten()[order]
        parts = rows.chunk(len(self.up))
        inner = torch.cat(
            [ColumnLinear.apply(p, w, 1) for p, w in zip(parts, self.up, strict=True)]
        )
        del parts, rows
        acted = ScaledSwiGlu.apply(inner, scale)
        del inner
        parts = acted.chunk(len(self.down))
        out = torch.cat([RowLinear.apply(p, w, 1) for p, w in zip(parts, self.down, strict=True)])
        del parts, acted
        return Restored.apply(AllToAll.apply(out), order, config.top_k)


class PackedSwiGlu(torch.autograd.Function):
    """Gated activation of one tensor with both branches."""

    @staticmethod
    def forward(ctx: Any, wide: Tensor) -> Tensor:
        """Keep the input."""
        ctx.save_for_backward(wide)
        return wide.new_empty((wide.shape[0], wide.shape[1] // 2))

    @staticmethod
    def backward(ctx: Any, _grad: Tensor) -> Tensor:
        """Gradient of both branches."""
        return torch.empty_like(ctx.saved_tensors[0])


class ScaledSwiGlu(torch.autograd.Function):
    """The same, times a routing probability, before the second product."""

    @staticmethod
    def forward(ctx: Any, wide: Tensor, scale: Tensor) -> Tensor:
        """Keep the inputs."""
        ctx.save_for_backward(wide, scale)
        return wide.new_empty((wide.shape[0], wide.shape[1] // 2))

    @staticmethod
    def backward(ctx: Any, _grad: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of both."""
        return tuple(torch.empty_like(t) for t in ctx.saved_tensors)  # type: ignore[return-value]


class Permuted(torch.autograd.Function):
    """Copies of tokens in the order of their experts."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, copies: int) -> Tensor:
        """Keep the order."""
        ctx.save_for_backward(order)
        ctx.copies = copies
        return x.new_empty((x.shape[0] * copies, x.shape[1]))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Add the copies up."""
        return grad.new_empty((grad.shape[0] // ctx.copies, grad.shape[1])), None, None


class Restored(torch.autograd.Function):
    """Copies added up in the order of the tokens."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor, copies: int) -> Tensor:
        """Keep the order."""
        ctx.save_for_backward(order)
        ctx.copies = copies
        return rows.new_empty((rows.shape[0] // copies, rows.shape[1]))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Copy the gradient."""
        return grad.new_empty((grad.shape[0] * ctx.copies, grad.shape[1])), None, None


def passes(config: Config) -> Iterator[tuple[bool, int]]:
    """Yield (forward, chunk) in the order of Megatron-LM's schedules, for the measured stage.

    1F1B: p - 1 - i forwards first; interleaved: 2 (p - 1 - i) + (v - 1) p, a chunk each, in rounds
    of p micro-batches.
    """
    p, v, m, i = config.pp, config.vpp, config.microbatches, config.stage
    total = m * v
    warm = min(p - i - 1 if v == 1 else 2 * (p - i - 1) + (v - 1) * p, total)

    def chunk(count: int, forward: bool) -> int:
        index = count // p % v
        return index if forward else v - 1 - index

    for count in range(warm):
        yield True, chunk(count, True)
    for count in range(total - warm):
        yield True, chunk(warm + count, True)
        yield False, chunk(count, False)
    for count in range(total - warm, total):
        yield False, chunk(count, False)


class Stage:
    """One stage that runs its passes; keeps the graphs that are in flight."""

    def __init__(self, config: Config, chunks: list[Rank]) -> None:
        self.config, self.chunks = config, chunks
        self.waiting: list[list[tuple[Tensor | None, Tensor]]] = [[] for _ in chunks]
        self.tokens = torch.zeros(config.tokens, dtype=torch.int64)

    def _received(self) -> Tensor:
        rows = self.config.tokens // sequence_ranks(self.config)
        return torch.empty(rows, self.config.hidden, dtype=HALF)

    def forward(self, index: int) -> None:
        """Run one chunk of a micro-batch; what was sent on is freed but for its graph."""
        chunk = self.chunks[index]
        given = None if chunk.first else self._received().requires_grad_()
        out = chunk(self.tokens if given is None else given)
        if not chunk.last:
            out.data = out.new_empty((1,)).expand(out.shape)
        self.waiting[index].append((given, out))

    def backward(self, index: int) -> None:
        """Run the backward of the chunk's oldest micro-batch."""
        _, out = self.waiting[index].pop(0)
        if self.chunks[index].last:
            out.backward()
            return
        torch.autograd.backward(out, self._received())


def measure(config: Config) -> int:
    """Return the peak of a training step on one rank, bytes.

    Main gradients exist throughout; the optimizer's fp32 values are sharded over ``world`` ranks,
    experts over world · tp / ep. The update works in place.
    """
    per_chunk = config.layers // (config.pp * config.vpp)
    mode = AllocationMode()
    with FakeTensorMode(), mode:
        chunks = []
        for v in range(config.vpp):
            first = config.stage == 0 and v == 0
            last = config.stage == config.pp - 1 and v == config.vpp - 1
            chunks.append(Rank(config, per_chunk, first, last))
        kept = _states(config, chunks)
        stage = Stage(config, chunks)
        for forward, index in passes(config):
            if forward:
                stage.forward(index)
            else:
                stage.backward(index)
        del kept
    return mode.peak


def _states(config: Config, chunks: list[Rank]) -> list[Tensor]:
    """Allocate main gradients and optimizer states."""
    dense = expert = 0
    for chunk in chunks:
        for name, weight in chunk.named_parameters():
            spread = config.experts and (".up." in name or ".down." in name)
            expert, dense = (
                expert + weight.numel() * bool(spread),
                dense + weight.numel() * (not spread),
            )
    wide = torch.float32 if config.grad_reduce == "fp32" else HALF
    expert_ranks = max(config.world * config.tp // config.ep, 1)
    owned = dense // config.world + expert // expert_ranks
    return [
        torch.empty(dense + expert, dtype=wide),
        torch.empty(OPTIMIZER_VALUES * owned, dtype=torch.float32),
    ]
