"""Read a plan JSON back: the problem that it answers and the layout of one of its plans."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from topology.cluster import NodeGroup
from topology.errors import InputError, Problem
from topology.faults import did_you_mean
from topology.hardware import find_gpu
from topology.offers import KINDS
from topology.source import read_text
from topology.units import shown

from ..cost.own_profile import is_file
from ..cost.profile import stacks
from ..job.job import PlanningProblem
from ..job.read import example_path, parse_problem
from ..plan import Plan
from ..result import Result
from .layouts import layout_values
from .resolved import PLAN_SCHEMA
from .soundness import faults

LOCAL_PROBLEM = "shardplan.yaml"
_PREFIX = "shardplan."
_AGAIN = "Solve again, or give --layout."
EMBEDDED = '<script type="application/json" id="shardplan">'
"""What stands before the JSON in a page of ``report``."""


def problem_path(path: str | None) -> str:
    """Return the file that a problem is read from: the named, the local or the packaged one."""
    if path is not None:
        return path
    return LOCAL_PROBLEM if Path(LOCAL_PROBLEM).is_file() else str(example_path())


def _text(path: str | Path) -> str:
    """Read a file; of a page that ``report`` wrote, the plan JSON inside it."""
    text = read_text(path)
    if not text.startswith("<!doctype html>"):
        return text
    _, found, rest = text.partition(EMBEDDED)
    return rest.partition("</script>")[0] if found else text


def read_problem_or_plan(
    path: str | Path, overrides: Mapping[str, Any], flags: Mapping[str, str]
) -> PlanningProblem:
    """Read a problem file, or the problem inside a plan JSON; see `solver.job.read.read_problem`.

    Raises
    ------
    InputError
        With every fault of the file.
    """
    text = _text(path)
    if not is_plan(text):
        return _profiled(parse_problem(text, str(path), overrides, flags), flags)
    data = _plan_data(text, str(path))
    inside = json.dumps(data.get("problem"))
    problem = _profiled(parse_problem(inside, f"{path}, problem", overrides, flags), flags)
    changed = {field.partition(".")[0] for field in flags}
    return problem if "cluster" in changed else _with_assumptions(problem, data.get("assumptions"))


def _profiled(problem: PlanningProblem, flags: Mapping[str, str]) -> PlanningProblem:
    """Refuse an unknown profile where it stands: the profiles know nothing of files and lines."""
    name = problem.account.profile
    if name is None or name in stacks() or is_file(name) or "profile" in flags:
        return problem
    place = problem.positions.get("profile", (0, 0))
    hint = f"{did_you_mean(name, stacks())} Known profiles: {', '.join(stacks())}.".strip()
    message = f"no profile {shown(name)}."
    raise InputError(Problem(problem.path, *place, "profile", "SP120", message, hint))


def stored_layout(path: str | None, rank: int = 1) -> dict[str, Any]:
    """Read the layout of one plan of a plan JSON.

    Parameters
    ----------
    path
        The file; None, and any other kind of file, has no layout.
    rank
        Which of its plans.

    Returns
    -------
    Values under the keys of `layouts.parse_layout`.

    Raises
    ------
    InputError
        SP113 where there is no layout, or no plan of that rank; SP100 for a damaged file.
    """
    text = "" if path is None else _text(path)
    if path is None or not is_plan(text):
        hint = "Write e.g. --layout tp=8,pp=4,zero=1, or name a plan JSON that solve -o wrote."
        raise InputError(Problem("--layout", 0, 0, "", "SP113", "is missing.", hint))
    plan = _plan_of(_plan_data(text, path), path, rank)
    return layout_values(plan)


def stored_kind(path: str | None, rank: int = 1) -> str | None:
    """Return the kind of price of one plan of a plan JSON; None where it names none of several."""
    kind = "" if path is None else _plan_of(_plan_data(_text(path), path), path, rank).price_kind
    return kind if kind in KINDS else None


def stored_plan(path: str, rank: int = 1) -> tuple[PlanningProblem, Plan]:
    """Read one plan of a plan JSON, and the problem that it answers.

    Raises
    ------
    InputError
        SP113 where there is no plan of that rank; SP100, SP117 for another kind of file.
    """
    text = _text(path)
    if not is_plan(text):
        hint = "Name a plan JSON that solve -o wrote."
        raise InputError(Problem(path, 0, 0, "", "SP113", "holds no plan.", hint))
    plan = _plan_of(_plan_data(text, path), path, rank)
    return read_problem_or_plan(path, {}, {}), plan


def read_result(path: str) -> Result:
    """Read the whole result of a plan JSON.

    Raises
    ------
    InputError
        SP113 where there is none; SP117 or SP100 for another or a damaged JSON.
    """
    text = _text(path)
    if not is_plan(text):
        hint = "Name a plan JSON that solve -o wrote, or the -o file of a sweep."
        raise InputError(Problem(path, 0, 0, "", "SP113", "holds no plan.", hint))
    data = _plan_data(text, path)
    known = {key: value for key, value in data.items() if key in Result.model_fields}
    try:
        result = Result.model_validate_json(json.dumps(known))
    except ValueError:
        hint = "Solve again."
        raise InputError(Problem(path, 0, 0, "", "SP100", "is damaged.", hint)) from None
    for name in ("plans", "front"):
        for number, plan in enumerate(getattr(result, name)):
            _refuse_unsound(plan, path, f"{name}[{number}]")
    return result


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


def _plan_data(text: str, path: str) -> dict[str, Any]:
    data = _loaded(text) or {}
    if data.get("schema") != PLAN_SCHEMA:
        message = f"'{str(data.get('schema'))[:60]}' is not {PLAN_SCHEMA}."
        hint = "Name a file that solve -o wrote."
        raise InputError(Problem(path, 0, 0, "schema", "SP117", message, hint))
    return data


def _plan_of(data: Mapping[str, Any], path: str, rank: int) -> Plan:
    plans = data.get("plans")
    entries = plans if isinstance(plans, list) else []
    if not 1 <= rank <= len(entries):
        message = f"holds {len(entries)} plans, no plan {rank}."
        hint = "Choose another --rank, or solve again."
        raise InputError(Problem(path, 0, 0, "plans", "SP113", message, hint))
    field = f"plans[{rank - 1}]"
    try:
        plan = Plan.model_validate_json(json.dumps(entries[rank - 1]))
    except ValueError:
        raise InputError(Problem(path, 0, 0, field, "SP100", "is damaged.", _AGAIN)) from None
    _refuse_unsound(plan, path, field)
    return plan


def _refuse_unsound(plan: Plan, path: str, field: str) -> None:
    wrong = list(dict.fromkeys(faults(plan)))
    if wrong:
        message = f"is damaged: {', '.join(wrong)} cannot be."
        raise InputError(Problem(path, 0, 0, field, "SP100", message, _AGAIN))


def _with_assumptions(problem: PlanningProblem, taken: Any) -> PlanningProblem:
    """Remember which values were assumed when the plan was made."""
    if not isinstance(taken, list):
        return problem
    entries = [entry for entry in taken if isinstance(entry, dict)]
    cluster, groups = problem.cluster, []
    for number, group in enumerate(problem.cluster.groups):
        prefix = "cluster." + (f"groups[{number}]." if len(cluster.groups) > 1 else "")
        # Prices keep their source in the problem itself.
        own = [(str(e.get("field", "")).removeprefix(prefix), e) for e in entries
               if str(e.get("field", "")).startswith(prefix)]  # fmt: skip
        named = tuple(
            (field, str(e.get("value", "")), str(e.get("source", "")))
            for field, e in own
            if not field.startswith("price")
        )
        groups.append(_assumed(group, named))
    return dataclasses.replace(problem, cluster=dataclasses.replace(cluster, groups=tuple(groups)))


def _assumed(group: NodeGroup, named: tuple[tuple[str, str, str], ...]) -> NodeGroup:
    gpu = group.gpu
    if any(name == "usable_memory" for name, _, _ in named):
        gpu = dataclasses.replace(gpu, usable_measured=find_gpu(gpu.id).usable_measured)
    return dataclasses.replace(group, gpu=gpu, assumptions=named)
