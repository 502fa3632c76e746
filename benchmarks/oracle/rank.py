"""Peak of one rank of Megatron's scheme: tensor, sequence, context, expert and pipeline parallel.

The rank's own tensors run through PyTorch's autograd, and every live storage is counted. Fused
kernels and collectives are stand-ins that allocate what theirs allocate. What is tested: what
autograd keeps, what recomputation drops, the order of passes in a pipeline, and static states. What
is not: the kernels' own workspaces, the caching allocator, communication buffers.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from benchmarks.oracle.config import Config
from benchmarks.oracle.rank_model import HALF, Rank, sequence_ranks
from benchmarks.oracle.tracker import AllocationMode

OPTIMIZER_VALUES = 3
"""fp32 values a parameter in the optimizer: master weight and two moments."""


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
