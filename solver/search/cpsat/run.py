"""Build and solve the model of one chunk of shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ortools.sat.python import cp_model

from ...cost.tables import Choice, Tables
from ..instance import LONGEST_STEP, Instance
from .factory import SolverSettings, new_solver
from .limits import LIMITS
from .objective import goal_expression, tie_breaks
from .variables import Variables, declare, define

ChunkStatus = Literal["optimal", "infeasible", "feasible", "unknown"]

_STATUS: dict[int, ChunkStatus] = {
    int(cp_model.OPTIMAL): "optimal",
    int(cp_model.INFEASIBLE): "infeasible",
    int(cp_model.FEASIBLE): "feasible",
    int(cp_model.UNKNOWN): "unknown",
}


@dataclass(frozen=True)
class ChunkAnswer:
    """What CP-SAT says of a chunk.

    Attributes
    ----------
    status
        ``optimal`` and ``infeasible`` are proofs; ``feasible`` and ``unknown`` are not.
    row, choice
        The best shape (index in the chunk) and the choices inside it, where there is one.
    value
        Goal of that plan, in its integer unit.
    bound
        Proved lower bound of the goal over the chunk.
    """

    status: ChunkStatus
    row: int | None
    choice: Choice | None
    value: int | None
    bound: int


class ModelError(RuntimeError):
    """CP-SAT refused the model: a fault of this program, not of the input."""


def _build(instance: Instance, tables: Tables, at_most: int) -> tuple[cp_model.CpModel, Variables]:
    model = cp_model.CpModel()
    longest = min(at_most, LONGEST_STEP) if instance.goal == "time" else LONGEST_STEP
    v = declare(model, instance, tables, longest)
    define(model, instance, tables, v)
    for limit in LIMITS:
        on = model.new_bool_var(limit.__name__)
        limit(model, instance, tables, v, on)
        model.add(on == (instance.holds(limit.__name__)))
    model.add(goal_expression(instance.goal, v) <= at_most)
    return model, v


def solve_chunk(
    instance: Instance, tables: Tables, at_most: int, settings: SolverSettings
) -> ChunkAnswer:
    """Find the best plan of a chunk whose goal is at most ``at_most``, or prove there is none."""
    model, v = _build(instance, tables, at_most)
    goal = goal_expression(instance.goal, v)
    model.minimize(goal)
    solver = new_solver(settings)
    status = status_of(model, solver)
    bound = round(solver.best_objective_bound) if status in ("optimal", "feasible") else 0
    if status not in ("optimal", "feasible"):
        return ChunkAnswer(status, None, None, None, bound)
    row, choice = v.choice(solver)
    return ChunkAnswer(status, row, choice, int(solver.value(goal)), bound)


def break_ties(
    instance: Instance, tables: Tables, value: int, settings: SolverSettings
) -> ChunkAnswer:
    """Return the plan that the rules prefer among those of the chunk with goal ``value``.

    ``infeasible`` where the chunk has none; ``unknown`` where time ran out before the choice was
    proved.
    """
    model, v = _build(instance, tables, value)
    answer = ChunkAnswer("infeasible", None, None, None, value)
    for rule in tie_breaks(instance.goal, tables, v):
        model.clear_objective()  # type: ignore[no-untyped-call]  # untyped in ortools 9.15
        model.minimize(rule)
        solver = new_solver(settings)
        status = status_of(model, solver)
        if status == "infeasible":
            return answer
        if status != "optimal":
            return ChunkAnswer("unknown", None, None, None, value)
        row, choice = v.choice(solver)
        answer = ChunkAnswer("optimal", row, choice, value, value)
        model.add(rule <= int(solver.value(rule)))
    return answer


def status_of(model: cp_model.CpModel, solver: cp_model.CpSolver) -> ChunkStatus:
    """Solve a model; raise ``ModelError`` where CP-SAT refuses it."""
    status = int(solver.solve(model))
    if status not in _STATUS:
        raise ModelError(f"CP-SAT refused the model: {model.validate()}")
    return _STATUS[status]
