"""The model of a portfolio: one choice a job, intervals on pools, reserved nodes."""

from __future__ import annotations

from dataclasses import dataclass

from ortools.sat.python import cp_model

from ..portfolio import NoSchedule, Portfolio, Schedule
from .factory import SolverSettings, new_solver
from .run import status_of

Expression = cp_model.LinearExprT


@dataclass(frozen=True)
class _Variables:
    taken: list[cp_model.IntVar]
    starts: list[cp_model.IntVar]
    reserved: list[cp_model.IntVar]
    cents: Expression
    makespan: cp_model.IntVar


def solve_portfolio(asked: Portfolio, settings: SolverSettings) -> Schedule | NoSchedule:
    """Find the best schedule.

    Ties are broken by the other aim, then fewest reserved nodes, then by the earliest starts.
    """
    model = cp_model.CpModel()
    v = _build(model, asked)
    aims: list[Expression] = [v.cents, v.makespan]
    if asked.aim == "makespan":
        aims.reverse()
    aims += [cp_model.LinearExpr.sum(v.reserved), cp_model.LinearExpr.sum(v.starts)]
    aims.append(cp_model.LinearExpr.weighted_sum(v.taken, list(range(len(v.taken)))))
    found: Schedule | None = None
    for aim in aims:
        model.clear_objective()  # type: ignore[no-untyped-call]  # untyped in ortools 9.15
        model.minimize(aim)
        solver = new_solver(settings)
        status = status_of(model, solver)
        if status not in ("optimal", "feasible"):
            break
        found = _read(asked, v, solver, status == "optimal")
        if status != "optimal":
            break
        model.add(aim <= int(solver.value(aim)))
    return found or NoSchedule(proved=status == "infeasible")


def _build(model: cp_model.CpModel, asked: Portfolio) -> _Variables:
    horizon = max(asked.horizon, 0)
    taken = [model.new_bool_var(f"taken[{n}]") for n in range(len(asked.choices))]
    starts = [model.new_int_var(0, horizon, f"start[{job}]") for job in range(len(asked.due))]
    makespan = model.new_int_var(0, horizon, "makespan")
    by_pool: list[list[tuple[cp_model.IntervalVar, int]]] = [[] for _ in asked.pools]
    for job, due in enumerate(asked.due):
        model.add_exactly_one(t for t, c in zip(taken, asked.choices, strict=True) if c.job == job)
        if due is not None:
            for literal, choice in zip(taken, asked.choices, strict=True):
                if choice.job == job:
                    model.add(starts[job] + choice.hours <= due).only_enforce_if(literal)
    for number, (literal, choice) in enumerate(zip(taken, asked.choices, strict=True)):
        start, pool = starts[choice.job], asked.pools[choice.pool]
        interval = model.new_optional_fixed_size_interval_var(
            start, choice.hours, literal, f"run[{number}]"
        )
        by_pool[choice.pool].append((interval, choice.nodes))
        model.add(makespan >= start + choice.hours).only_enforce_if(literal)
        model.add(start >= pool.opens).only_enforce_if(literal)
        if pool.closes is not None:
            model.add(start + choice.hours <= pool.closes).only_enforce_if(literal)
    reserved = []
    for number, (pool, intervals) in enumerate(zip(asked.pools, by_pool, strict=True)):
        most = pool.nodes if pool.node_cents is not None else 0
        nodes = model.new_int_var(0, most, f"reserved[{number}]")
        reserved.append(nodes)
        room: Expression = nodes if pool.node_cents is not None else pool.nodes
        model.add_cumulative([i for i, _ in intervals], [n for _, n in intervals], room)
    cents = cp_model.LinearExpr.weighted_sum(
        [*taken, *reserved],
        [*(c.cents for c in asked.choices), *(p.node_cents or 0 for p in asked.pools)],
    )
    if asked.most_cents is not None:
        model.add(cents <= asked.most_cents)
    return _Variables(taken, starts, reserved, cents, makespan)


def _read(asked: Portfolio, v: _Variables, solver: cp_model.CpSolver, proved: bool) -> Schedule:
    chosen = {asked.choices[n].job: n for n, t in enumerate(v.taken) if solver.value(t)}
    return Schedule(
        taken=tuple(chosen[job] for job in range(len(asked.due))),
        starts=tuple(int(solver.value(start)) for start in v.starts),
        reserved=tuple(int(solver.value(nodes)) for nodes in v.reserved),
        cents=int(solver.value(v.cents)),
        makespan=max(
            (int(solver.value(v.starts[job])) + asked.choices[n].hours
             for job, n in chosen.items()), default=0),
        proved=proved,
    )  # fmt: skip
