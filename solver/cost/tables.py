"""What a cost model hands to the search: integer coefficients of every choice inside a shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..job.job import Recompute
from ..plan import Estimate
from .schedule import step_ticks
from .shapes import Shapes, Shardings
from .stages import RECOMPUTE_CLASS, Stages
from .ticks import BoolArray, IntArray


@dataclass(frozen=True)
class Tables:
    """Coefficients of N shapes × 4 stage classes × K recomputations × Z shardings.

    Attributes
    ----------
    stage
        Ticks of one micro-batch on a stage, exposed communication included; (N, 4, K, Z).
    tail
        Ticks left when the pipeline has drained; (N, 4, K, Z).
    memory
        Need of a GPU of the class in MiB; (N, 4, K, Z).
    communication
        Ticks of communication a step on the busiest stage, by the metric of the limits; (N, K, Z).
    compute
        Ticks of compute a step on the busiest stage, without recomputation; (N,).
    busiest
        Class of the busiest stage; (N,).
    shapes, shardings, stages
        What the rows and columns are.
    """

    shapes: Shapes
    shardings: Shardings
    stages: Stages
    stage: IntArray
    tail: IntArray
    memory: IntArray
    communication: IntArray
    compute: IntArray
    busiest: IntArray

    def take(self, rows: IntArray | BoolArray | slice) -> Tables:
        """Return the chosen shapes."""
        stages = Stages(
            *(
                getattr(self.stages, name)[rows]
                for name in (
                    "dense_layers",
                    "moe_layers",
                    "count",
                    "index",
                    "has_embedding",
                    "has_head",
                )
            )
        )
        return Tables(
            self.shapes.take(rows),
            self.shardings.take(rows),
            stages,
            *(
                getattr(self, name)[rows]
                for name in ("stage", "tail", "memory", "communication", "compute", "busiest")
            ),
        )


@dataclass(frozen=True)
class Choice:
    """The choices inside one shape: column of the sharding, recomputation of each class."""

    sharding: int
    recompute: tuple[int, int, int]
    """Index into the kinds for the first, the middle and the last stages."""


def evaluate(tables: Tables, row: int, choice: Choice) -> tuple[int, int, int]:
    """Return step ticks, worst need in MiB and communication ticks of one complete choice."""
    kinds = [choice.recompute[c] for c in RECOMPUTE_CLASS]
    pick = (row, np.arange(len(kinds)), np.array(kinds), choice.sharding)
    count = tables.stages.count[row]
    step = step_ticks(
        tables.stage[pick],
        tables.tail[pick],
        count,
        tables.shapes.vpp[row],
        tables.shapes.microbatches[row],
    )
    memory = np.where(count > 0, tables.memory[pick], 0).max()
    kind = kinds[int(tables.busiest[row])]
    return int(step), int(memory), int(tables.communication[row, kind, choice.sharding])


class CostModel(Protocol):
    """A cost model: textbook or calibrated."""

    kinds: tuple[Recompute, ...]
    """Kinds of recomputation, in the order of the tables' axis."""

    capacity_mib: int
    """Memory that a plan may use at most, headroom taken off, MiB."""

    def bounds(self, shapes: Shapes) -> tuple[IntArray, IntArray]:
        """Return admissible lower bounds of step ticks and of memory in MiB, shape (N,)."""

    def tables(self, shapes: Shapes) -> Tables:
        """Return the coefficients of every choice."""

    def estimate(self, tables: Tables, row: int, choice: Choice) -> Estimate:
        """Itemise one complete choice."""
