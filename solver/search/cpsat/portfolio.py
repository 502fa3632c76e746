"""The model of a portfolio: one choice a job, intervals on pools, reserved nodes."""

from __future__ import annotations

from dataclasses import dataclass

from ortools.sat.python import cp_model

from ..portfolio import NoSchedule, Pool, Portfolio, Schedule
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


def solve_portfolio(
    asked: Portfolio, settings: SolverSettings, unique: bool = True
) -> Schedule | NoSchedule:
    """Find the best schedule.

    Ties are broken by the other aim; then, where ``unique``, by fewest reserved nodes and the
    earliest starts.
    """
    model = cp_model.CpModel()
    v = _build(model, asked)
    aims: list[Expression] = [v.cents, v.makespan]
    if asked.aim == "makespan":
        aims.reverse()
    if unique:
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
    reserved = [
        model.new_int_var(0, pool.nodes if pool.node_cents is not None else 0, f"reserved[{n}]")
        for n, pool in enumerate(asked.pools)
    ]
    runs: list[list[_Run]] = [[] for _ in asked.pools]
    for job, due in enumerate(asked.due):
        mine = [n for n, choice in enumerate(asked.choices) if choice.job == job]
        model.add_exactly_one(taken[n] for n in mine)
        hours = [asked.choices[n].hours for n in mine]
        literals = [taken[n] for n in mine]
        end = cp_model.LinearExpr.weighted_sum([starts[job], *literals], [1, *hours])
        model.add(end <= makespan)
        if due is not None:
            model.add(end <= due)
        for number, pool in enumerate(asked.pools):
            here = [n for n in mine if asked.choices[n].pool == number]
            if here:
                runs[number].append(_run(model, asked, (job, pool), here, taken, starts[job]))
    for pool, held, own in zip(asked.pools, reserved, runs, strict=True):
        room: Expression = held if pool.node_cents is not None else pool.nodes
        model.add_cumulative([r.interval for r in own], [r.nodes for r in own], room)
    cents = cp_model.LinearExpr.weighted_sum(
        [*taken, *reserved],
        [*(c.cents for c in asked.choices), *(p.node_cents or 0 for p in asked.pools)],
    )
    if asked.most_cents is not None:
        model.add(cents <= asked.most_cents)
    return _Variables(taken, starts, reserved, cents, makespan)


@dataclass(frozen=True)
class _Run:
    """A job on a pool, whichever way it runs there."""

    interval: cp_model.IntervalVar
    nodes: cp_model.IntVar


def _run(
    model: cp_model.CpModel, asked: Portfolio, of: tuple[int, Pool], here: list[int],
    taken: list[cp_model.IntVar], start: cp_model.IntVar,
) -> _Run:  # fmt: skip
    job, pool = of
    present = model.new_bool_var(f"job {job} on {asked.choices[here[0]].pool}")
    model.add(cp_model.LinearExpr.sum([taken[n] for n in here]) == present)
    hours = [asked.choices[n].hours for n in here]
    size = model.new_int_var(min(hours), max(hours), f"hours[{here[0]}]")
    end = model.new_int_var(0, max(asked.horizon, 0) + max(hours), f"end[{here[0]}]")
    model.add(size == _sum(taken, hours, here)).only_enforce_if(present)
    interval = model.new_optional_interval_var(start, size, end, present, f"run[{here[0]}]")
    model.add(start >= pool.opens).only_enforce_if(present)
    if pool.closes is not None:
        model.add(end <= pool.closes).only_enforce_if(present)
    counts = [asked.choices[n].nodes for n in here]
    nodes = model.new_int_var(0, max(counts), f"nodes[{here[0]}]")
    model.add(nodes == _sum(taken, counts, here))
    return _Run(interval, nodes)


def _sum(taken: list[cp_model.IntVar], values: list[int], numbers: list[int]) -> Expression:
    """Add up what the choices that are taken bring."""
    return cp_model.LinearExpr.weighted_sum([taken[n] for n in numbers], values)


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
