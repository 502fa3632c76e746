"""Pipeline schedules as events: the oracle of the closed forms, and where timelines come from.

Stages run their work in the fixed order of the schedule; a piece starts when its stage is free and
what it needs has arrived. Plain 1F1B and its interleaved form, Narayanan et al. 2021
(arXiv 2104.04473), section 2.2 and figure 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """Forward or backward of one micro-batch on one virtual stage.

    Where backward is split, ``weight`` marks the gradients of the weights, and the backward without
    it has the gradient of the input alone (`solver.cost.simulate_split`).
    """

    backward: bool
    chunk: int
    microbatch: int
    weight: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """A piece as it ran on a stage; seconds from the start of the step."""

    stage: int
    piece: Piece
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Timeline:
    """All events of one step, in the order of their start, and when the last one ends."""

    events: tuple[Event, ...]
    makespan_s: float

    def busy_s(self, stage: int) -> float:
        """Seconds that a stage computes."""
        return sum(e.end_s - e.start_s for e in self.events if e.stage == stage)

    def in_flight(self, stage: int) -> int:
        """Most chunk activations that a stage holds at once: forward done, all of backward not."""
        held = most = 0
        split = any(event.piece.weight for event in self.events)
        for event in self.events:
            piece = event.piece
            if event.stage == stage and (not piece.backward or piece.weight == split):
                held += -1 if piece.backward else 1
                most = max(most, held)
        return most


def order(stage: int, pp: int, vpp: int, microbatches: int) -> list[Piece]:
    """Return the order in which a stage runs its pieces.

    Warm-up forwards, then one forward and one backward in turn, then the backwards left. With
    ``vpp`` virtual stages micro-batches go in groups of ``pp`` through each chunk in turn.
    """
    total = microbatches * vpp
    warmup = pp - stage - 1 if vpp == 1 else 2 * (pp - stage - 1) + (vpp - 1) * pp
    warmup = min(warmup, total)
    forwards = [_piece(False, i, pp, vpp) for i in range(total)]
    backwards = [_piece(True, i, pp, vpp) for i in range(total)]
    steady = [piece for pair in zip(forwards[warmup:], backwards, strict=False) for piece in pair]
    return forwards[:warmup] + steady + backwards[total - warmup :]


def _piece(backward: bool, index: int, pp: int, vpp: int) -> Piece:
    if vpp == 1:
        return Piece(backward, 0, index)
    group, inside = divmod(index, pp * vpp)
    chunk, place = divmod(inside, pp)
    return Piece(backward, vpp - 1 - chunk if backward else chunk, group * pp + place)


def simulate(
    forward_s: Sequence[float], backward_s: Sequence[float], vpp: int, microbatches: int
) -> Timeline:
    """Run one step.

    Parameters
    ----------
    forward_s, backward_s
        Seconds of one micro-batch on each stage, all its virtual stages together; length p.
    vpp
        Virtual stages a stage; above 1 the micro-batches must be a multiple of p.
    microbatches
        Micro-batches of the step.

    Returns
    -------
    Timeline
        Every piece with its start and end.

    Raises
    ------
    ValueError
        Where an interleaved schedule does not divide.
    """
    pp = len(forward_s)
    if vpp > 1 and microbatches % pp:
        raise ValueError(f"{microbatches} micro-batches are not a multiple of {pp} stages")
    seconds = {False: forward_s, True: backward_s}
    return run(
        [order(stage, pp, vpp, microbatches) for stage in range(pp)],
        lambda stage, piece: seconds[piece.backward][stage] / vpp,
        lambda stage, piece: _needs(stage, piece, pp, vpp),
    )


def run(
    queues: Sequence[Sequence[Piece]],
    seconds: Callable[[int, Piece], float],
    needs: Callable[[int, Piece], tuple[int, Piece] | None],
) -> Timeline:
    """Run every stage's pieces in their order: each as soon as its stage and its need allow.

    Parameters
    ----------
    queues
        Pieces of each stage, in order.
    seconds, needs
        What a piece takes on a stage, and the piece (with its stage) that must have ended before.
    """
    done: dict[tuple[int, Piece], float] = {}
    free, next_piece = [0.0] * len(queues), [0] * len(queues)
    events: list[Event] = []
    waiting = True
    while waiting:
        waiting = False
        for stage, queue in enumerate(queues):
            while next_piece[stage] < len(queue):
                piece = queue[next_piece[stage]]
                needed = needs(stage, piece)
                if needed is not None and needed not in done:
                    break
                start = max(free[stage], done[needed] if needed is not None else 0.0)
                end = start + seconds(stage, piece)
                free[stage] = done[stage, piece] = end
                events.append(Event(stage, piece, start, end))
                next_piece[stage] += 1
                waiting = True
    events.sort(key=lambda e: (e.start_s, e.stage))
    return Timeline(tuple(events), max(free))


def _needs(stage: int, piece: Piece, pp: int, vpp: int) -> tuple[int, Piece] | None:
    """Return what must have ended before a piece may start."""
    place = piece.chunk * pp + stage
    if not piece.backward:
        if place == 0:
            return None
        chunk, before = divmod(place - 1, pp)
        return before, Piece(False, chunk, piece.microbatch)
    if place == pp * vpp - 1:
        return stage, Piece(False, piece.chunk, piece.microbatch)
    chunk, after = divmod(place + 1, pp)
    return after, Piece(True, chunk, piece.microbatch)
