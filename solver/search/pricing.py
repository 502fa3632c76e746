"""Shapes priced on demand: cheap bounds for all, full coefficients for those that are opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..cost.shapes import Shapes
from ..cost.tables import Tables
from ..cost.ticks import IntArray
from .instance import Instance

BATCH = 48
"""Shapes priced in one call: enough to fill numpy's vectors, few enough to waste little."""

NEVER = np.iinfo(np.int64).max
"""Bound of a shape that no choice makes legal."""


@dataclass
class Priced:
    """Full tables of the shapes priced so far, with each one's refined bounds.

    The bounds are kept for each goal's ingredients, so that one pricing serves the optimum, the
    alternatives and the front.
    """

    instance: Instance
    shapes: Shapes
    step_bound: IntArray
    memory_bound: IntArray
    _place: dict[int, tuple[int, int]] = field(default_factory=dict)
    _batches: list[Tables] = field(default_factory=list)
    _refined: dict[int, tuple[int, int]] = field(default_factory=dict)

    @staticmethod
    def of(instance: Instance, shapes: Shapes) -> Priced:
        """Bound every shape."""
        if not len(shapes):
            nothing = np.zeros(0, np.int64)
            return Priced(instance, shapes, nothing, nothing)
        step, memory = instance.cost.bounds(shapes)
        return Priced(instance, shapes, step, memory)

    @cached_property
    def axes(self) -> IntArray:
        """Parallel axes of each shape, without HSDP."""
        s = self.shapes
        degrees = np.stack([s.tp, s.pp, s.cp, s.ep, s.etp, s.dp])
        return np.asarray((degrees > 1).sum(axis=0))

    def price(self, rows: list[int]) -> None:
        """Work out the coefficients of shapes that have none yet."""
        new = [row for row in rows if row not in self._place]
        for start in range(0, len(new), BATCH):
            part = new[start : start + BATCH]
            tables = self.instance.cost.tables(self.shapes.take(np.array(part)))
            step, memory = refined_bounds(self.instance, tables)
            for place, row in enumerate(part):
                self._place[row] = (len(self._batches), place)
                self._refined[row] = (int(step[place]), int(memory[place]))
            self._batches.append(tables)

    def refined(self, row: int) -> tuple[int, int]:
        """Return bounds of step ticks and MiB of a priced shape; NEVER where it cannot fit."""
        return self._refined[row]

    def tables(self, rows: list[int]) -> Tables:
        """Join the coefficients of some priced shapes into one set of tables."""
        batches = {self._place[row][0] for row in rows}
        if len(batches) == 1:
            batch = self._batches[batches.pop()]
            return batch.take(np.array([self._place[row][1] for row in rows]))
        # Sharding columns differ from batch to batch: price the few shapes together again.
        return self.instance.cost.tables(self.shapes.take(np.array(rows)))


def refined_bounds(instance: Instance, tables: Tables) -> tuple[IntArray, IntArray]:
    """Bound each shape's step and memory over the choices that keep the memory limit.

    For every stage class the least time over its own choices that fit: the choices of different
    classes may contradict each other, so this is a relaxation of what CP-SAT decides.
    """
    valid = tables.shardings.valid[:, None, None, :]
    fits = np.broadcast_to(valid, tables.memory.shape)
    if "memory" in instance.enabled:
        fits = fits & (tables.memory <= instance.cost.capacity_mib)
    present = tables.stages.count > 0
    possible = (fits.any(axis=(2, 3)) | ~present).all(axis=1)
    large = np.int64(2**55)
    stage = np.where(fits, tables.stage, large).min(axis=(2, 3))
    tail = np.where(fits, tables.tail, large).min(axis=(2, 3))
    memory = np.where(fits, tables.memory, large).min(axis=(2, 3))
    stage, tail, memory = (np.where(present, part, 0) for part in (stage, tail, memory))
    s = tables.shapes
    safe = np.where(possible[:, None], stage, 0)
    slowest = safe.max(axis=1)
    fill = -(-((safe * tables.stages.count).sum(axis=1) - slowest) // s.vpp)
    step = s.microbatches * slowest + fill + np.where(possible, tail.max(axis=1), 0)
    return (
        np.where(possible, step, NEVER),
        np.where(possible, memory.max(axis=1), NEVER),
    )
