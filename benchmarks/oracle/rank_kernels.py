"""Stand-ins for the products and collectives of one tensor-parallel rank, and for routing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


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
        return functional.linear(gathered(x, ranks), weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Gather again, multiply, scatter."""
        x, weight = ctx.saved_tensors
        again = gathered(x, ctx.ranks)
        whole = grad @ weight
        del again
        return scattered(whole, ctx.ranks), None, None


class RowLinear(torch.autograd.Function):
    """Product with a matrix of which this rank has some inputs; the sum is scattered."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, ranks: int) -> Tensor:
        """Multiply and scatter."""
        ctx.save_for_backward(x, weight)
        ctx.ranks = ranks
        return scattered(functional.linear(x, weight), ranks)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Gather and multiply."""
        _, weight = ctx.saved_tensors
        return gathered(grad, ctx.ranks) @ weight, None, None


def gathered(x: Tensor, ranks: int) -> Tensor:
    """Gather a tensor whose rows are split."""
    return x.new_empty((x.shape[0] * ranks, *x.shape[1:])) if ranks > 1 else x


def scattered(x: Tensor, ranks: int) -> Tensor:
    """Keep this rank's rows of a sum."""
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
        return wide.to(torch.bfloat16)


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
        return tuple(torch.empty_like(t) for t in ctx.saved_tensors)


class Balanced(torch.autograd.Function):
    """Routing weights that carry the gradient of a loss on the balance of experts."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, balance: Tensor) -> Tensor:
        """Keep the loss."""
        ctx.save_for_backward(balance)
        return weights.view_as(weights)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        """Hand on the gradient, and one of the loss."""
        return grad, torch.ones_like(ctx.saved_tensors[0])


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
