"""The page of a plan JSON."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from topology.units import show_bandwidth, show_seconds, show_usd

from ...job.job import PlanningProblem
from ...plan import Plan
from ...result import Result
from ..blocks import Column, Plain, Sheet
from ..cells import axis_name, figures, gigabytes, things
from ..drawing import to_svg
from ..header import layers_looked_at
from ..layouts import layout_text
from ..machine import LEVEL_NAMES
from ..plans import plans_data, plans_report
from .drawing import LABEL, figure
from .launch_section import launch_section
from .page import block_html, card, folded, page, picture, tiles
from .plan_charts import memory_bars, peak_text, step_waterfall, timeline
from .scatter_chart import Dot, scatter

CARDS = 6
MOST_EMBEDDED = 100
"""Plans of a front that a page holds for programs, about 5 kB each: pages stay below 1 MB."""


def plan_page(
    problem: PlanningProblem,
    result: Result,
    rejected: Sequence[Plan] = (),
    more: Iterable[tuple[str, str]] = (),
) -> str:
    """Return the page of a result.

    Parameters
    ----------
    problem, result
        What was asked, and the answer.
    rejected
        Plans that break a limit, for the scatter.
    more
        Further sections: heading and HTML.
    """
    blocks = plans_report(problem, result).blocks
    # The scatter of the page stands for those of the terminal.
    answer = "".join(block_html(b) for b in blocks[1:] if not isinstance(b, Plain))
    sections = [("Problem", block_html(blocks[0]))]
    if result.plans:
        sections = [("Best plan", _best(problem, result)), *sections]
        sections += _figures(result, rejected)
    sections += [("Details" if result.plans else "Answer", answer), *more]
    if result.plans:
        sections.append(("Launch", launch_section(problem, result.plans[0])))
    sections.append(("Topology", _topology(problem, result)))
    return page(plan_title(problem), sections, _embedded(problem, result))


def plan_title(problem: PlanningProblem) -> str:
    """Name the model and every kind of GPU."""
    cluster = " + ".join(f"{g.gpus:,} × {g.gpu.name}" for g in problem.cluster.groups)
    return f"{problem.job.transformer.name} on {cluster}"


def _embedded(problem: PlanningProblem, result: Result) -> dict[str, Any]:
    """Return what the page holds for programs: all but a front that would swell it."""
    data = plans_data(problem, result)
    if len(data["front"]) <= MOST_EMBEDDED:
        return data
    note = f"the front's {len(data['front'])} plans are in the plan JSON; this page draws them"
    return {**data, "front": [], "notes": [*data["notes"], note]}


def _best(problem: PlanningProblem, result: Result) -> str:
    """Return the figures of the best plan that matter most, then the plans side by side."""
    best = result.plans[0]
    time, cost = best.estimate.time, best.cost
    layers = layers_looked_at(problem)
    among = f"best of all layouts{f' with {layers}' if layers else ''}"
    rows = [(f"{best.gpus:,}", f"GPUs on {things(best.nodes, 'node')}")]
    if cost.steps is not None:
        rows.append((show_seconds(cost.wall_clock_s), f"wall clock, {cost.steps:,} steps"))
    if cost.usd is not None:
        rows.append((_short_usd(cost.usd), "cost" if cost.steps is not None else "a step"))
    rows += [
        (show_seconds(time.step_s), "a step"),
        (f"{time.mfu:.1%}", "MFU"),
        (
            f"{gigabytes(best.estimate.peak_bytes)} GB",
            f"on the fullest GPU: {best.estimate.verdict}",
        ),
        ("proved" if result.status == "optimal" else "not proved", among),
    ]
    cards = "".join(_card(plan, result) for plan in result.plans[:CARDS])
    return f'{tiles(rows)}<h3>Plans</h3><div class="cards">{cards}</div>'


def _short_usd(usd: float) -> str:
    """Show dollars, large amounts in millions; the card beside it has every digit."""
    return f"${usd / 1e6:,.2f} M" if usd >= 1e6 else show_usd(usd)  # noqa: PLR2004


def _figures(result: Result, rejected: Sequence[Plan]) -> list[tuple[str, str]]:
    best = result.plans[0]
    caption = "Plans found, and those of the Pareto front with their GPUs"
    caption += "; crosses break a limit, listed below." if rejected else "."
    memory = "Memory of one GPU by kind of stage, against the limit and what the card offers."
    step = "Parts of one optimizer step on the stage that sets the pace; hidden communication is "
    step += "not part of it."
    pipe = "The first micro-batches as the schedule runs them, simulated; every other one is "
    pipe += "paler, gaps are idle. One forward to two backward, to three where all is recomputed."
    of = "time of a step" if best.cost.steps is None else "wall-clock time"
    found = figure(partial(scatter, _dots(result, rejected), of), caption)
    return [
        ("Time and cost", found + _over_limits(rejected)),
        ("Memory", figure(partial(memory_bars, best), memory)),
        ("Step", figure(partial(step_waterfall, best), step)),
        ("Pipeline", figure(partial(timeline, best), pipe)),
    ]


def _over_limits(rejected: Sequence[Plan]) -> str:
    """List the plans that break a limit, for paper and for screens without hover."""
    if not rejected:
        return ""
    columns = (
        Column("layout", "layout", align="left"),
        Column("step", "step s", figures),
        Column("why", "over the limit", align="left"),
    )
    rows = tuple(
        {"layout": layout_text(p), "step": p.estimate.time.step_s, "why": _broken(p)}
        for p in rejected
    )
    return folded(f"Plans over a limit ({len(rows)})", block_html(Sheet(columns, rows)))


def _broken(plan: Plan) -> str:
    broken = [c for c in plan.limits if not c.ok]
    return "; ".join(f"{c.id}: {c.value:.4g} {c.unit}, limit {c.limit:.4g}" for c in broken)


def _card(plan: Plan, result: Result) -> str:
    advised = ", recommended" if plan.rank == result.recommended else ""
    time, cost = plan.estimate.time, plan.cost
    rows = [
        ("layout", layout_text(plan)),
        ("GPUs", f"{plan.gpus:,} on {things(plan.nodes, 'node')}"),
        ("step", f"{show_seconds(time.step_s)}, MFU {time.mfu:.1%}"),
        ("memory", peak_text(plan)),
    ]
    if cost.steps is not None:
        rows.append(("wall clock", show_seconds(cost.wall_clock_s)))
    if cost.usd is not None:
        kind = f", {plan.price_kind}" if plan.price_kind else ""
        rows.append(("cost", f"{show_usd(cost.usd)}{kind}"))
    return card(f"Plan {plan.rank}{advised}", rows)


def _dots(result: Result, rejected: Sequence[Plan]) -> list[Dot]:
    best = result.plans[0]
    dots = [_dot(plan, "feasible", "") for plan in result.plans[1:]]
    dots += [
        _dot(p, "front", "") for p in result.front if (p.gpus, p.cost) != (best.gpus, best.cost)
    ]
    dots += [_dot(plan, "infeasible", _broken(plan)) for plan in rejected]
    return [*dots, _dot(best, "best", "")]


def _dot(plan: Plan, kind: str, why: str) -> Dot:
    price = f", {plan.price_kind}" if plan.price_kind else ""
    text = f"{layout_text(plan)} on {plan.gpus} GPUs{price}{': ' * bool(why)}{why}"
    return Dot(plan.cost.wall_clock_s, plan.cost.usd, plan.gpus, kind, text, plan.price_kind)


def _topology(problem: PlanningProblem, result: Result) -> str:
    """Return the drawing of the cluster, and which link each group of the best plan runs over."""
    cluster = problem.cluster
    drawn = ""
    if len(cluster.groups) == 1:
        # As an image, so that its style stays its own.
        named = dataclasses.replace(cluster, name=cluster.name[:LABEL])
        inside = base64.b64encode(to_svg(named).encode()).decode()
        caption = "Boxes are communication levels; each names what a GPU gets across it."
        source = f"data:image/svg+xml;base64,{inside}"
        drawn = picture(source, "communication levels", caption)
    placed = result.plans[0].placement if result.plans else None
    if placed is None:
        return drawn
    columns = (
        Column("axis", "group", align="left"),
        Column("ranks", "ranks"),
        Column("stride", "ranks apart"),
        Column("over", "over", align="left"),
        Column("rate", "per GPU"),
    )
    rows = tuple(
        {"axis": axis_name(a.axis), "ranks": a.ranks, "stride": a.stride,
         "over": LEVEL_NAMES[a.level], "rate": show_bandwidth(a.bytes_per_s)}
        for a in placed.axes
    )  # fmt: skip
    return drawn + (block_html(Sheet(columns, rows, "Groups of the best plan")) if rows else "")
