"""Predictions against a small sample of published, measured runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from solver.calibration.rows import read_rows
from solver.calibration.runs import predict, run_of

RUNS = Path(__file__).with_name("measured_runs.csv")
"""Facts of published runs, each with its source: every stack, dense and with experts."""
MEAN_ERROR = 0.055
"""Mean error of the sample when the constants were last fitted was 4 to 5 %."""
LARGEST = 0.20


def test_predictions_agree_with_measured_runs() -> None:
    errors = {}
    for values in read_rows(RUNS):
        run = run_of(values)
        errors[run.id] = predict(run) / run.measured_s - 1
    sizes = np.abs(list(errors.values()))
    assert len(sizes) > 25
    assert sizes.mean() < MEAN_ERROR, errors
    assert sizes.max() < LARGEST, errors
