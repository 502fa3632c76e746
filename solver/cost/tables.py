"""What a cost model hands to the search: integer coefficients of every choice inside a shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from topology.cluster import NodeGroup

from ..estimate import Estimate
from ..job.search import Recompute
from .schedule import pipeline_grains, step_ticks
from .shapes import Shapes, Shardings
from .stages import CLASSES, RECOMPUTE_CLASS, Stages
from .ticks import BoolArray, FloatArray, IntArray, grains, mebibytes


@dataclass(frozen=True)
class Tables:
    """Coefficients of N shapes × 4 stage classes × K recomputations × Z shardings.

    Attributes
    ----------
    pace
        Grains that a step takes if this class is the slowest; (N, 4, K, Z).
    share
        Grains that filling the pipeline takes on all stages of the class; (N, 4, K, Z).
    tail
        Grains left when the pipeline has drained; (N, 4, K, Z).
    memory
        Need of a GPU of the class in MiB; (N, 4, K, Z). All four are 0 for an empty class.
    communication
        Grains of communication a step on the busiest stage, by the limit's metric; (N, K, Z).
    compute
        Grains of compute a step on the busiest stage, without recomputation; (N,).
    busiest
        Class of the busiest stage; (N,).
    shapes, shardings, stages
        What the rows and columns are.
    """

    shapes: Shapes
    shardings: Shardings
    stages: Stages
    pace: IntArray
    share: IntArray
    tail: IntArray
    memory: IntArray
    communication: IntArray
    compute: IntArray
    busiest: IntArray

    def take(self, rows: IntArray | BoolArray | slice) -> Tables:
        """Return the chosen shapes."""
        return Tables(
            self.shapes.take(rows),
            self.shardings.take(rows),
            self.stages.take(rows),
            *(getattr(self, name)[rows] for name in _COEFFICIENTS),
        )

    def restrict(self, columns: BoolArray) -> Tables:
        """Return the same tables with only some shardings valid; ``columns`` is (N, Z)."""
        s = self.shardings
        return replace(self, shardings=Shardings(s.zero, s.replicas, np.asarray(s.valid & columns)))


_COEFFICIENTS = ("pace", "share", "tail", "memory", "communication", "compute", "busiest")


@dataclass(frozen=True)
class Seconds:
    """A cost model's figures before rounding; each broadcasts to the shape of ``Tables``' fields.

    Attributes
    ----------
    stage, tail
        Seconds of one micro-batch on a stage, and after the pipeline has drained; (N, 4, K, Z).
    need
        Bytes; (N, 4, K, Z).
    communication, compute
        Seconds a step on the busiest stage; (N, K, Z) and (N,).
    busiest
        Class of that stage; (N,).
    spared
        Seconds that the schedule takes out of a stage's share of the fill.
    """

    stage: FloatArray
    tail: FloatArray
    need: FloatArray
    communication: FloatArray
    compute: FloatArray
    busiest: IntArray
    spared: FloatArray | float = 0.0


def round_up(
    shapes: Shapes, shardings: Shardings, stages: Stages, kinds: int, seconds: Seconds
) -> Tables:
    """Round a cost model's figures up to the search's integers: the only place that rounds."""
    full = (len(shapes), CLASSES, kinds, shardings.zero.shape[1])
    count = stages.count[:, :, None, None]
    column = (slice(None), None, None, None)
    pace, share = pipeline_grains(
        np.broadcast_to(seconds.stage, full), count, shapes.vpp[column],
        shapes.microbatches[column], seconds.spared,
    )  # fmt: skip
    tail = np.where(count > 0, np.broadcast_to(seconds.tail, full), 0.0)
    need = np.where(count > 0, np.broadcast_to(seconds.need, full), 0.0)
    sent = np.broadcast_to(seconds.communication, (full[0], full[2], full[3]))
    return Tables(
        shapes, shardings, stages, pace, share, grains(tail), mebibytes(need), grains(sent),
        grains(seconds.compute), seconds.busiest,
    )  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """The choices inside one shape: column of the sharding, recomputation of each class."""

    sharding: int
    recompute: tuple[int, int, int]
    """Index into the kinds for the first, the middle and the last stages."""


def evaluate(tables: Tables, row: int, choice: Choice) -> tuple[int, int, int]:
    """Return step in ticks, worst need in MiB, communication in grains of a complete choice."""
    kinds = [choice.recompute[c] for c in RECOMPUTE_CLASS]
    pick = (row, np.arange(CLASSES), np.array(kinds), choice.sharding)
    step = step_ticks(tables.pace[pick], tables.share[pick], tables.tail[pick])
    kind = kinds[int(tables.busiest[row])]
    sent = tables.communication[row, kind, choice.sharding]
    return int(step), int(tables.memory[pick].max()), int(sent)


class CostModel(Protocol):
    """A cost model: textbook or calibrated."""

    @property
    def kinds(self) -> tuple[Recompute, ...]:
        """Kinds of recomputation, in the order of the tables' axis."""

    @property
    def capacity_mib(self) -> int:
        """Memory that a plan may use at most, headroom taken off, MiB."""

    @property
    def places(self) -> bool:
        """Whether the order of the axes, and so the link that each runs over, changes a price."""

    def on(self, group: NodeGroup) -> CostModel:
        """Return the same account on another node group."""

    def floor(self, shapes: Shapes) -> IntArray:
        """Return a bound of step ticks that is cheaper and no higher than ``bounds``, (N,)."""

    def bounds(self, shapes: Shapes, capacity_mib: int | None = None) -> tuple[IntArray, IntArray]:
        """Return lower bounds of step ticks and of memory in MiB, (N,).

        Of steps that may fit in ``capacity_mib``, if given; every term is admissible.
        """

    def tables(self, shapes: Shapes, columns: Shardings | None = None) -> Tables:
        """Return the coefficients of every choice, or of the given shardings only."""

    def estimates(self, tables: Tables, choices: Sequence[Choice]) -> list[Estimate]:
        """Itemise one complete choice of each shape."""
