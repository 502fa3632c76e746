"""Least squares of the profiles' constants over runs, predicted through the product."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml
from scipy.optimize import lsq_linear

from benchmarks._runs import Run, predict

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
HERE = Path(__file__).resolve().parent
PROFILES = HERE.parents[0] / "solver" / "cost" / "profiles"
ERROR_SCALE = 0.03
"""Relative error from which residuals count linearly: the repeatability of the same run."""
FAMILY_FLOOR, FAMILY_POWER, FAMILY_REFERENCE = 8, 0.35, 30
"""A row weighs (30 / n) ** 0.35, n its family's rows but at least 8: large tables count more in
all, small ones more a row."""
STEP = 2e-3
"""Relative step of the numeric derivative; times are in ticks of 0.1 µs."""
REFRESH = 3
"""Steps after which the derivative is worked out again."""
NO_EFFECT = 1e-7
"""Slope below which a constant does not touch a run."""
CONVERGED = 0.3
"""Gain of the objective below which the fit ends."""


@dataclass(frozen=True)
class Constant:
    """One constant that moves.

    Attributes
    ----------
    kind, owner, name
        ``gpu`` family, ``stack`` or ``shared`` (owner empty), and the field.
    prior, sigma
        Centre, and standard deviation of its logarithm.
    least, most
        Bounds.
    """

    kind: str
    owner: str
    name: str
    prior: float
    sigma: float
    least: float
    most: float

    @property
    def label(self) -> str:
        """Name for the report."""
        return f"{self.owner or self.kind}.{self.name}"


def constants() -> list[Constant]:
    """Read the table of constants."""
    table = yaml.safe_load((HERE / "fit_profiles.yaml").read_text("utf-8"))
    found = []
    for kind, owners in table.items():
        for owner, fields in {"": owners}.items() if kind == "shared" else owners.items():
            for name, (prior, sigma, *bounds) in fields.items():
                least, most = bounds or (float(prior) / 20, float(prior) * 20)
                found.append(
                    Constant(kind, owner, name, float(prior), sigma, float(least), float(most))
                )
    return found


def family(run: Run) -> str:
    """Return the family of a run: releases of one table are one."""
    return re.split(r"[-. ]", run.series)[0]


class Fit:
    """Residuals and their derivative over a set of runs."""

    def __init__(self, runs: Sequence[Run], moving: Sequence[Constant]) -> None:
        self.runs, self.moving = runs, moving
        stacks = yaml.safe_load((PROFILES / "stacks.yaml").read_text("utf-8"))["stacks"]
        self.own = {c: [self._uses(r, c, stacks) for r in runs] for c in moving}
        sizes = Counter(family(r) for r in runs)
        self.weight = np.array(
            [
                (FAMILY_REFERENCE / max(sizes[family(r)], FAMILY_FLOOR)) ** (FAMILY_POWER / 2)
                for r in runs
            ]
        )
        self.measured = np.log([r.measured_s for r in runs])
        self.dead: set[tuple[int, int]] = set()

    def _uses(self, run: Run, c: Constant, stacks: Mapping[str, Mapping[str, Any]]) -> bool:
        if c.kind == "gpu":
            return run.profile.gpu.family == c.owner
        if c.kind == "stack":
            return run.stack == c.owner
        moved = any(
            o.kind == "stack" and o.owner == run.stack and o.name == c.name for o in self.moving
        )
        return c.name not in stacks[run.stack] and not moved

    def log_step(self, index: int, x: Array) -> float:
        """Logarithm of the predicted step of one run under constants exp(x)."""
        run = self.runs[index]
        gpu: dict[str, float] = {}
        stack: dict[str, float] = {}
        for c, value in zip(self.moving, x, strict=True):
            if self.own[c][index]:
                (gpu if c.kind == "gpu" else stack)[c.name] = math.exp(value)
        profile = run.profile.model_copy(
            update={
                "gpu": run.profile.gpu.model_copy(update=gpu),
                "stack": run.profile.stack.model_copy(update=stack),
            }
        )
        return math.log(predict(run, profile))

    def errors(self, x: Array, keep: Mask | None = None) -> Array:
        """Log errors of all runs; 0 for those that ``keep`` leaves out."""
        kept = np.ones(len(self.runs), bool) if keep is None else keep
        steps = [self.log_step(i, x) if kept[i] else 0.0 for i in range(len(self.runs))]
        return np.where(kept, np.array(steps) - self.measured, 0.0)

    def residuals(self, errors: Array, x: Array) -> Array:
        """Soft-L1 residuals of runs, then of priors."""
        z = errors / ERROR_SCALE
        soft = self.weight * np.sign(z) * np.sqrt(2 * (np.sqrt(1 + z**2) - 1))
        prior = [(v - math.log(c.prior)) / c.sigma for c, v in zip(self.moving, x, strict=True)]
        return np.concatenate([soft, prior])

    def slopes(self, x: Array, base: Array, keep: Mask | None = None) -> Array:
        """Derivative of the log steps; pairs without effect are remembered and skipped."""
        table = np.zeros((len(self.runs), len(x)))
        for j, c in enumerate(self.moving):
            moved = x.copy()
            moved[j] += STEP
            for i, used in enumerate(self.own[c]):
                if not used or (i, j) in self.dead or (keep is not None and not keep[i]):
                    continue
                table[i, j] = (self.log_step(i, moved) - self.measured[i] - base[i]) / STEP
                if abs(table[i, j]) < NO_EFFECT:
                    self.dead.add((i, j))
        return table

    def derivative(self, errors: Array, slopes: Array) -> Array:
        """Jacobian of ``residuals``."""
        z = errors / ERROR_SCALE
        soft = np.sqrt(2 * (np.sqrt(1 + z**2) - 1))
        # d soft / d z = z / (sqrt(1 + z^2) soft), 1 at z = 0
        chain = np.abs(z) / (np.sqrt(1 + z**2) * np.maximum(soft, 1e-9))
        chain = self.weight / ERROR_SCALE * np.where(soft > 1e-9, chain, 1.0)
        return np.vstack([chain[:, None] * slopes, np.diag([1 / c.sigma for c in self.moving])])

    def solve(
        self, start: Array, rounds: int, *, keep: Mask | None = None, first: Array | None = None
    ) -> Array:
        """Return the constants' logarithms at the optimum.

        Gauss-Newton within bounds: each step solves the damped linear problem exactly
        (scipy.optimize.lsq_linear); the slopes are worked out every third step and updated after
        Broyden in between, as they cost a hundred evaluations. ``first`` are slopes at ``start``.
        """
        low = np.array([math.log(c.least) for c in self.moving])
        high = np.array([math.log(c.most) for c in self.moving])
        x = np.clip(start, low, high)
        errors = self.errors(x, keep)
        value, damping, slopes, age = self.residuals(errors, x), 0.3, first, 0
        for _ in range(rounds):
            if slopes is None or age >= REFRESH:
                slopes, age = self.slopes(x, errors, keep), 0
            table = self.derivative(errors, slopes)
            step = _bounded_step(table, value, damping, low - x, high - x)
            moved = self.errors(x + step, keep)
            tried = self.residuals(moved, x + step)
            gain = 0.5 * float(value @ value - tried @ tried)
            missed = moved - errors - slopes @ step
            slopes = slopes + np.outer(missed, step) / max(float(step @ step), 1e-12)
            age += 1
            if gain > 0:
                x, value, errors, damping = x + step, tried, moved, damping / 2
            else:
                damping, age = damping * 4, REFRESH if age > 1 else age
            if 0 <= gain < CONVERGED:
                break
        return np.asarray(x)

    def left_out(self, keys: Sequence[str], rounds: int, say: Callable[[str], None]) -> Array:
        """Predict each run with constants that never saw its group; relative errors.

        Every fold starts cold, from the priors; the slopes there are shared.
        """
        start = np.array([math.log(c.prior) for c in self.moving])
        first = self.slopes(start, self.errors(start))
        out = np.zeros(len(self.runs))
        for key in sorted(set(keys)):
            held = np.array([k == key for k in keys])
            x = self.solve(start, rounds, keep=~held, first=first)
            out[held] = np.exp(self.errors(x, held)[held]) - 1
            say(f"without {key:<24}{held.sum():>5} {100 * np.abs(out[held]).mean():6.1f} %")
        return out


def _bounded_step(table: Array, value: Array, damping: float, low: Array, high: Array) -> Array:
    """Minimise |table · step + value|² + damping |D step|² within bounds, D the columns' norms."""
    size = np.sqrt(damping * (table**2).sum(axis=0))
    rows = np.vstack([table, np.diag(size)])
    target = np.concatenate([-value, np.zeros(len(size))])
    return np.asarray(lsq_linear(rows, target, bounds=(low - 1e-9, high + 1e-9), tol=1e-8).x).clip(
        low, high
    )
