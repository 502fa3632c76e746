"""A feasible model that ortools 9.15.6755 calls INFEASIBLE with its defaults, presolve off."""

from __future__ import annotations

import pytest
from ortools.sat.python import cp_model

from solver.search.cpsat.factory import SolverSettings, new_solver

BOUND, DOMAIN = 2**31, 453_466_364_908


def model() -> cp_model.CpModel:
    """Feasible whenever literal 3 is false: only it enforces the bounds on ``x``."""
    model = cp_model.CpModel()
    y = [model.new_bool_var(f"y{i}") for i in range(4)]
    kind = [model.new_bool_var(f"kind{i}") for i in range(3)]
    x = model.new_int_var(0, DOMAIN, "x")
    on = model.new_bool_var("on")
    model.add_exactly_one(kind)
    for literal, extra in zip(kind, (0, 0, 5), strict=True):
        model.add(x >= BOUND + extra).only_enforce_if(y[3], literal)
    model.add(16 * y[0] + 16 * y[1] + 16 * y[2] + 8 * y[3] <= 32).only_enforce_if(on)
    return model


@pytest.mark.parametrize("presolve", [False, True])
def test_the_factory_solves_it(presolve: bool) -> None:
    solver = new_solver(SolverSettings())
    solver.parameters.cp_model_presolve = presolve
    assert solver.solve(model()) == cp_model.OPTIMAL


def test_the_factory_switches_the_detection_off() -> None:
    parameters = new_solver(SolverSettings()).parameters
    assert parameters.auto_detect_greater_than_at_least_one_of is False
    assert parameters.presolve_inclusion_work_limit == 0
