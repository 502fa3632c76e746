"""Three multipliers of a profile's times, fitted to a few measured runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..cost.own_profile import KINDS, scaled
from .batch import steps
from .runs import Run

Array = npt.NDArray[np.float64]

SPREAD = np.array([0.10, 0.30, 0.30])
"""How far clusters differ: standard deviations of the logarithms of compute (clocks and power,
8–10 % between clusters of one GPU), communication (fabrics reach a third to all of their rate) and
overhead (hosts). Measured as what families left out of the fit differ by; see docs/accuracy.md."""
ERROR = 0.05
"""Relative error of one step that no multiplier explains: the median of families left out."""
ROUNDS = 12
STEP = 1e-4
LARGEST_STEP = 0.5
FEW_RUNS = 5
EXPECTED, SHARE = 0.06, 0.4
GAIN = 0.25
"""When a fit replaces the shipped profile. With up to five runs the shipped profile must miss them
by more than it is expected to miss runs (6 %, the mean of dense families left out), each of them,
left out, must be predicted better, and their mean error fall to two fifths: three runs of one
cluster agree by chance more often than it seems. With more runs their mean error must fall by a
quarter. Chosen on families left out of the fit (benchmarks/calibration.py): looser rules gained
more on new clusters and lost on known ones."""


@dataclass(frozen=True)
class Calibration:
    """What a fit found.

    Attributes
    ----------
    times
        Multipliers in the order of ``KINDS``; all 1 where the shipped profile is kept.
    before, after
        Relative errors of the runs, shipped and fitted.
    left_out
        Relative error of each run under a fit to the others.
    kept
        The shipped profile is kept: the fit doesn't predict runs that it has not seen better.
    """

    times: tuple[float, ...]
    before: Array
    after: Array
    left_out: Array
    kept: bool


def log_steps(run: Run, points: Array) -> Array:
    """Logarithm of the step of a run under multipliers exp(points), (P, 3) → (P,)."""
    times = {kind: np.exp(points[:, j]) for j, kind in enumerate(KINDS)}
    parts = scaled(run.profile, times)
    gpu, stack = (
        {k: np.broadcast_to(np.asarray(v, dtype=np.float64), (len(points),)) for k, v in p.items()}
        for p in (parts["gpu"], parts["stack"])
    )
    return np.log(steps(run, gpu, stack))


def fitted(runs: Sequence[Run]) -> Array:
    """Return the logarithms of the multipliers at the optimum.

    Least squares of soft-L1 log errors and of the distance from 1, by Gauss-Newton.
    """
    measured = np.log([run.measured_s for run in runs])
    x = np.zeros(len(KINDS))
    moves = np.vstack([np.zeros(len(KINDS)), STEP * np.eye(len(KINDS))])
    for _ in range(ROUNDS):
        logs = np.array([log_steps(run, x + moves) for run in runs])
        z = (logs[:, 0] - measured) / ERROR
        slopes = (logs[:, 1:] - logs[:, :1]) / STEP / ERROR
        weight = 1 / np.sqrt(1 + z**2)  # of soft-L1: outliers count linearly
        normal = slopes.T @ (weight[:, None] * slopes) + np.diag(SPREAD**-2)
        step = np.linalg.solve(normal, -slopes.T @ (weight * z) - x / SPREAD**2)
        x = x + np.clip(step, -LARGEST_STEP, LARGEST_STEP)
        if np.abs(step).max() < STEP:
            break
    return np.asarray(x)


def errors(runs: Sequence[Run], x: Array) -> Array:
    """Relative errors of runs under multipliers exp(x)."""
    logs = np.array([log_steps(run, x[None, :])[0] for run in runs])
    return np.asarray(np.exp(logs) / np.array([run.measured_s for run in runs]) - 1)


def _better(shipped: Array, left_out: Array) -> bool:
    """Whether the errors of runs left out justify a profile of one's own."""
    if len(shipped) > FEW_RUNS:
        return bool(left_out.mean() <= (1 - GAIN) * shipped.mean())
    surprising = shipped.mean() > EXPECTED
    close = left_out.mean() <= SHARE * shipped.mean()
    return bool(surprising and close and (left_out < shipped).all())


def calibrate(runs: Sequence[Run]) -> Calibration:
    """Fit the multipliers, and keep the shipped profile unless runs left out gain from them."""
    before = errors(runs, np.zeros(len(KINDS)))
    left_out = np.array(
        [
            errors([run], fitted([r for j, r in enumerate(runs) if j != i]))[0]
            for i, run in enumerate(runs)
        ]
    )
    kept = not _better(np.abs(before), np.abs(left_out))
    x = np.zeros(len(KINDS)) if kept else fitted(runs)
    times = tuple(float(f"{v:.4g}") for v in np.exp(x))
    return Calibration(times, before, errors(runs, np.log(times)), left_out, kept)
