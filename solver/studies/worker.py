"""Solve one point; runs in whatever process an engine chooses."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass
from typing import Any

from topology.errors import InputError

from ..job.job import PlanningProblem
from ..report.plan_rows import plan_record
from ..report.render import finite
from ..search.search import solve

FAILED = "error"
LONGEST_ERROR = 2000
"""Characters of an error that are kept."""

LOOK_S = 1.0
"""How often a worker looks whether its sweep still runs."""


@dataclass(frozen=True)
class Outcome:
    """What became of a point.

    Attributes
    ----------
    key
        The point's key.
    status
        ``optimal``, ``feasible``, ``infeasible``, ``unknown``, or ``error``.
    record
        The best plan as one flat row in JSON; None without a plan.
    reason
        Why there is no plan, or what failed.
    seconds
        Wall-clock time of the solve.
    """

    key: str
    status: str
    record: str | None
    reason: str | None
    seconds: float


def solve_point(key: str, problem: PlanningProblem, time_limit_s: float | None) -> Outcome:
    """Solve a point with one CP-SAT thread; whatever fails is the outcome, not an exception."""
    started = time.perf_counter()
    try:
        result = solve(problem, top=1, time_limit_s=time_limit_s, explain=False)
    except InputError as error:
        return Outcome(key, FAILED, None, str(error)[:LONGEST_ERROR], _since(started))
    except Exception as error:  # one point that fails must not end the sweep
        text = f"{type(error).__name__}: {error}"[:LONGEST_ERROR]
        return Outcome(key, FAILED, None, text, _since(started))
    if not result.plans:
        counted = result.certificate.dropped.items()
        dropped = ", ".join(f"{name} excludes {number} shapes" for name, number in counted)
        return Outcome(key, result.status, None, dropped or "no layout", _since(started))
    record: dict[str, Any] = {**plan_record(result.plans[0]), "gap": result.certificate.gap}
    text = json.dumps(finite(record), sort_keys=True, ensure_ascii=False)
    return Outcome(key, result.status, text, None, _since(started))


def _since(started: float) -> float:
    return time.perf_counter() - started


def end_with(parent: int) -> None:
    """End this worker soon after the process that started it, which may be killed.

    A pool would otherwise wait minutes for work that nobody sends.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
