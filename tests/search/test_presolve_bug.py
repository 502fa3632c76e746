"""A model whose optimum ortools 9.15.6755 misses with its defaults (google/or-tools issue 5293)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ortools.sat.python import cp_model

from solver.search.cpsat.factory import SolverSettings, new_solver

SHARED = Path(os.environ.get("SHARDPLAN_SHARED", Path(__file__).parents[3] / "shared"))
CASE = SHARED / "cpsat_repro" / "unsound_7B_512_G24.pbtxt"
OPTIMUM = 13_016_401
"""With presolve off, and with the inclusion detection off, under any seed."""


def read_model(path: Path) -> cp_model.CpModel:
    """Read a model in text form."""
    model = cp_model.CpModel()
    assert model.proto.parse_text_format(path.read_text(encoding="utf-8"))
    return model


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_the_factory_finds_the_true_optimum(seed: int) -> None:
    if not CASE.is_file():
        pytest.skip("no reference model (cpsat_repro)")
    solver = new_solver(SolverSettings(seed=seed, time_limit_s=60.0))
    assert solver.solve(read_model(CASE)) == cp_model.OPTIMAL
    assert round(solver.objective_value) == OPTIMUM


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_the_factory_switches_the_inclusion_detection_off(workers: int) -> None:
    settings = SolverSettings(seed=5, workers=workers, time_limit_s=1.0)
    assert new_solver(settings).parameters.presolve_inclusion_work_limit == 0
