"""Pipeline schedules as events: the oracle of the closed forms, and where timelines come from.

Stages run their work in the fixed order of the schedule; a piece starts when its stage is free and
what it needs has arrived. Plain 1F1B and its interleaved form, Narayanan et al. 2021
(arXiv 2104.04473), section 2.2 and figure 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """Forward or backward of one micro-batch on one virtual stage."""

    backward: bool
    chunk: int
    microbatch: int


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
        """Most chunk activations that a stage holds at once: forward done, backward not."""
        held = most = 0
        for event in self.events:
            if event.stage == stage:
                held += -1 if event.piece.backward else 1
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
    queues = [order(stage, pp, vpp, microbatches) for stage in range(pp)]
    done: dict[tuple[int, Piece], float] = {}
    free, next_piece = [0.0] * pp, [0] * pp
    events: list[Event] = []
    waiting = True
    while waiting:
        waiting = False
        for stage in range(pp):
            while next_piece[stage] < len(queues[stage]):
                piece = queues[stage][next_piece[stage]]
                needed = _needs(stage, piece, pp, vpp)
                if needed is not None and needed not in done:
                    break
                start = max(free[stage], done[needed] if needed is not None else 0.0)
                seconds = (backward_s if piece.backward else forward_s)[stage] / vpp
                free[stage] = done[stage, piece] = start + seconds
                events.append(Event(stage, piece, start, start + seconds))
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
