"""Best-first search over shapes: open by bound, close by CP-SAT, stop by proof."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..cost.stages import FIRST, HEAVY, LAST, LIGHT
from ..cost.tables import Choice, Tables
from ..cost.ticks import BoolArray, IntArray
from .cpsat.factory import SolverSettings
from .cpsat.run import ChunkAnswer, break_ties, solve_chunk
from .decision import Decision, decide
from .instance import LONGEST_STEP, Instance
from .opening import Queue
from .pricing import BATCH, NEVER, Priced, legal_values, refined_bounds

CHUNK = 4
"""Shapes in one model: enough that CP-SAT chooses among them, few enough for milliseconds."""

TIED = 16
"""Shapes in one tie-breaking model."""


@dataclass
class Tally:
    """What was opened and proved, over all searches of one result."""

    models: int = 0
    closed: int = 0
    _shapes: set[Hashable] = field(default_factory=set)

    def open(self, shape: Hashable) -> None:
        """Count a shape, however often it is opened."""
        self._shapes.add(shape)

    @property
    def opened(self) -> int:
        """Shapes opened."""
        return len(self._shapes)


@dataclass(frozen=True)
class Found:
    """The best plan of a search, or the proof that there is none.

    Attributes
    ----------
    best
        The plan; None where nothing was found.
    next_bound
        Least bound of what was never opened; NEVER when all was.
    bound
        Proved lower bound of the goal; equal to the plan's value for an optimum.
    proved
        Every opened chunk was closed, and nothing unopened can be better.
    """

    best: Decision | None
    next_bound: int
    bound: int
    proved: bool


def _never() -> bool:
    return False


def _unseen(bound: int, value: int | None) -> None:
    """Tell nobody."""


@dataclass
class Clock:
    """A wall-clock limit shared by all the searches of one result.

    Attributes
    ----------
    limit_s
        Seconds in all; None for no limit.
    stop
        Asked between models: whether whoever waits has had enough.
    watch
        Told the least bound and the best value of the objective so far, in its integer unit.
    """

    limit_s: float | None = None
    stop: Callable[[], bool] = _never
    watch: Callable[[int, int | None], None] = _unseen
    started: float = field(default_factory=time.monotonic)

    def left(self) -> float | None:
        """Seconds left; None without a limit."""
        if self.limit_s is None:
            return None
        return self.limit_s - (time.monotonic() - self.started)

    def over(self) -> bool:
        """Whether the limit has passed, or the search was told to stop."""
        left = self.left()
        return self.stop() or (left is not None and left <= 0)


@dataclass
class Searcher:
    """Searches over one priced space."""

    instance: Instance
    priced: Priced
    settings: SolverSettings
    clock: Clock
    tally: Tally

    @cached_property
    def bounds(self) -> IntArray:
        """Bounds of the goal of every shape, (N,), as far as they were worked out.

        NEVER where a limit excludes a shape by its bound.
        """
        return self._values(np.arange(len(self.priced.shapes)))

    def _values(self, rows: IntArray) -> IntArray:
        """Bound the goal of some shapes by what is known of them."""
        instance, priced = self.instance, self.priced
        step, held = priced.step_bound[rows], priced.shapes.held[rows]
        value = instance.value(instance.goal, step, priced.memory_bound[rows], held)
        endless = instance.charged(step, held) > LONGEST_STEP
        for excluded in (endless, *self.excluded(rows).values()):
            value = np.where(excluded, NEVER, value)
        return np.asarray(value, dtype=np.int64)

    def excluded(self, rows: IntArray | slice = slice(None)) -> dict[str, BoolArray]:
        """Mark the shapes that each limit excludes by what is known of their bounds."""
        instance, priced = self.instance, self.priced
        held = priced.shapes.held[rows]
        charged = instance.charged(priced.step_bound[rows], held)
        broken = {
            "memory": priced.memory_bound[rows] > instance.capacity_mib,
            "deadline": charged > instance.longest_step,
            "budget": charged * held > instance.most_gpu_ticks,
        }
        return {name: found for name, found in broken.items() if instance.holds(name)}

    def bound(self, rows: IntArray) -> IntArray:
        """Work out the bounds of some shapes, and return those of their goal."""
        self.priced.bound(rows)
        self.bounds[rows] = self._values(rows)
        return self.bounds[rows]

    def refined(self, rows: IntArray) -> IntArray:
        """Price shapes and bound their goal; NEVER where no choice fits."""
        self.priced.price(rows.tolist())
        least = self.priced.least(self.instance.goal, self.instance.caps)
        return np.maximum(least[rows], self.bounds[rows])

    def best(
        self, rows: IntArray, below: int, batch: int = BATCH, enough: int = 0, gap: float = 0.0
    ) -> Found:
        """Find the least goal under ``below`` among ``rows``, with its proof; ties unbroken.

        The search ends at the first plan whose goal is at most ``enough``, or at the first that is
        certified to be within ``gap`` of the best.
        """
        queue = Queue(self, rows, below, batch)
        best: Decision | None = None
        value, open_bound, proved = below, NEVER, True
        while not self.clock.over() and (chunk := queue.take(value, CHUNK)):
            if best is not None:
                least = min(chunk[0][0], queue.remaining())
                if value <= enough or value - min(least, open_bound) <= gap * value:
                    return Found(best, least, min(least, open_bound), proved=False)
            places = [row for _, row in chunk]
            self.clock.watch(chunk[0][0], None if best is None else value)
            guess = min(self._guess(row) for row in places)
            at_most = min(value - 1, guess)
            tables = self.priced.tables(places, self.instance.goal, at_most)
            answer = solve_chunk(self.instance, tables, at_most, self._timed())
            if answer.status == "infeasible" and guess < value:
                raise RuntimeError(f"CP-SAT excludes {places} under {at_most}; {guess} is legal")
            self.tally.models += 1
            for row in places:
                self.tally.open(tuple(self.priced.shapes.row(row).values()))
            if answer.status in ("optimal", "infeasible"):
                self.tally.closed += 1
            else:
                proved = False
                open_bound = min(open_bound, max(answer.bound, chunk[0][0]))
            if answer.row is not None and answer.choice is not None:
                best = decide(self.instance, tables, answer.row, places[answer.row], answer.choice)
                self._agrees(best, answer)
                value = best.value(self.instance)
        next_bound = queue.remaining()
        proved = proved and next_bound >= value
        return Found(best, next_bound, min(value, next_bound, open_bound), proved)

    def _guess(self, row: int) -> int:
        """Return the goal of some legal plan of a shape: where CP-SAT starts, and a test of it.

        The least sharding by bound, and the fastest recomputation that fits; NEVER where these
        break a limit together.
        """
        goal = self.instance.goal
        tables = self.priced.tables([row], goal, NEVER)
        step, memory = refined_bounds(self.instance, tables)
        values = self.instance.value(goal, step, memory, tables.shapes.held[:, None])
        column = int(np.where(step == NEVER, NEVER, values)[0].argmin())
        guesses = (
            decide(self.instance, tables, 0, row, choice) for choice in self._likely(tables, column)
        )
        legal = [g.value(self.instance) for g in guesses if self._legal(g, tables)]
        return min(legal, default=NEVER)

    def _likely(self, tables: Tables, column: int) -> Iterator[Choice]:
        """Yield the choices of recomputation that one would try by hand."""
        if self.instance.search.recompute_by_stage:
            fits = tables.memory[0, :, :, column] <= self.instance.capacity_mib
            pace = np.where(fits, tables.pace[0, :, :, column], NEVER)
            first, middle, last = (int(pace[c].argmin()) for c in (FIRST, HEAVY, LAST))
            yield Choice(column, (first, middle, last))
            return
        count = tables.stages.count[0]
        inner, end = int(count[LIGHT] + count[HEAVY] > 0), int(count[LAST] > 0)
        for kind in range(tables.pace.shape[2]):
            yield Choice(column, (kind, inner * kind, end * kind))

    def _legal(self, guess: Decision, tables: Tables) -> bool:
        """Whether a guess keeps what its choices decide."""
        allowance = int(self.instance.allowance(tables.compute)[0])
        return (
            guess.memory <= self.instance.capacity_mib
            and guess.communication <= allowance
            and guess.charged <= self.instance.longest_step
            and guess.gpu_ticks <= self.instance.most_gpu_ticks
        )

    def _agrees(self, best: Decision, answer: ChunkAnswer) -> None:
        """Raise where the estimator and CP-SAT disagree about a plan: two truths are a bug.

        An answer that was cut short may leave slack in its quantities; an optimum may not.
        """
        value, said = best.value(self.instance), answer.value
        agrees = value == said if answer.status == "optimal" else said is not None and value <= said
        if not agrees:
            raise RuntimeError(f"CP-SAT says {said}, the estimator {value} for {best}")

    def unique(self, rows: IntArray, best: Decision) -> Decision | None:
        """Return the plan that the rules prefer among all with the goal of ``best``.

        Shapes are taken in the order of what they can reach at most in the first rules, and the
        rest is left out once it cannot win. None where time ran out.
        """
        value = best.value(self.instance)
        able = rows[self.bounds[rows] <= value]
        able = able[self.bound(able) <= value]
        tied = able[self.refined(able) <= value].tolist()
        if len(tied) == 1 and self._is_single(tied[0], value):
            return best
        tied.sort(key=lambda row: (self._reach(row, value), row))
        winner = best
        for start in range(0, len(tied), TIED):
            group = tied[start : start + TIED]
            reach = [r for r in group if self._reach(r, value) <= winner.key(self.instance)[1:3]]
            if not reach:
                break
            if self.clock.over():
                return None
            tables = self.priced.tables(reach, self.instance.goal, value)
            answer = break_ties(self.instance, tables, value, self._timed())
            self.tally.models += 1
            if answer.status == "unknown":
                return None
            self.tally.closed += 1
            if answer.row is not None and answer.choice is not None:
                one = decide(self.instance, tables, answer.row, reach[answer.row], answer.choice)
                winner = min(winner, one, key=lambda d: d.key(self.instance))
        return winner

    def _is_single(self, row: int, value: int) -> bool:
        """Whether a shape has one choice with a goal of at most ``value``, so nothing is tied."""
        if self.instance.search.recompute_by_stage:
            return False
        tables = self.priced.tables([row], self.instance.goal, value)
        return int((legal_values(self.instance, tables) <= value).sum()) == 1

    def _reach(self, row: int, value: int) -> tuple[int, int]:
        """Least second objective and axes that a shape can have at the goal ``value``."""
        shapes = self.priced.shapes
        held = int(shapes.held[row])
        second = {"time": held * value, "cost": -(-value // held), "memory": 0}[self.instance.goal]
        return second, int(self.priced.axes[row])

    def _timed(self) -> SolverSettings:
        left = self.clock.left()
        if left is None:
            return self.settings
        return SolverSettings(self.settings.seed, self.settings.workers, max(left, 1e-3))
