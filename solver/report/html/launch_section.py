"""How to start a plan: what ``export`` writes for each target, folded."""

from __future__ import annotations

from topology.errors import InputError

from ...job.job import PlanningProblem
from ...launch.export import TARGETS, export
from ...plan import Plan
from ..blocks import Facts
from .page import block_html, code, folded


def launch_section(problem: PlanningProblem, plan: Plan) -> str:
    """Return the files of every target that can say a plan, and why the others cannot."""
    written: list[str] = []
    refused: dict[str, list[str]] = {}
    for name in TARGETS:
        try:
            exported = export(problem, plan, name)
        except InputError as error:
            reasons = dict.fromkeys(problem.message.rstrip(".") for problem in error.problems)
            refused.setdefault("; ".join(reasons), []).append(name)
            continue
        notes = "".join(block_html(note) for note in exported.notes)
        written.append(folded(f"{name}: {exported.file}", notes + code(exported.text)))
    said = "What shardplan export PLAN.json --to NAME writes for the best plan."
    parts = [block_html(said), *written] if written else []
    if refused:
        rows = tuple((", ".join(names), why) for why, names in refused.items())
        parts.append(block_html(Facts(rows, "Targets without words for this plan")))
    return "".join(parts)
