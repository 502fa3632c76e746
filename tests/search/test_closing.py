"""A tie-breaking model that once never closed: it closes now."""

from __future__ import annotations

from pathlib import Path

from ortools.sat.python import cp_model

from solver.search.cpsat.factory import SolverSettings, new_solver

MODEL = Path(__file__).with_name("data") / "tie.pbtxt"
"""Least memory among equal steps of one shape, as the search wrote it."""
LEAST = 937_500
MOST_S = 20.0
"""It takes milliseconds; a busy machine may take a thousand times as long."""


def test_the_model_closes() -> None:
    """With tree search on the lower bound and no relaxation it took over 36,000 and went on."""
    model = cp_model.CpModel()
    model.proto.parse_text_format(MODEL.read_text(encoding="utf-8"))
    solver = new_solver(SolverSettings())
    solver.parameters.max_time_in_seconds = MOST_S
    assert solver.solve(model) == cp_model.OPTIMAL
    assert solver.objective_value == LEAST
