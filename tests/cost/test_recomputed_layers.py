"""Full recomputation of k layers on a stage: linear in k, and at k = l what ``full`` is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solver.cost.calibrated import Calibrated
from solver.cost.profile import load_profile
from solver.cost.shapes import Shapes, Shardings
from solver.cost.stages import split
from solver.job.job import Limits
from solver.job.search import Search
from tests.search.helpers import problem

ONE = np.ones((1, 1), np.int64)


def figures(model: str, recomputed: int, zero: int) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of a micro-batch and bytes, each (class, kind)."""
    asked = problem(model)
    group = asked.cluster.group
    cost = Calibrated(
        asked.job, group, Limits(), Search(), load_profile("megatron-core", group.gpu.id)
    )
    shape = Shapes.of(tp=2, pp=4, dp=8, micro_batch=1, microbatches=128)
    stages = split(asked.job.transformer, shape.pp, shape.vpp)
    stages = replace(stages, recomputed=np.minimum(recomputed, stages.layers))
    found = cost.figures(shape, stages, Shardings(zero * ONE, ONE, ONE.astype(bool)))
    return found.microbatch[0, :, :, 0], found.items.total()[0, :, :, 0]


@pytest.mark.parametrize("model", ["llama3-70b", "deepseek-v3"])
@pytest.mark.parametrize("zero", [1, 3])
def test_all_layers_are_full_recomputation(model: str, zero: int) -> None:
    plain, all_of_them = figures(model, 0, zero), figures(model, 10**6, zero)
    middle = 2
    assert all_of_them[0][middle, 0] == pytest.approx(plain[0][middle, 2], rel=1e-9)
    assert all_of_them[0][middle, 1] == pytest.approx(plain[0][middle, 2], rel=1e-9)
    assert all_of_them[1][middle, 0] == pytest.approx(plain[1][middle, 2], rel=1e-9)


def test_time_rises_and_memory_falls_by_equal_steps() -> None:
    found = [figures("llama3-70b", k, 1) for k in range(1, 21)]
    seconds = np.array([f[0][2, 0] for f in found])
    need = np.array([f[1][2, 0] for f in found])
    assert np.all(np.diff(seconds) > 0)
    assert np.ptp(np.diff(seconds)) < 1e-9 * seconds[0]
    kept = np.diff(need)
    assert np.all(kept <= 0)
    assert kept[0] == pytest.approx(kept[5], rel=1e-6)


def test_full_recomputation_is_not_changed() -> None:
    plain, some = figures("llama3-70b", 0, 1), figures("llama3-70b", 3, 1)
    assert some[0][:, 2] == pytest.approx(plain[0][:, 2])
    assert some[1][:, 2] == pytest.approx(plain[1][:, 2])
