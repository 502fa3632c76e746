"""The one place where a CP-SAT solver is made."""

from __future__ import annotations

from dataclasses import dataclass

from ortools.sat.python import cp_model


@dataclass(frozen=True)
class SolverSettings:
    """How CP-SAT runs.

    Attributes
    ----------
    seed
        Random seed.
    workers
        Search threads; one is deterministic.
    time_limit_s
        Wall-clock limit of one model; None for none.
    """

    seed: int = 0
    workers: int = 1
    time_limit_s: float | None = None


def new_solver(settings: SolverSettings) -> cp_model.CpSolver:
    """Return a solver with the project's parameters.

    Two of them are a matter of truth, for ortools 9.15.6755 proves wrong answers on models like
    ours with its defaults:

    - ``presolve_inclusion_work_limit = 0``: else wrong optima come back as OPTIMAL
      (google/or-tools issue 5293; tests/search/test_presolve_bug.py holds a case);
    - ``auto_detect_greater_than_at_least_one_of = False``: else a bound that holds under two
      literals, one of them of an exactly-one, is taken to hold under neither, and feasible models
      come back as INFEASIBLE (tests/search/test_detection_bug.py holds five constraints of it).

    With the full linear relaxation these small models close in milliseconds and without outliers;
    tree search on the lower bound without it never closes some of the tie-breaking models
    (tests/search/test_closing.py). Ctrl-C belongs to the caller, not to CP-SAT.
    """
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.presolve_inclusion_work_limit = 0
    parameters.auto_detect_greater_than_at_least_one_of = False
    parameters.catch_sigint_signal = False
    parameters.random_seed = settings.seed
    parameters.num_workers = settings.workers
    parameters.linearization_level = 2
    if settings.time_limit_s is not None:
        parameters.max_time_in_seconds = settings.time_limit_s
    return solver
