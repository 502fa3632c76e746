"""Least squares of the profiles' constants over runs, predicted through the product."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from benchmarks._fold import Fold
from solver.calibration.batch import steps
from solver.calibration.runs import Run

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
HERE = Path(__file__).resolve().parent
PROFILES = HERE.parents[0] / "solver" / "cost" / "profiles"
ERROR_SCALE = 0.03
"""Relative error from which residuals count linearly: the repeatability of the same run."""
FAMILY_FLOOR, FAMILY_POWER, FAMILY_REFERENCE = 8, 0.1, 30
"""A row weighs (30 / n) ** 0.1, n its family's rows but at least 8: large tables count more in
all, small ones more a row."""
STEP = 1e-4
"""Relative step of the numeric derivative."""
REFRESH = 3
"""Steps after which the slopes are worked out again."""
ROUNDS = 24
"""Steps at most; more change nothing that shows."""
PROBES = 5
"""Points at which a constant's effect on a run is looked for."""
NO_EFFECT = 1e-7
"""Slope below which a constant does not touch a run."""


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
    parent
        Constant that this one follows, ``owner`` of the same or ``owner.name``: the prior then is
        on their ratio. Empty for a prior on the value itself.
    """

    kind: str
    owner: str
    name: str
    prior: float
    sigma: float
    least: float
    most: float
    parent: str = ""

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
            for name, (prior, sigma, *rest) in fields.items():
                parent = rest.pop() if rest and isinstance(rest[-1], str) else ""
                least, most = rest or (float(prior) / 20, float(prior) * 20)
                found.append(
                    Constant(
                        kind, owner, name, float(prior), sigma, float(least), float(most), parent
                    )
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
        own = {(c.owner, c.name) for c in moving if c.kind == "stack"}
        self.named = [
            [j for j, c in enumerate(moving) if _uses(run, c, stacks, own)] for run in runs
        ]
        """Constants of each run's profile; all are set, so that no file's figure plays a part."""
        self.used = self.named
        """Those that its step depends on: the ones that slopes are worked out for."""
        sizes = Counter(family(r) for r in runs)
        self.weight = np.array(
            [
                (FAMILY_REFERENCE / max(sizes[family(r)], FAMILY_FLOOR)) ** (FAMILY_POWER / 2)
                for r in runs
            ]
        )
        self.measured = np.log([r.measured_s for r in runs])
        self.priors = np.array([math.log(c.prior) for c in moving])
        self.ties = _ties(moving)
        self.low = np.array([math.log(c.least) for c in moving])
        self.high = np.array([math.log(c.most) for c in moving])
        self._drop_unused()

    def _drop_unused(self) -> None:
        """Forget constants that change a run's step nowhere: not at the priors nor around them."""
        rng = np.random.default_rng(0)
        around = rng.normal(size=(PROBES, len(self.moving))) * [c.sigma for c in self.moving]
        around[0] = 0.0
        points = np.clip(self.priors + around, self.low, self.high)
        slopes = self.tangents(points, np.ones((PROBES, len(self.runs)), bool))[1]
        effect = np.abs(slopes).max(axis=0) > NO_EFFECT
        self.used = [[j for j in used if effect[i, j]] for i, used in enumerate(self.used)]

    def with_constants(self, index: int, x: Array) -> Run:
        """Return a run with the constants exp(x) in its profile."""
        run, parts = self.runs[index], {"gpu": {}, "stack": {}}  # type: ignore[var-annotated]
        for j in self.named[index]:
            c = self.moving[j]
            parts["gpu" if c.kind == "gpu" else "stack"][c.name] = math.exp(x[j])
        changed = {k: getattr(run.profile, k).model_copy(update=v) for k, v in parts.items()}
        return replace(run, profile=run.profile.model_copy(update=changed))

    def log_steps(self, index: int, points: Array) -> Array:
        """Logarithms of one run's step under constants exp(points); (P, constants) → (P,)."""
        parts: dict[str, dict[str, Array]] = {"gpu": {}, "stack": {}}
        for j in self.named[index]:
            c = self.moving[j]
            parts["gpu" if c.kind == "gpu" else "stack"][c.name] = np.exp(points[:, j])
        return np.log(steps(self.runs[index], parts["gpu"], parts["stack"]))

    def errors(self, x: Array) -> Array:
        """Log errors of all runs."""
        point = x[None, :]
        found = [self.log_steps(i, point)[0] for i in range(len(self.runs))]
        return np.asarray(np.array(found) - self.measured)

    def tangents(self, points: Array, keep: Mask) -> tuple[Array, Array]:
        """Log errors (F, runs) and their slopes (F, runs, constants) at F points.

        ``keep`` (F, runs) says which are wanted; the others are 0.
        """
        errors = np.zeros(keep.shape)
        slopes = np.zeros((*keep.shape, len(self.moving)))
        for i in range(len(self.runs)):
            folds, used = np.flatnonzero(keep[:, i]), np.array(self.used[i])
            if not len(folds):
                continue
            moved = points[folds, None, :].repeat(1 + len(used), axis=1)
            moved[:, np.arange(1, 1 + len(used)), used] += STEP
            logs = self.log_steps(i, moved.reshape(-1, points.shape[1])).reshape(len(folds), -1)
            slope = (logs[:, 1:] - logs[:, :1]) / STEP
            errors[folds, i] = logs[:, 0] - self.measured[i]
            slopes[folds[:, None], i, used[None, :]] = slope
        return errors, slopes

    def values(self, points: Array, keep: Mask) -> Array:
        """Log errors (F, runs) at F points."""
        errors = np.zeros(keep.shape)
        for i in range(len(self.runs)):
            folds = np.flatnonzero(keep[:, i])
            if len(folds):
                errors[folds, i] = self.log_steps(i, points[folds]) - self.measured[i]
        return errors

    def objective(self, errors: Array, x: Array) -> Array:
        """Soft-L1 residuals of runs, then of priors."""
        z = errors / ERROR_SCALE
        soft = self.weight * np.sign(z) * np.sqrt(2 * (np.sqrt(1 + z**2) - 1))
        return np.concatenate([soft, self.ties @ (x - self.priors)])

    def derivative(self, errors: Array, slopes: Array) -> Array:
        """Jacobian of ``objective``."""
        z = errors / ERROR_SCALE
        soft = np.sqrt(2 * (np.sqrt(1 + z**2) - 1))
        # d soft / d z = z / (sqrt(1 + z^2) soft), 1 at z = 0
        chain = np.abs(z) / (np.sqrt(1 + z**2) * np.maximum(soft, 1e-9))
        chain = self.weight / ERROR_SCALE * np.where(soft > 1e-9, chain, 1.0)
        return np.vstack([chain[:, None] * slopes, self.ties])

    def solve(self, starts: Array, rounds: int, keep: Mask | None = None) -> Array:
        """Return the constants' logarithms at the optimum of each of F sets of runs.

        Gauss-Newton within bounds, all sets in step: each step solves the damped linear problem
        exactly. The slopes are worked out every third step and updated after Broyden in between,
        as they cost fifty evaluations. ``starts`` is (F, constants), ``keep`` (F, runs).
        """
        if keep is None:
            keep = np.ones((len(starts), len(self.runs)), bool)
        best = np.clip(starts, self.low, self.high)
        folds = [Fold(self, x, keep[f]) for f, x in enumerate(best)]
        for turn in range(rounds):
            active = [f for f in folds if not f.done]
            if not active:
                break
            points = np.array([f.trial for f in active])
            kept = np.array([f.keep for f in active])
            if turn % REFRESH == 0:
                errors, slopes = self.tangents(points, kept)
                for at, fold in enumerate(active):
                    fold.advance(errors[at], slopes[at], fresh=True)
            else:
                errors = self.values(points, kept)
                for at, fold in enumerate(active):
                    fold.advance(errors[at], fold.secant(errors[at]), fresh=False)
        return np.array([f.x for f in folds])

    def left_out(self, keys: Sequence[str], rounds: int, say: Callable[[str], None]) -> Array:
        """Predict each run with constants that never saw its group; relative errors.

        Every fold starts cold, from the priors.
        """
        groups = sorted(set(keys))
        held = np.array([[k == g for k in keys] for g in groups])
        found = self.solve(self.priors[None, :].repeat(len(groups), axis=0), rounds, ~held)
        out = np.zeros(len(self.runs))
        for i, key in enumerate(keys):
            log = self.log_steps(i, found[groups.index(key)][None, :])[0]
            out[i] = math.exp(log - self.measured[i]) - 1
        for g, rows in zip(groups, held, strict=True):
            say(f"without {g:<24}{rows.sum():>5} {100 * np.abs(out[rows]).mean():6.1f} %")
        return out


def _ties(moving: Sequence[Constant]) -> Array:
    """Matrix that turns distances from the priors into standard deviations, ratios for children."""
    at = {(c.owner, c.name): j for j, c in enumerate(moving)}
    table = np.zeros((len(moving), len(moving)))
    for j, c in enumerate(moving):
        table[j, j] = 1 / c.sigma
        if c.parent:
            owner, _, name = c.parent.partition(".")
            table[j, at["" if owner == "shared" else owner, name or c.name]] = -1 / c.sigma
    return table


def _uses(
    run: Run, c: Constant, stacks: Mapping[str, Mapping[str, Any]], own: set[tuple[str, str]]
) -> bool:
    """Whether a run's step may depend on a constant: a stack's own value hides the shared one."""
    if c.kind == "gpu":
        return run.profile.gpu.family == c.owner
    if c.kind == "stack":
        return run.stack == c.owner
    return c.name not in stacks[run.stack] and (run.stack, c.name) not in own
