"""Shapes priced on demand: cheap bounds for all, full coefficients for those that are opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..cost.schedule import step_ticks
from ..cost.shapes import Shapes
from ..cost.tables import Tables
from ..cost.ticks import MAX_TICKS, BoolArray, IntArray, whole_ticks
from .instance import Instance

BATCH = 48
"""Shapes priced in one call: enough to fill numpy's vectors, few enough to waste little."""

LARGE = np.int64(2**55)
"""Above every coefficient, and small enough to be added up."""

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
    """Bound each shape's step and memory over the choices that keep memory and communication.

    For every sharding and stage class the least of each quantity over the recomputations that keep
    the limits. Classes and quantities may choose apart what the model couples, so this is a
    relaxation of what CP-SAT decides.
    """
    fits = np.broadcast_to(tables.shardings.valid[:, None, None, :], tables.memory.shape)
    if "memory" in instance.enabled:
        fits = fits & (tables.memory <= instance.cost.capacity_mib)
    if "communication" in instance.enabled:
        fits = fits & _communicates(instance, tables)
    able = fits.any(axis=2)  # (N, 4, Z)
    present = tables.stages.count[:, :, None] > 0
    possible = (able | ~present).all(axis=1)  # (N, Z)
    pace, share, tail, memory = (
        np.where(able & present, np.where(fits, part, LARGE).min(axis=2), 0).swapaxes(1, 2)
        for part in (tables.pace, tables.share, tables.tail, tables.memory)
    )
    # A class that is slow hides its traffic better: pace and tail of one choice, taken together.
    both = np.where(able & present, np.where(fits, tables.pace + tables.tail, LARGE).min(axis=2), 0)
    together = whole_ticks(both.max(axis=1) + share.sum(axis=2))
    step = np.maximum(step_ticks(pace, share, tail), np.minimum(together, MAX_TICKS))
    step = np.where(possible, step, NEVER).min(axis=1)
    return step, np.where(possible, memory.max(axis=2), NEVER).min(axis=1)


def _communicates(instance: Instance, tables: Tables) -> BoolArray:
    """Mark the choices of each class that keep the communication limit, (N, 4, K, Z).

    Only the busiest class is held to it.
    """
    allowance = instance.allowance(tables.compute)[:, None, None]
    keeps = (tables.communication <= allowance)[:, None]
    other = np.arange(tables.memory.shape[1])[None, :] != tables.busiest[:, None]
    return np.asarray(keeps | other[:, :, None, None])
