"""Peak of one GPU that fine-tunes a plain PyTorch model: adapters, frozen parts, frozen layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from benchmarks.oracle.config import Config
from benchmarks.oracle.sharded import Block, Model, Table
from benchmarks.oracle.tracker import AllocationMode

ATTENTION, MLP = ("query", "key", "value"), ("gate", "up", "down")
TARGETS = {
    "qkv": ATTENTION,
    "attention": (*ATTENTION, "out"),
    "mlp": MLP,
    "all": (*ATTENTION, "out", *MLP),
}
"""Linear layers of a block that get adapters, by name."""
PARTS = {"attention": (*ATTENTION, "out"), "mlp": MLP}
"""Linear layers of a frozen part."""


class Adapted(nn.Module):
    """A frozen linear layer with an adapter beside it."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Add the adapter's output."""
        return self.base(x) + self.up(self.down(x))


class Repeated(nn.Module):
    """A block that is recomputed in backward."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor, table: Table) -> Tensor:
        """Keep the input only."""
        return checkpoint(self.block, x, table, use_reentrant=False)


def tuned(model: Model, config: Config) -> Model:
    """Freeze parts, or everything and add adapters."""
    parts = config.frozen.split()
    if config.lora_rank:
        model.requires_grad_(False)
    for index, block in enumerate(model.layers):
        for holder in (block.attention, block.mlp):
            for name, layer in list(holder.named_children()):
                if index < config.frozen_layers or any(name in PARTS.get(p, ()) for p in parts):
                    layer.requires_grad_(False)
                elif config.lora_rank and name in TARGETS[config.lora_targets]:
                    setattr(holder, name, Adapted(layer, config.lora_rank))
        if index < config.frozen_layers:
            block.requires_grad_(False)
    if "embedding" in parts or config.frozen_layers:
        model.embedding.requires_grad_(False)
    if "head" in parts:
        model.head.requires_grad_(False)
    return model


def measure(config: Config) -> int:
    """Return the peak of a second training step, bytes: everything in 16 bit, AdamW."""
    mode = AllocationMode()
    with FakeTensorMode(), mode:
        torch.set_default_dtype(torch.bfloat16)
        model = tuned(Model(config), config)
        if config.ac == "full":
            for index, block in enumerate(model.layers):
                model.layers[index] = Repeated(block)
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=1e-4, foreach=True)
        shape = (config.mbs, config.seq)
        ids, labels = torch.randint(0, config.vocab, shape), torch.randint(0, config.vocab, shape)
        table = (torch.zeros(1), torch.zeros(1))

        def step() -> None:
            out = model(ids, table)
            loss = functional.cross_entropy(out.flatten(0, 1).float(), labels.flatten())
            del out
            loss.backward()
            del loss
            optimizer.step()
            optimizer.zero_grad()

        step()
        mode.peak = mode.live
        step()
    return mode.peak
