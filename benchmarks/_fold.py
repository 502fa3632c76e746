"""One set of runs on its way to its optimum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from benchmarks._fit import Fit

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
MOST_DAMPED = 10.0
"""Damping at which no step helps any more."""
CONVERGED = 0.1
"""Gain of the objective below which the fit ends."""


class Fold:
    """One set of runs on its way to its optimum: the best point so far and the next to try."""

    def __init__(self, fit: Fit, start: Array, keep: Mask) -> None:
        self.fit, self.keep, self.x, self.trial = fit, keep, start, start
        self.value = math.inf
        self.damping, self.done = 0.01, False
        self.at: tuple[Array, Array] | None = None

    def secant(self, errors: Array) -> Array:
        """Slopes corrected by what the trial has shown (Broyden's rank-one update)."""
        assert self.at is not None
        before, slopes = self.at
        step = self.trial - self.x
        missed = errors - before - slopes @ step
        return np.asarray(slopes + np.outer(missed, step) / max(float(step @ step), 1e-12))

    def advance(self, errors: Array, slopes: Array, *, fresh: bool) -> None:
        """Take the trial if it is better, and work out the next."""
        tried = self.fit.objective(np.where(self.keep, errors, 0.0), self.trial)
        value = 0.5 * float(tried @ tried)
        if value < self.value:
            self.done = fresh and self.value - value < CONVERGED
            self.x, self.value, self.at = self.trial, value, (errors, slopes)
            self.damping /= 4
        else:
            self.at = (self.at[0], slopes) if self.at and not fresh else self.at
            self.damping = max(8 * self.damping, 0.01)
            self.done = self.damping > MOST_DAMPED
        if self.at is None or self.done:
            return
        table = self.fit.derivative(*self.at)
        residual = self.fit.objective(np.where(self.keep, self.at[0], 0.0), self.x)
        low, high = self.fit.low - self.x, self.fit.high - self.x
        self.trial = self.x + bounded_step(table, residual, self.damping, low, high)


def bounded_step(table: Array, value: Array, damping: float, low: Array, high: Array) -> Array:
    """Minimise |table · step + value|² + damping |D step|² within bounds, D the columns' norms.

    Normal equations; constants that would leave their bounds are held there, and the others solved
    again.
    """
    normal, slope = table.T @ table, -table.T @ value
    normal += damping * np.diag(np.diag(normal))
    step, free = np.zeros(len(slope)), np.ones(len(slope), bool)
    for _ in range(len(slope)):
        rest = slope[free] - normal[np.ix_(free, ~free)] @ step[~free]
        step[free] = np.linalg.solve(normal[np.ix_(free, free)], rest)
        outside = free & ((step < low) | (step > high))
        if not outside.any():
            break
        step = np.where(outside, np.clip(step, low, high), step)
        free &= ~outside
    return np.asarray(np.clip(step, low, high))
