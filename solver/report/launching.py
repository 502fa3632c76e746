"""Launch files of a plan, and what an existing launch configuration is worth."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from topology.errors import InputError, Problem
from topology.units import parse_percent, show_seconds

from ..job.named import seconds
from ..launch.checking import check as client_check
from ..launch.describe import describe
from ..launch.export import export
from ..launch.importing import Imported, sayable
from ..launch.targets.base import Wanted
from ..launch.timeline import simulate_plan, trace
from ..layout_check import LayoutRequest
from ..plan import Plan
from ..result import Result
from .blocks import Facts, Plain, Report
from .checked import check_report
from .files import write_whole
from .layouts import layout_text, parse_layout
from .stored import stored_plan

SEARCH_S = 60.0
"""Longest search for a plan that is better than a given configuration."""
EXPORT_SCHEMA = "shardplan.export/1"
MOST_MARGIN = 10.0
"""A time limit of eleven times the prediction leaves room for any of them."""


OTHER_ENGINES = ("torchtitan", "deepspeed", "accelerate")
"""Targets whose engine is not the one that Megatron-class profiles were fitted to."""


def export_plan(
    plan: str, to: str, rank: int, check: bool, output: str | None, **given: Any
) -> Report:
    """Write one plan of a plan JSON for a target.

    Parameters
    ----------
    plan
        File that ``solve -o`` wrote.
    to
        Target, a key of ``solver.launch.export.TARGETS``.
    rank
        Which of its plans.
    check
        Hold it against the framework's own parser.
    output
        File to write to besides; None: none.
    given
        Fields of `Wanted` as flags have them.

    Raises
    ------
    LaunchError
        Where the target cannot express the plan, or its parser refuses it.
    InputError
        Where plan, flags or file cannot be used.
    """
    problem, chosen = stored_plan(plan, rank)
    exported = export(problem, chosen, to, _wanted(given))
    notes = list(exported.notes)
    if to in OTHER_ENGINES and problem.framework == "megatron":
        notes.append(
            f"priced as Megatron-LM runs it: check --from {to} estimates it by that engine's own "
            "profile, and --framework fsdp plans for one"
        )
    if check:
        notes.append(client_check(problem, describe(problem, chosen), to, exported.text))
    if output is not None:
        write_whole(output, exported.text)
    data = {
        "schema": EXPORT_SCHEMA,
        "to": to,
        "file": exported.file,
        "text": exported.text,
        "notes": list(exported.notes),
        "checked": check,
    }
    return Report((Plain(exported.text),), data, (), {"text": lambda: exported.text}, tuple(notes))


def _wanted(given: Mapping[str, Any]) -> Wanted:
    """Read durations and the margin out of flags."""
    return Wanted(
        version=given["target_version"] or "",
        name=given["name"],
        script=given["script"] or "",
        time_s=seconds(given["time"], "--time"),
        longest_s=seconds(given["max_time"], "--max-time"),
        save_every_s=seconds(given["save_every"], "--save-every"),
        margin=_margin(given["margin"]),
    )


def _margin(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return parse_percent(text, most=MOST_MARGIN)
    except ValueError as error:
        raise InputError(Problem("--margin", 0, 0, "", "SP109", f"{error}")) from None


def with_layout(imported: Imported, text: str | None) -> Imported:
    """Replace parts of the layout that was read, e.g. the micro-batch that a file leaves open."""
    if text is None:
        return imported
    values = {**imported.request.model_dump(), **parse_layout(text)}
    return dataclasses.replace(imported, request=LayoutRequest(**values))


def imported_report(
    imported: Imported, plan: Plan, better: Result, within_framework: Sequence[Result]
) -> Report:
    """Report what an existing configuration is worth, and which plans are better.

    Parameters
    ----------
    imported, plan
        The configuration and its estimate.
    better, within_framework
        The best plans of all, and of those that its framework can say, part by part.
    """
    report = check_report(imported.problem, plan)
    found = better.plans[0] if better.plans else None
    own, text = _own(imported, plan, within_framework)
    mine = _nothing(better) if found is None else _better(plan, found, better)
    rows = (("Better", mine), (f"In {imported.source}", text))
    data = {
        **report.data,
        "from": imported.source,
        "launch": imported.launch.model_dump(mode="json"),
        "notes": list(imported.notes),
        "better": None if found is None else found.model_dump(mode="json"),
        "better_within_framework": None if own is None else own.model_dump(mode="json"),
    }
    notes = (*report.notes, *imported.notes)
    return Report((*report.blocks, Facts(rows)), data, report.records, report.texts, notes)


def _own(imported: Imported, plan: Plan, results: Sequence[Result]) -> tuple[Plan | None, str]:
    """Return the fastest plan that the framework can say, and what it gains or why none can."""
    best: tuple[Plan, Result] | None = None
    reasons = []
    for result in results:
        found, why = sayable(imported.problem, result.plans, imported.source)
        if found is None:
            reasons.append(why or _nothing(result))
        elif best is None or found.estimate.time.step_s < best[0].estimate.time.step_s:
            best = found, result
    if best is not None:
        return best[0], _better(plan, *best)
    return None, f"none that {imported.source} can say: {'; '.join(dict.fromkeys(reasons))}"


def _nothing(result: Result) -> str:
    """Say why a search has no plan."""
    if result.status != "infeasible":
        return f"no plan found within {SEARCH_S:g} s, and none excluded"
    why = result.reasons[0] if result.reasons else "shardplan solve says why"
    return f"proved that no plan keeps every limit: {why}"


def _better(plan: Plan, found: Plan, result: Result) -> str:
    """Say what the best plan gains; plans within the tolerance count as equal."""
    step, mine = found.estimate.time.step_s, plan.estimate.time.step_s
    saved = 1 - step / mine
    if saved <= result.tolerance and all(limit.ok for limit in plan.limits):
        return f"none: the best plan is {max(saved, 0):.1%} faster, within the tolerance"
    return (
        f"{layout_text(found)} on {found.gpus} GPUs: {show_seconds(step)} a step against "
        f"{show_seconds(mine)}"
    )


def trace_plan(plan: str, rank: int, microbatches: int | None, output: str | None) -> Report:
    """Draw one step of a plan of a plan JSON as a timeline.

    Raises
    ------
    InputError
        Where plan, micro-batches or file cannot be used.
    """
    problem, chosen = stored_plan(plan, rank)
    step = simulate_plan(problem, chosen, microbatches)
    drawn = trace(step)
    lines = ",\n".join(json.dumps(event, sort_keys=True) for event in drawn["traceEvents"])
    rest = json.dumps({k: v for k, v in drawn.items() if k != "traceEvents"}, sort_keys=True)
    text = f'{{"traceEvents": [\n{lines}\n],\n{rest[1:]}\n'
    if output is not None:
        write_whole(output, text)
    rows = (
        ("Layout", layout_text(chosen)),
        ("Drawn", f"{step.microbatches:,} of {chosen.batch.microbatches:,} micro-batches"),
        ("Simulated", f"{step.simulated_s:.6g} s, bubble {step.bubble:.2%}"),
        ("Closed form", f"{step.closed_form_s:.6g} s, "
                        f"bubble {chosen.estimate.bubble_fraction:.2%} of all micro-batches"),
    )  # fmt: skip
    return Report((Facts(rows),), drawn["otherData"], (), {"trace": lambda: text})
