"""Shapes priced on demand: a floor for all, bounds for some, coefficients for fewer still."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..cost.schedule import step_ticks
from ..cost.shapes import Shapes
from ..cost.tables import Tables
from ..cost.ticks import MAX_TICKS, BoolArray, IntArray, whole_ticks
from .instance import LONGEST_STEP, Caps, Goal, Instance

BATCH = 48
"""Shapes priced in the first call of a search: enough to fill numpy's vectors."""

BLOCK = 32_768
"""Shapes bounded in one call at most, to hold memory down."""

KEPT = 4_096
"""Shapes whose full tables are kept at a time, about 5 kB each."""

LARGE = np.int64(2**55)
"""Above every coefficient, and small enough to be added up."""

NEVER = np.iinfo(np.int64).max
"""Bound of a shape that no choice makes legal."""


@dataclass
class Priced:
    """Shapes with their bounds, and full tables for those that were asked for.

    Nothing here depends on the goal, so that one pricing serves the optimum, the alternatives and
    the front.

    Attributes
    ----------
    instance
        The problem; its goal is not used.
    shapes
        All shapes of the space.
    step_bound, memory_bound
        Bounds of ticks and MiB, (N,): the floor of the step and no memory until `bound` is asked
        for more.
    bounded
        Whether it was.
    capacity_mib
        Memory that plans keep to, so that bounds may count on it; None for none.
    """

    instance: Instance
    shapes: Shapes
    step_bound: IntArray
    memory_bound: IntArray
    bounded: BoolArray
    capacity_mib: int | None
    _batch_of: dict[int, tuple[int, int]] = field(default_factory=dict)
    _rows: list[IntArray] = field(default_factory=list)
    _least: dict[tuple[Goal, Caps], tuple[int, IntArray]] = field(default_factory=dict)
    _bounds: list[tuple[IntArray, IntArray]] = field(default_factory=list)
    _kept: dict[int, Tables] = field(default_factory=dict)

    @staticmethod
    def of(instance: Instance, shapes: Shapes) -> Priced:
        """Work out the floor of every shape."""
        floor = instance.cost.floor(shapes) if len(shapes) else np.zeros(0, np.int64)
        capacity = instance.cost.capacity_mib if instance.holds("memory") else None
        nothing = np.zeros_like(floor)
        return Priced(instance, shapes, floor, nothing, nothing.astype(bool), capacity)

    def under(self, instance: Instance) -> Priced:
        """Return the same shapes with the bounds that are known, under more limits."""
        return Priced(
            instance, self.shapes, self.step_bound, self.memory_bound, self.bounded,
            self.capacity_mib,
        )  # fmt: skip

    def bound(self, rows: IntArray) -> None:
        """Work out the bounds of some shapes, unless they are already."""
        new = rows[~self.bounded[rows]]
        for start in range(0, len(new), BLOCK):
            part = new[start : start + BLOCK]
            step, memory = self.instance.cost.bounds(self.shapes.take(part), self.capacity_mib)
            # The floor sums the same terms in another order: where all are there it may be higher.
            self.step_bound[part] = np.maximum(step, self.step_bound[part])
            self.memory_bound[part] = memory
            self.bounded[part] = True

    @cached_property
    def axes(self) -> IntArray:
        """Parallel axes of each shape, without HSDP."""
        s = self.shapes
        degrees = np.stack([s.tp, s.pp, s.cp, s.ep, s.etp, s.dp])
        return np.asarray((degrees > 1).sum(axis=0))

    def price(self, rows: list[int]) -> None:
        """Bound shapes under each sharding, unless they are already."""
        new = [row for row in rows if row not in self._batch_of]
        if not new:
            return
        tables = self.instance.cost.tables(self.shapes.take(np.array(new)))
        number = len(self._bounds)
        for place, row in enumerate(new):
            self._batch_of[row] = (number, place)
        self._rows.append(np.array(new))
        self._bounds.append(refined_bounds(self.instance, tables))
        self._keep(number, tables)

    def _keep(self, number: int, tables: Tables) -> None:
        """Hold a batch's tables while there is room; the oldest make way."""
        self._kept[number] = tables
        while len(self._kept) > 1 and sum(len(t.shapes) for t in self._kept.values()) > KEPT:
            del self._kept[next(iter(self._kept))]

    def least(self, goal: Goal, caps: Caps) -> IntArray:
        """Bound a goal of each shape over the shardings that may keep the caps, (N,).

        NEVER where none can fit; 0 where a shape is not priced yet.
        """
        nothing = np.zeros(len(self.shapes), np.int64)
        done, least = self._least.get((goal, caps)) or (0, nothing)
        for rows, (step, memory) in zip(self._rows[done:], self._bounds[done:], strict=True):
            held = self.shapes.held[rows]
            value = self._values(goal, step, memory, held)
            for other, most in caps.of_goals():
                over = self._values(other, step, memory, held) > most
                value = np.where(over, NEVER, value)
            least[rows] = value.min(axis=1, initial=NEVER)
        self._least[goal, caps] = len(self._bounds), least
        return least

    def _values(self, goal: Goal, step: IntArray, memory: IntArray, held: IntArray) -> IntArray:
        """Bound a goal under each sharding, (N, Z); NEVER where it cannot fit."""
        value = self.instance.value(goal, step, memory, held[:, None])
        return np.where(step == NEVER, NEVER, value)

    def tables(self, rows: list[int], goal: Goal, at_most: int) -> Tables:
        """Join the coefficients of some shapes into one set of tables.

        Shardings whose bound of the goal is above ``at_most`` are shut: no choice inside them can
        be wanted.
        """
        batch = self._batch_of[rows[0]][0]
        together = all(self._batch_of[row][0] == batch for row in rows)
        if together and batch in self._kept:
            places = np.array([self._batch_of[row][1] for row in rows])
            tables = self._kept[batch].take(places)
            step, memory = (bound[places] for bound in self._bounds[batch])
            return tables.restrict(self._values(goal, step, memory, tables.shapes.held) <= at_most)
        # Sharding columns differ from batch to batch: price the few shapes together.
        tables = self.instance.cost.tables(self.shapes.take(np.array(rows)))
        step, memory = refined_bounds(self.instance, tables)
        return tables.restrict(self._values(goal, step, memory, tables.shapes.held) <= at_most)


def refined_bounds(instance: Instance, tables: Tables) -> tuple[IntArray, IntArray]:
    """Bound step and memory of each shape and sharding, (N, Z), over what keeps the limits.

    For every stage class the least of each quantity over the recomputations that keep memory and
    communication; NEVER where there is none. Classes and quantities may choose apart what the model
    couples, so this is a relaxation of what CP-SAT decides.
    """
    fits = _fits(instance, tables)
    if instance.search.recompute_by_stage:
        step, memory = _apart(tables, fits)
    else:
        # The one kind of a shape and sharding with the least step may not be that of least memory.
        step, memory = (part.min(axis=1) for part in _alike(tables, fits))
    possible = _ends_in_time(instance, step, tables.shapes.held[:, None])
    return np.where(possible, step, NEVER), np.where(possible, memory, NEVER)


def legal_values(instance: Instance, tables: Tables) -> IntArray:
    """Return the goal of every choice of one kind for all stages, (N, K, Z); NEVER if illegal."""
    step, memory = _alike(tables, _fits(instance, tables))
    held = tables.shapes.held[:, None, None]
    possible = _ends_in_time(instance, step, held)
    value = instance.value(instance.goal, step, memory, held)
    return np.where(possible, value, NEVER)


def _fits(instance: Instance, tables: Tables) -> BoolArray:
    """Mark the choices of each class of stages that keep memory and communication."""
    fits = np.broadcast_to(tables.shardings.valid[:, None, None, :], tables.memory.shape)
    if instance.holds("memory"):
        fits = fits & (tables.memory <= instance.capacity_mib)
    if instance.holds("communication"):
        fits = fits & _communicates(instance, tables)
    return fits


def _ends_in_time(instance: Instance, step: IntArray, held: IntArray) -> BoolArray:
    """Mark the steps that the search represents, and that deadline and budget leave."""
    charged = instance.charged(step, held)
    possible = (step <= LONGEST_STEP) & (charged <= LONGEST_STEP)
    if instance.holds("deadline"):
        possible = possible & (charged <= instance.longest_step)
    if instance.holds("budget"):
        possible = possible & (charged * held <= instance.most_gpu_ticks)
    return np.asarray(possible)


def _alike(tables: Tables, fits: BoolArray) -> tuple[IntArray, IntArray]:
    """Return step and memory where all stages recompute by one kind, (N, K, Z)."""
    present = (tables.stages.count > 0)[:, :, None, None]
    possible = (fits | ~present).all(axis=1)
    pace, share, tail = (
        np.moveaxis(part, 1, -1) for part in (tables.pace, tables.share, tables.tail)
    )
    step = np.where(possible, step_ticks(pace, share, tail), NEVER)
    return step, np.where(possible, tables.memory.max(axis=1), NEVER)


def _apart(tables: Tables, fits: BoolArray) -> tuple[IntArray, IntArray]:
    """Bound step and memory where each class of stages chooses its recomputation, (N, Z)."""
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
