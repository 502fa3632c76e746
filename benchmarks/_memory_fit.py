"""Least squares of the memory constants over measured peaks, predicted through the product."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import yaml
from scipy.optimize import least_squares

from benchmarks._memory_rows import MemoryRun

Array = npt.NDArray[np.float64]
HERE = Path(__file__).resolve().parent
ERROR_SCALE = 0.03
"""Relative error from which residuals count linearly: two readings of one configuration differ by
as much."""


@dataclass(frozen=True)
class Constant:
    """One constant of a stack: prior, standard deviation of its logarithm, bounds."""

    name: str
    prior: float
    sigma: float
    least: float
    most: float


def constants() -> dict[str, list[Constant]]:
    """Read the table of constants by stack."""
    table = yaml.safe_load((HERE / "fit_memory.yaml").read_text("utf-8"))
    return {
        stack: [Constant(name, *map(float, figures)) for name, figures in fields.items()]
        for stack, fields in table.items()
    }


def family(run: MemoryRun) -> str:
    """Return the family of a run: the rows of one table or author."""
    return re.split(r"[-. 0-9]", run.id)[0]


def with_options(run: MemoryRun, values: dict[str, float]) -> MemoryRun:
    """Return the run under other constants."""
    memory = run.profile.memory.model_copy(update=values)
    return replace(run, profile=run.profile.model_copy(update={"memory": memory}))


def log_error(run: MemoryRun, values: dict[str, float]) -> float:
    """Logarithm of predicted over measured."""
    predicted = with_options(run, values).predicted_bytes(run.metric)
    return math.log(predicted / (run.measured_bytes or math.nan))


def fit(runs: Sequence[MemoryRun], moving: Sequence[Constant]) -> dict[str, float]:
    """Return the constants that fit the runs of one stack best; the priors without any run."""

    def values(x: Array) -> dict[str, float]:
        return {c.name: math.exp(v) for c, v in zip(moving, x, strict=True)}

    def residuals(x: Array) -> Array:
        found = values(x)
        z = np.array([log_error(run, found) for run in runs]) / ERROR_SCALE
        soft = np.sign(z) * np.sqrt(2 * (np.sqrt(1 + z**2) - 1))
        pulls = [(v - math.log(c.prior)) / c.sigma for c, v in zip(moving, x, strict=True)]
        return np.concatenate([soft, pulls])

    start = np.log([c.prior for c in moving])
    if not runs:
        return values(start)
    bounds = (np.log([c.least for c in moving]), np.log([c.most for c in moving]))
    found = least_squares(residuals, start, bounds=bounds, diff_step=1e-3, max_nfev=40)
    return values(np.asarray(found.x, dtype=np.float64))


def left_out(runs: Sequence[MemoryRun], by: str) -> list[float]:
    """Predict each run with the constants of its stack fitted without its family, or its model."""
    keys = [family(run) if by == "family" else f"{family(run)} {run.model}" for run in runs]
    moving = constants()
    known: dict[tuple[str, str], dict[str, float]] = {}
    errors = []
    for run, key in zip(runs, keys, strict=True):
        if run.options_of not in moving:
            errors.append(math.exp(log_error(run, {})) - 1)
            continue
        place = (run.options_of, key)
        if place not in known:
            others = [
                r for r, k in zip(runs, keys, strict=True)
                if r.stack == run.options_of and k != key
            ]  # fmt: skip
            known[place] = fit(others, moving[run.options_of])
        errors.append(math.exp(log_error(run, known[place])) - 1)
    return errors
