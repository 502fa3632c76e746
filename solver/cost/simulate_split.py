"""ZB-H1 as events: forward, gradient of the input, gradients of the weights as pieces of their own.

Qi et al. 2024, "Zero Bubble Pipeline Parallelism", ICLR (arXiv 2401.10241), section 2.1 and figure
3, top. Only the gradient of the input goes on to the stage before, so weights can wait: stage i of
p (from 0) starts on them i micro-batches late, and every stage holds p micro-batches at most. It is
also what torch.distributed.pipelining's InterleavedZeroBubble runs with one stage a rank.
"""

from __future__ import annotations

from collections.abc import Sequence

from .simulate import Piece, Timeline, run


def split_order(stage: int, pp: int, microbatches: int) -> list[Piece]:
    """Return the order in which a stage runs its pieces.

    Forwards and input gradients as in 1F1B; once ``stage`` input gradients are ahead, each is
    followed by the oldest weight gradients that are due, and those left come last.
    """
    warmup = min(pp - stage - 1, microbatches)
    pieces = [Piece(False, 0, i) for i in range(warmup)]
    for index in range(microbatches):
        if warmup + index < microbatches:
            pieces.append(Piece(False, 0, warmup + index))
        pieces.append(Piece(True, 0, index))
        if index >= stage:
            pieces.append(Piece(True, 0, index - stage, weight=True))
    late = range(max(microbatches - stage, 0), microbatches)
    return pieces + [Piece(True, 0, i, weight=True) for i in late]


def simulate_split(
    forward_s: Sequence[float],
    input_s: Sequence[float],
    weight_s: Sequence[float],
    microbatches: int,
) -> Timeline:
    """Run one step of ZB-H1.

    Parameters
    ----------
    forward_s, input_s, weight_s
        Seconds of one micro-batch on each stage: forward, gradient of the input with whatever is
        recomputed for it, gradients of the weights; length p.
    microbatches
        Micro-batches of the step.
    """
    pp = len(forward_s)

    def seconds(stage: int, piece: Piece) -> float:
        if piece.weight:
            return weight_s[stage]
        return (input_s if piece.backward else forward_s)[stage]

    def needs(stage: int, piece: Piece) -> tuple[int, Piece] | None:
        if piece.weight:  # its own input gradient, which its queue has before it
            return None
        if not piece.backward:
            return (stage - 1, piece) if stage else None
        if stage == pp - 1:
            return stage, Piece(False, 0, piece.microbatch)
        return stage + 1, piece

    return run([split_order(stage, pp, microbatches) for stage in range(pp)], seconds, needs)
