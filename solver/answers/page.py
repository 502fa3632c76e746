"""The sections of a plan's page that need further searches: sensitivity, flip points."""

from __future__ import annotations

from functools import partial

from ..job.job import PlanningProblem
from ..report.html.drawing import figure
from ..report.html.page import block_html
from ..report.html.tornado_chart import Bar, tornado
from .amounts import amount
from .outputs import Effect
from .reports import flips_report
from .sensitivity import sensitivity


def answer_sections(
    problem: PlanningProblem, sensitive: bool, flips: bool
) -> list[tuple[str, str]]:
    """Return headings and HTML: what each input moves, where another plan becomes best, or both."""
    found = []
    if sensitive:
        found.append(("Sensitivity", _sensitivity(problem)))
    if flips:
        found.append(("Flip points", "".join(map(block_html, flips_report(problem).blocks))))
    return found


def _sensitivity(problem: PlanningProblem) -> str:
    minimised = "cost" if problem.objective.minimise == "cost" else "time"
    caption = f"Change of {minimised} a token of the best plan where one input is less or more, "
    caption += "each solved again."
    bars = [_bar(effect) for effect in sensitivity(problem)]
    return figure(partial(tornado, bars), caption)


def _bar(effect: Effect) -> Bar:
    def end(value: float | None, change: float | None) -> tuple[str, float | None] | None:
        return None if value is None else (amount(value, effect.unit), change)

    now = amount(effect.now, effect.unit)
    name = now if now.endswith(effect.parameter) else f"{effect.parameter}, {now}"
    return Bar(name, end(effect.less, effect.less_change), end(effect.more, effect.more_change))
