"""The page of a plan JSON."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterable, Sequence

from topology.units import show_seconds, show_usd

from ...job.job import PlanningProblem
from ...plan import Plan
from ...result import Result
from ..blocks import Block
from ..drawing import to_svg
from ..layouts import layout_text
from ..plans import plans_data, plans_report
from .drawing import LABEL
from .page import block_html, card, figure, page
from .plan_charts import Dot, memory_bars, peak_text, scatter, step_waterfall, timeline

CARDS = 6


def plan_page(
    problem: PlanningProblem,
    result: Result,
    rejected: Sequence[Plan] = (),
    more: Iterable[tuple[str, Sequence[Block]]] = (),
) -> str:
    """Return the page of a result.

    Parameters
    ----------
    problem, result
        What was asked, and the answer.
    rejected
        Plans that break a limit, for the scatter.
    more
        Further sections: heading and blocks.
    """
    model = problem.job.transformer.name
    gpu = problem.cluster.groups[0].gpu.name
    title = f"{model} on {problem.cluster.gpus:,} × {gpu}"
    blocks = plans_report(problem, result).blocks
    sections = [("Problem", block_html(blocks[0]))]
    if result.plans:
        sections += _figures(problem, result, rejected)
    sections += [("Answer", "".join(block_html(block) for block in blocks[1:]))]
    sections += [(head, "".join(map(block_html, extra))) for head, extra in more]
    drawing = "" if len(problem.cluster.groups) > 1 else _cluster(problem)
    sections.append(("Topology", drawing))
    return page(title, sections, plans_data(problem, result))


def _figures(
    problem: PlanningProblem, result: Result, rejected: Sequence[Plan]
) -> list[tuple[str, str]]:
    best = result.plans[0]
    cards = "".join(_card(plan, result) for plan in result.plans[:CARDS])
    caption = "Time and cost of the plans found; crosses break a limit, hover says which."
    found = scatter(_dots(result, rejected))
    memory = "Memory of one GPU by kind of stage. Red: the limit; grey: what the card offers."
    step = "Parts of one optimizer step on the stage that sets the pace; hidden communication is "
    step += "not part of it."
    pipe = "The first micro-batches as the schedule runs them, simulated; one forward to two "
    pipe += "backward, to three where all is recomputed."
    return [
        ("Plans", f'<div class="cards">{cards}</div>'),
        ("Time and cost", figure(found, caption)),
        ("Memory", figure(memory_bars(best), memory)),
        ("Step", figure(step_waterfall(best), step)),
        ("Pipeline", figure(timeline(best), pipe)),
    ]


def _card(plan: Plan, result: Result) -> str:
    advised = ", recommended" if plan.rank == result.recommended else ""
    time, cost = plan.estimate.time, plan.cost
    rows = [
        ("layout", layout_text(plan)),
        ("GPUs", f"{plan.gpus:,} on {plan.nodes:,} nodes"),
        ("step", f"{show_seconds(time.step_s)}, MFU {time.mfu:.1%}"),
        ("memory", peak_text(plan)),
    ]
    if cost.steps is not None:
        rows.append(("wall clock", show_seconds(cost.wall_clock_s)))
    if cost.usd is not None:
        rows.append(("cost", show_usd(cost.usd)))
    return card(f"Plan {plan.rank}{advised}", rows)


def _dots(result: Result, rejected: Sequence[Plan]) -> list[Dot]:
    dots = [_dot(plan, "feasible", "") for plan in (*result.front, *result.plans[1:])]
    for plan in rejected:
        broken = [c for c in plan.limits if not c.ok]
        why = "; ".join(f"{c.id}: {c.value:.4g} {c.unit}, limit {c.limit:.4g}" for c in broken)
        dots.append(_dot(plan, "infeasible", why))
    return [*dots, _dot(result.plans[0], "best", "")]


def _dot(plan: Plan, kind: str, why: str) -> Dot:
    price = f", {plan.price_kind}" if plan.price_kind else ""
    text = f"{layout_text(plan)} on {plan.gpus} GPUs{price}{': ' * bool(why)}{why}"
    return Dot(plan.cost.wall_clock_s, plan.cost.usd, plan.gpus, kind, text, plan.price_kind)


def _cluster(problem: PlanningProblem) -> str:
    """Return the drawing of the cluster, as an image so that its style stays its own."""
    cluster = dataclasses.replace(problem.cluster, name=problem.cluster.name[:LABEL])
    inside = base64.b64encode(to_svg(cluster).encode()).decode()
    picture = f'<img alt="communication levels" src="data:image/svg+xml;base64,{inside}">'
    return figure(picture, "Boxes are communication levels; each names what a GPU gets across it.")
