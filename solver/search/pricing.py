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
"""Shapes priced in the first call of a search: enough to fill numpy's vectors."""

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
    _bounds: list[tuple[IntArray, IntArray]] = field(default_factory=list)

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
        if not new:
            return
        tables = self.instance.cost.tables(self.shapes.take(np.array(new)))
        for place, row in enumerate(new):
            self._place[row] = (len(self._batches), place)
        self._batches.append(tables)
        self._bounds.append(refined_bounds(self.instance, tables))

    def column_values(self, row: int) -> IntArray:
        """Bound the goal of a priced shape under each sharding; NEVER where it cannot fit."""
        batch, place = self._place[row]
        step, memory = (bound[place] for bound in self._bounds[batch])
        value = self.instance.value(step, memory, self.shapes.held[row])
        return np.where(step == NEVER, NEVER, value)

    def tables(self, rows: list[int], at_most: int) -> Tables:
        """Join the coefficients of some priced shapes into one set of tables.

        Shardings whose bound of the goal is above ``at_most`` are shut: no choice inside them can
        be wanted.
        """
        batches = {self._place[row][0] for row in rows}
        if len(batches) > 1:
            # Sharding columns differ from batch to batch: price the few shapes together again.
            joined = Priced(self.instance, self.shapes, self.step_bound, self.memory_bound)
            joined.price(rows)
            return joined.tables(rows, at_most)
        tables = self._batches[batches.pop()].take(
            np.array([self._place[row][1] for row in rows])
        )
        able = np.stack([self.column_values(row) <= at_most for row in rows])
        return tables.restrict(able)


def refined_bounds(instance: Instance, tables: Tables) -> tuple[IntArray, IntArray]:
    """Bound step and memory of each shape and sharding, (N, Z), over what keeps the limits.

    For every stage class the least of each quantity over the recomputations that keep memory and
    communication; NEVER where there is none. Classes and quantities may choose apart what the model couples, so this is a
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
    return np.where(possible, step, NEVER), np.where(possible, memory.max(axis=2), NEVER)


def _communicates(instance: Instance, tables: Tables) -> BoolArray:
    """Mark the choices of each class that keep the communication limit, (N, 4, K, Z).

    Only the busiest class is held to it.
    """
    allowance = instance.allowance(tables.compute)[:, None, None]
    keeps = (tables.communication <= allowance)[:, None]
    other = np.arange(tables.memory.shape[1])[None, :] != tables.busiest[:, None]
    return np.asarray(keeps | other[:, :, None, None])
