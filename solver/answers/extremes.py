"""The fewest GPUs, and the longest sequence, deepest model and largest batch that still fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from topology.errors import InputError
from topology.units import show_count

from ..job.job import MAX_BATCH_TOKENS, PlanningProblem
from ..job.transformer import MAX_TOKENS
from ..result import Result
from ..search.best_first import Clock, Searcher, Tally
from ..search.clashes import Grounds
from ..search.cpsat.factory import SolverSettings
from ..search.pricing import NEVER, Priced
from ..search.search import instance_of, solve
from ..search.space import build_space

GOALS = ("gpus", "seq_len", "params", "global_batch")
"""What can be smallest (GPUs) or largest (the others)."""

SEQ_STEP = 1024
"""Sequence lengths are looked at in multiples of 1,024 tokens."""
MOST_DOUBLINGS = 24


@dataclass(frozen=True)
class Extreme:
    """The outermost value that holds a plan.

    Attributes
    ----------
    what, value, unit
        Figure, its outermost value, and unit.
    problem, result
        The problem at that value, and its plans; the least of it where none fits at any.
    beyond
        What the next value breaks.
    """

    what: str
    value: float | None
    unit: str
    problem: PlanningProblem
    result: Result
    beyond: str

    @property
    def text(self) -> str:
        """Write it in a sentence."""
        if self.value is None:
            return f"no {self.what} holds a plan"
        side = "fewest" if self.what == "gpus" else "largest"
        named = show_count(self.value) if self.what == "params" else f"{self.value:,.0f}"
        return f"{side} {self.what}: {named} {self.unit}" + (f"; {self.beyond}" * bool(self.beyond))


def extreme(problem: PlanningProblem, what: str, *, seed: int = 0, workers: int = 1) -> Extreme:
    """Find the outermost value of a figure, and solve the problem there."""
    if what == "gpus":
        return _fewest(problem, seed, workers)
    return _largest(problem, _SCALES[what], seed, workers)


def _fewest(problem: PlanningProblem, seed: int, workers: int) -> Extreme:
    """Look at GPU counts in ascending order; the first with a plan is the fewest."""
    instance = instance_of(problem)
    shapes = build_space(instance).shapes
    priced = Priced.of(instance, shapes)
    searcher = Searcher(instance, priced, SolverSettings(seed, workers), Clock(), Tally())
    able = np.flatnonzero(searcher.bounds < NEVER)
    for count in np.unique(shapes.gpus[able]):
        rows = able[shapes.gpus[able] == count]
        if searcher.best(rows, NEVER, enough=NEVER).best is not None:
            search = problem.search.model_copy(update={"gpus": int(count)})
            there = replace(problem, search=search)
            result = solve(there, seed=seed, workers=workers)
            return Extreme("gpus", float(count), "GPUs", there, result, "fewer hold no plan")
    return Extreme("gpus", None, "GPUs", problem, solve(problem, seed=seed, workers=workers), "")


@dataclass(frozen=True)
class _Scale:
    """A figure that grows until nothing fits.

    ``change`` gives the problem with so many steps of it, ``value`` what a problem has of it.
    """

    what: str
    unit: str
    change: Callable[[PlanningProblem, int], PlanningProblem]
    value: Callable[[PlanningProblem], float]
    most: int


def _longer(problem: PlanningProblem, steps: int) -> PlanningProblem:
    """Lengthen the sequences; the tokens of a step stay as far as whole sequences allow."""
    length = steps * SEQ_STEP
    sequences = max(problem.job.step_tokens // length, 1)
    job = problem.job.model_copy(update={"seq_len": length, "global_batch": sequences})
    return replace(problem, job=job)


def _deeper(problem: PlanningProblem, layers: int) -> PlanningProblem:
    """Change the number of layers; the width stays."""
    model = problem.job.transformer.model_copy(update={"layers": layers})
    return replace(problem, job=problem.job.model_copy(update={"transformer": model}))


def _larger(problem: PlanningProblem, steps: int) -> PlanningProblem:
    """Multiply the batch of the problem."""
    batch = steps * problem.job.global_batch
    return replace(problem, job=problem.job.model_copy(update={"global_batch": batch}))


def _parameters(problem: PlanningProblem) -> float:
    return float(problem.job.transformer.parameters().total)


_SCALES = {
    "seq_len": _Scale(
        "seq_len", "tokens", _longer, lambda p: p.job.seq_len, MAX_TOKENS // SEQ_STEP
    ),
    "params": _Scale("params", "parameters, by more layers", _deeper, _parameters, 10_000),
    "global_batch": _Scale(
        "global_batch", "sequences", _larger, lambda p: p.job.global_batch, MAX_BATCH_TOKENS
    ),
}


def _largest(problem: PlanningProblem, scale: _Scale, seed: int, workers: int) -> Extreme:
    """Double until nothing fits, then bisect."""
    low, high = 0, 1
    for _ in range(MOST_DOUBLINGS):
        if high > scale.most or not _fits(problem, scale, high):
            break
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(problem, scale, middle) else (low, middle)
    if low == 0:
        least = scale.change(problem, 1)
        nothing = solve(least, seed=seed, workers=workers)
        return Extreme(scale.what, None, scale.unit, least, nothing, "")
    found = scale.change(problem, low)
    result = solve(found, seed=seed, workers=workers)
    beyond = _beyond(problem, scale, high)
    return Extreme(scale.what, scale.value(found), scale.unit, found, result, beyond)


def _fits(problem: PlanningProblem, scale: _Scale, steps: int) -> bool:
    """Whether any plan keeps the limits."""
    try:
        instance = instance_of(scale.change(problem, steps))
        grounds = Grounds(instance, SolverSettings(), Clock())
        return not grounds.structural and grounds.feasible(frozenset(grounds.limits))
    except (InputError, ValueError):  # outside of what is planned for
        return False


def _beyond(problem: PlanningProblem, scale: _Scale, steps: int) -> str:
    """Say what the next value breaks."""
    try:
        next_one = scale.change(problem, steps)
        grounds = Grounds(instance_of(next_one), SolverSettings(), Clock())
    except (InputError, ValueError):
        return "more is not planned for"
    value = scale.value(next_one)
    named = show_count(value) if scale.what == "params" else f"{value:,.0f}"
    if grounds.structural:
        return f"at {named} no layout divides"
    if not grounds.feasible(frozenset()):
        return "more is not planned for"
    clash = next(grounds.clashes(), frozenset())
    return f"at {named} it breaks {' and '.join(sorted(clash))}" if clash else ""
