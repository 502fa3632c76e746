"""The model of one layout whose stages choose layers and recomputed layers for themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from ...cost.stage_options import StageOptions
from ...cost.ticks import GRAINS, IntArray
from .factory import SolverSettings, new_solver
from .run import ChunkStatus, status_of


@dataclass(frozen=True)
class StagewiseTask:
    """One layout to be split.

    Attributes
    ----------
    options
        Alternatives of each stage, in the order of the pipeline.
    layers
        Layers of the model.
    at_least, at_most
        Ticks that the step takes at least, as is proved already, and that it may take.
    capacity
        MiB that each stage may use; None where the memory limit does not hold.
    allowance
        Grains of communication that each alternative may have where its stage is the busiest; None
        where the limit does not hold.
    """

    options: Sequence[StageOptions]
    layers: int
    at_least: int
    at_most: int
    capacity: Sequence[int] | None
    allowance: Sequence[IntArray] | None


@dataclass(frozen=True)
class StagewiseAnswer:
    """The best alternatives, one a stage, where there are any; ``bound`` is proved."""

    status: ChunkStatus
    choice: tuple[int, ...] | None
    step: int | None
    bound: int


@dataclass(frozen=True)
class _Variables:
    chosen: list[list[cp_model.IntVar]]
    step: cp_model.IntVar


def solve_stages(task: StagewiseTask, settings: SolverSettings) -> StagewiseAnswer:
    """Find the fastest split of a layout with a step of at most ``at_most``, or prove none.

    Among splits of the same step, the one that recomputes fewest layers and is evenest.
    """
    model = cp_model.CpModel()
    v = _build(model, task)
    model.minimize(v.step)
    solver = new_solver(settings)
    status = status_of(model, solver)
    if status not in ("optimal", "feasible"):
        return StagewiseAnswer(status, None, None, 0)
    bound, step = round(solver.best_objective_bound), int(solver.value(v.step))
    choice = _read(v, solver)
    if status == "optimal":
        model.add(v.step <= step)
        model.clear_objective()  # type: ignore[no-untyped-call]  # untyped in ortools 9.15
        model.minimize(_preference(task, v))
        solver = new_solver(settings)
        if status_of(model, solver) == "optimal":
            choice = _read(v, solver)
        else:
            status = "feasible"
    return StagewiseAnswer(status, choice, step, bound)


def _build(model: cp_model.CpModel, task: StagewiseTask) -> _Variables:
    chosen = [
        [model.new_bool_var(f"stage[{s},{o}]") for o in range(len(options))]
        for s, options in enumerate(task.options)
    ]
    step = model.new_int_var(task.at_least, task.at_most, "step")
    most = task.at_most * GRAINS
    pace = model.new_int_var(0, most, "pace")
    tail = model.new_int_var(0, most, "tail")
    for options, literals in zip(task.options, chosen, strict=True):
        model.add_exactly_one(literals)
        model.add(_sum(literals, options.pace) <= pace)
        model.add(_sum(literals, options.tail) <= tail)
    fill = [_sum(x, o.share) for x, o in zip(chosen, task.options, strict=True)]
    model.add(GRAINS * step >= cp_model.LinearExpr.sum([pace, tail, *fill]))
    held = [_sum(x, o.layers) for x, o in zip(chosen, task.options, strict=True)]
    model.add(cp_model.LinearExpr.sum(held) == task.layers)
    _one_kind(model, task, chosen)
    _memory(model, task, chosen)
    _communication(model, task, chosen)
    return _Variables(chosen, step)


def _sum(literals: list[cp_model.IntVar], weights: IntArray) -> cp_model.LinearExprT:
    return cp_model.LinearExpr.weighted_sum(literals, [int(w) for w in weights])


def _one_kind(
    model: cp_model.CpModel, task: StagewiseTask, chosen: list[list[cp_model.IntVar]]
) -> None:
    """All stages recompute by one kind: a flag of the run, as frameworks have it."""
    kinds = sorted({int(k) for options in task.options for k in options.kind})
    taken = {k: model.new_bool_var(f"kind[{k}]") for k in kinds}
    model.add_exactly_one(taken.values())
    for options, literals in zip(task.options, chosen, strict=True):
        for kind, literal in taken.items():
            same = [x for x, k in zip(literals, options.kind, strict=True) if k == kind]
            model.add(cp_model.LinearExpr.sum(same) == literal)


def _memory(
    model: cp_model.CpModel, task: StagewiseTask, chosen: list[list[cp_model.IntVar]]
) -> None:
    """Keep every stage within its GPU's memory."""
    on = model.new_bool_var("memory")
    model.add(on == (task.capacity is not None))
    if task.capacity is None:
        return
    for options, literals, most in zip(task.options, chosen, task.capacity, strict=True):
        model.add(_sum(literals, options.memory) <= most).only_enforce_if(on)


def _communication(
    model: cp_model.CpModel, task: StagewiseTask, chosen: list[list[cp_model.IntVar]]
) -> None:
    """Keep the communication limit on the stages that compute most."""
    on = model.new_bool_var("communication")
    model.add(on == (task.allowance is not None))
    if task.allowance is None:
        return
    over = [
        np.flatnonzero(options.sent > allowed)
        for options, allowed in zip(task.options, task.allowance, strict=True)
    ]
    if not any(len(rows) for rows in over):
        return
    largest = max(int(options.compute.max()) for options in task.options)
    most = model.new_int_var(0, largest, "compute")
    each = [_sum(x, o.compute) for x, o in zip(chosen, task.options, strict=True)]
    model.add_max_equality(most, each)
    for options, literals, rows in zip(task.options, chosen, over, strict=True):
        for row in rows:
            # Too much traffic is allowed where another stage computes more.
            need = int(options.compute[row]) + 1
            model.add(most >= need).only_enforce_if(literals[row], on)


def _preference(task: StagewiseTask, v: _Variables) -> cp_model.LinearExprT:
    """Fewest recomputed layers, then the evenest split, then layers as early as they go."""
    most = task.layers * len(task.options)
    early = most + 1
    uneven = early * (most + 1)
    terms, weights = [], []
    for place, (options, literals) in enumerate(zip(task.options, v.chosen, strict=True)):
        gap = np.abs(options.layers - task.layers // len(task.options))
        cost = uneven * options.recomputed + early * gap + place * options.layers
        terms += literals
        weights += [int(c) for c in cost]
    return cp_model.LinearExpr.weighted_sum(terms, weights)


def _read(v: _Variables, solver: cp_model.CpSolver) -> tuple[int, ...]:
    return tuple(
        next(o for o, literal in enumerate(literals) if solver.value(literal))
        for literals in v.chosen
    )
