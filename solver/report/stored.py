"""Read a plan JSON back: the problem that it answers and the layout of one of its plans."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from pydantic import ValidationError

from topology.cluster import NodeGroup
from topology.errors import InputError, Problem
from topology.hardware import find_gpu
from topology.source import read_text

from ..job.job import PlanningProblem
from ..job.read import parse_problem
from ..plan import Plan
from .layouts import layout_values
from .resolved import PLAN_SCHEMA

_PREFIX = "shardplan."


def stored_plan(path: str, rank: int = 1) -> tuple[PlanningProblem, dict[str, Any]] | None:
    """Read a plan JSON; None where the file is something else, such as a problem file.

    Raises
    ------
    InputError
        Where the file cannot be read, or see `read_plan`.
    """
    text = read_text(path)
    return read_plan(text, path, rank) if is_plan(text) else None


def is_plan(text: str) -> bool:
    """Whether a text is JSON of this tool and not a problem file."""
    return text.lstrip()[:1] == "{" and f'"{_PREFIX}' in text and _loaded(text) is not None


def _loaded(text: str) -> dict[str, Any] | None:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not isinstance(data.get("schema"), str):
        return None
    return data


def read_plan(text: str, path: str, rank: int = 1) -> tuple[PlanningProblem, dict[str, Any]]:
    """Read the text of a plan JSON.

    Parameters
    ----------
    text
        What ``solve -o`` wrote.
    path
        Name for messages.
    rank
        Which of its plans.

    Returns
    -------
    The problem, and the layout under the keys of `layouts.parse_layout`.

    Raises
    ------
    InputError
        SP117 for another schema, SP100 for a damaged file, SP113 for a rank that it does not have.
    """

    def fault(field: str, code: str, message: str, hint: str) -> InputError:
        return InputError(Problem(path, 0, 0, field, code, message, hint))

    data = _loaded(text) or {}
    if data.get("schema") != PLAN_SCHEMA:
        message = f"'{str(data.get('schema'))[:60]}' is not {PLAN_SCHEMA}."
        raise fault("schema", "SP117", message, "Name a file that `solve -o` wrote.")
    plans = data.get("plans")
    entries = plans if isinstance(plans, list) else []
    if not 1 <= rank <= len(entries):
        message = f"holds {len(entries)} plans, no plan {rank}."
        raise fault("plans", "SP113", message, "Choose another --rank, or solve again.")
    try:
        plan = Plan.model_validate_json(json.dumps(entries[rank - 1]))
    except (ValidationError, ValueError):
        hint = "Solve again, or give --layout."
        raise fault(f"plans[{rank - 1}]", "SP100", "is damaged.", hint) from None
    if plan.recompute == "mixed":
        hint = "Give --layout with one kind, e.g. recompute=full."
        message = "recomputes differently from stage to stage, which cannot be checked again yet."
        raise fault(f"plans[{rank - 1}]", "SP115", message, hint)
    problem = parse_problem(json.dumps(data.get("problem")), f"{path}, problem")
    return _with_assumptions(problem, data.get("assumptions")), layout_values(plan)


def _with_assumptions(problem: PlanningProblem, taken: Any) -> PlanningProblem:
    """Remember which values were assumed when the plan was made."""
    if len(problem.cluster.groups) != 1 or not isinstance(taken, list):
        return problem
    entries = [entry for entry in taken if isinstance(entry, dict)]
    named = tuple(
        (str(e["field"])[len("cluster.") :], str(e.get("value", "")), str(e.get("source", "")))
        for e in entries
        if str(e.get("field", "")).startswith("cluster.") and e["field"] != "cluster.price"
    )
    cluster = problem.cluster
    group = _assumed(cluster.groups[0], named)
    return dataclasses.replace(problem, cluster=dataclasses.replace(cluster, groups=(group,)))


def _assumed(group: NodeGroup, named: tuple[tuple[str, str, str], ...]) -> NodeGroup:
    gpu = group.gpu
    if any(name == "usable_memory" for name, _, _ in named):
        gpu = dataclasses.replace(gpu, usable_measured=find_gpu(gpu.id).usable_measured)
    return dataclasses.replace(group, gpu=gpu, assumptions=named)
