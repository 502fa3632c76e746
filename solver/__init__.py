"""Parallelism plans for training large language models: proven best, explained, measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .job.job import Account, Job, Limits, Objective, PlanningProblem
    from .job.read import parse_problem, read_problem
    from .job.search import Search
    from .job.transformer import Transformer
    from .layout_check import LayoutRequest, check
    from .plan import Plan
    from .result import Result
    from .search.search import solve

__all__ = [
    "Account",
    "Job",
    "LayoutRequest",
    "Limits",
    "Objective",
    "Plan",
    "PlanningProblem",
    "Result",
    "Search",
    "Transformer",
    "check",
    "parse_problem",
    "read_problem",
    "solve",
]

_HOME = {
    **dict.fromkeys(("Account", "Job", "Limits", "Objective", "PlanningProblem"), "job.job"),
    "Plan": "plan",
    "Result": "result",
    **dict.fromkeys(("LayoutRequest", "check"), "layout_check"),
    **dict.fromkeys(("parse_problem", "read_problem"), "job.read"),
    "Transformer": "job.transformer",
    "Search": "job.search",
    "solve": "search.search",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for: ``import solver`` must not load CP-SAT."""
    from importlib import import_module  # noqa: PLC0415 - only where a name is asked for

    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
