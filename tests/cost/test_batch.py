"""Many values of the constants at once price a run as the product does with each of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from solver.calibration.batch import steps
from solver.calibration.rows import read_rows
from solver.calibration.runs import Run, predict, run_of
from solver.cost.own_profile import KINDS, scaled

RUNS = Path(__file__).with_name("measured_runs.csv")
FACTORS = np.array([0.9, 1.0, 1.2])


def changed(run: Run, factor: float) -> Run:
    parts = scaled(run.profile, dict.fromkeys(KINDS, factor))
    update = {k: getattr(run.profile, k).model_copy(update=v) for k, v in parts.items()}
    return replace(run, profile=run.profile.model_copy(update=update))


def test_a_batch_of_constants_gives_what_each_gives_alone() -> None:
    for values in read_rows(RUNS):
        run = run_of(values)
        parts = scaled(run.profile, dict.fromkeys(KINDS, FACTORS))
        found = steps(
            run,
            {k: np.asarray(v, dtype=np.float64) for k, v in parts["gpu"].items()},
            {k: np.asarray(v, dtype=np.float64) for k, v in parts["stack"].items()},
        )
        alone = [predict(changed(run, factor)) for factor in FACTORS]
        np.testing.assert_allclose(found, alone, rtol=2e-5)  # predictions are whole ticks
