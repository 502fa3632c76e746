"""The answer of ``solve``: the table of plans, the front, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from topology.units import DAY, show_bytes, show_seconds, show_usd

from ..job.job import PlanningProblem
from ..job.price_kinds import asked_kinds
from ..plan import Plan
from ..result import Result
from .blocks import Block, Facts, Plain, Report, Sheet
from .cells import count, percent
from .goodput import goodput_line
from .header import (
    dropped_line,
    layers_looked_at,
    objective_text,
    problem_lines,
    solver_line,
)
from .layouts import layout_text
from .plan_lines import layers_lines, links_line, memory_line, step_line
from .plan_rows import ADVISED, CLOSE, WINNER, plan_columns, plan_record, plan_row
from .resolved import PLAN_SCHEMA, assumptions, problem_data, problem_sha256, tool_version
from .scatter import scatter


@dataclass(frozen=True, slots=True)
class Run:
    """How a result was made; ``seconds`` is for people only and never enters the JSON.

    ``before`` is what was looked for first, where the plans are those at an extreme.
    """

    seed: int = 0
    workers: int = 1
    seconds: float | None = None
    before: str = ""


_EXTREMES = {
    "gpus": "fewest GPUs",
    "params": "most parameters",
    "seq_len": "longest sequence",
    "global_batch": "largest global batch",
}


def plans_report(problem: PlanningProblem, result: Result, run: Run | None = None) -> Report:
    """Report a result in every form."""
    run = run or Run()
    shown = result.front if problem.objective.pareto and result.front else result.plans
    blocks = [_header(problem, result, run), *_answer(problem, result)]
    taken = assumptions(problem)
    if taken:
        rows = tuple((f"* {a['field']}", f"{a['value']} · {a['source']}") for a in taken)
        blocks.append(Facts(rows, "Taken, not given"))
    return Report(
        blocks=tuple(blocks),
        data=plans_data(problem, result),
        records=tuple(_record(plan, result) for plan in shown),
    )


def plans_data(problem: PlanningProblem, result: Result) -> dict[str, Any]:
    """Return the plan JSON: the result, the problem that it answers, and what was assumed."""
    return {
        **result.model_dump(mode="json"),
        "schema": PLAN_SCHEMA,
        "tool_version": tool_version(),
        "problem_sha256": problem_sha256(problem),
        "problem": problem_data(problem),
        "assumptions": assumptions(problem),
    }


def _record(plan: Plan, result: Result) -> dict[str, Any]:
    advised = _identity(plan) == _advised(result)
    return {**plan_record(plan), "recommended": advised, "measured": result.measured}


def _header(problem: PlanningProblem, result: Result, run: Run) -> Facts:
    line = solver_line(problem, result, run.seed, run.workers, run.seconds)
    own = objective_text(problem.objective.minimise, problem.objective.then)
    aim = ", then ".join(filter(None, (_EXTREMES.get(run.before), own)))
    return Facts((*problem_lines(problem), ("Objective", aim), ("Solver", line)))


def _answer(problem: PlanningProblem, result: Result) -> list[Block]:
    if not result.plans:
        return [_no_plan(problem, result)]
    blocks: list[Block] = []
    if problem.objective.pareto and result.front:
        blocks += _front(problem, result)
    blocks.append(_plan_sheet(problem, result.plans, result, "Plans"))
    blocks.append(_legend(problem, result))
    blocks.append(Facts(_why(result.plans[0], problem, result), f"Plan {result.plans[0].rank}"))
    if result.refined is not None:
        text = _refined(result.refined, result.plans[0])
        blocks.append(Facts((("Stage by stage", text),)))
    if result.fastest is not None:
        blocks.append(Facts((("Fastest", _beside(result.fastest, result.plans[0])),)))
    if result.notes:
        blocks.append(Facts(tuple(("•", note) for note in result.notes), "Notes"))
    return blocks


def _no_plan(problem: PlanningProblem, result: Result) -> Facts:
    if result.status == "infeasible":
        layers = layers_looked_at(problem)
        title = f"× No plan fits: proved infeasible{f' with {layers}' if layers else ''}"
    else:
        title = "× No plan found within the time limit; nothing is proved"
    rows = [("╰─▶" if number == 0 else "", why) for number, why in enumerate(result.reasons)]
    dropped = dropped_line(result.certificate)
    if dropped:
        rows.append(("excluded", dropped))
    rows += [("hint", note) for note in result.notes]
    return Facts(tuple(rows), title)


def _goal(plan: Plan, result: Result) -> float:
    if result.objective == "cost" and plan.cost.usd is not None:
        return plan.cost.usd
    return plan.cost.wall_clock_s


def _plan_sheet(
    problem: PlanningProblem, plans: tuple[Plan, ...], result: Result, title: str
) -> Sheet:
    close = _goal(result.plans[0], result) * (1 + result.tolerance)
    best, advised = _identity(result.plans[0]), _advised(result)
    rows, styles = [], []
    for plan in plans:
        first, simple = _identity(plan) == best, _identity(plan) == advised
        near = _goal(plan, result) <= close
        mark = (WINNER if first else CLOSE if near else "") + (ADVISED if simple else "")
        rows.append(plan_row(plan, mark))
        styles.append("bold green" if first else "bold" if simple else "" if near else "dim")
    run = any(plan.cost.steps is not None for plan in plans)
    priced = any(plan.cost.usd is not None for plan in plans)
    kinds = len(asked_kinds(problem)) > 1
    columns = plan_columns(plans, whole_run=run, priced=priced, kinds=kinds)
    return Sheet(columns, tuple(rows), title, tuple(styles))


def _identity(plan: Plan) -> tuple[object, ...]:
    """Return what makes two plans the same one; ranks differ between plans and front."""
    return plan.gpus, plan.layout, plan.batch, plan.recompute, plan.price_kind


def _advised(result: Result) -> tuple[object, ...] | None:
    found = (plan for plan in result.plans if plan.rank == result.recommended)
    return next((_identity(plan) for plan in found), None)


def _legend(problem: PlanningProblem, result: Result) -> str:
    near = percent(result.tolerance)
    metric = "exposed" if problem.limits.comm_metric == "exposed" else "all"
    parts = (
        f"{WINNER} optimum",
        f"{ADVISED} recommended: fewest axes within {near}",
        f"{CLOSE} within {near}: equal for this profile",
        "DP×shard = replicas × shard group",
        "µB micro-batch",
        "GA gradient accumulation steps",
        f"comm {metric} communication over compute",
    )
    return " · ".join(parts)


def _options_line(plan: Plan, problem: PlanningProblem) -> tuple[tuple[str, str], ...]:
    """Say which alternatives were taken, where there were any."""
    options = plan.options.model_dump()
    modules = "+".join(options["recompute_modules"])
    taken = [
        f"{name} {modules if name == 'recompute_modules' else options[name]}"
        for name, values in problem.search.variants
        if values
    ]
    return (("Options", " · ".join(taken)),) if taken else ()


def _order_line(result: Result) -> tuple[tuple[str, str], ...]:
    """Say what each of several objectives reached, and what it left to the next."""
    if not result.preferences:
        return ()
    shows = {"time": show_seconds, "cost": show_usd, "memory": show_bytes, "gpus": count}
    parts = []
    for one in result.preferences:
        show = shows[one.objective]
        left = f" (up to {show(one.allowed)})" if one.allowed > one.least else ""
        parts.append(f"{one.objective} {show(one.least)}{left}")
    return (("Order", f"of one step: {', then '.join(parts)}"),)


def _why(plan: Plan, problem: PlanningProblem, result: Result) -> tuple[tuple[str, str], ...]:
    layout, batch = plan.layout, plan.batch
    dropped = dropped_line(result.certificate)
    return (
        *_order_line(result),
        ("Layout", layout_text(plan)),
        *_options_line(plan, problem),
        (
            "GPUs",
            f"{plan.gpus:,} = TP {layout.tp} × PP {layout.pp} × CP {layout.cp} × DP {layout.dp}; "
            f"{batch.global_sequences:,} seqs = µB {batch.micro_batch} × GA {batch.microbatches:,} "
            f"× DP {layout.dp}",
        ),
        ("Memory", memory_line(plan)),
        ("Step", step_line(plan)),
        *layers_lines(plan),
        *links_line(plan),
        *goodput_line(plan),
        *((("Excluded", f"shapes by limit: {dropped}"),) if dropped else ()),
    )


def _refined(plan: Plan, best: Plan) -> str:
    """Say what choosing layers stage by stage gains."""
    step, before = plan.estimate.time.step_s, best.estimate.time.step_s
    parts = [f"{name.lower()} {text}" for name, text in layers_lines(plan)]
    gain = f"{show_seconds(step)} a step, {1 - step / before:.2%} less"
    return f"{', '.join(parts)}; others {plan.recompute}: {gain}"


def _beside(plan: Plan, cheapest: Plan) -> str:
    if _identity(plan) == _identity(cheapest):
        return "the cheapest plan is the fastest one too"
    price = ""
    if plan.cost.usd is not None and cheapest.cost.usd:
        ratio = plan.cost.usd / cheapest.cost.usd
        price = f" for {show_usd(plan.cost.usd)}, {ratio:.2f} × the cheapest"
    wall = show_seconds(plan.cost.wall_clock_s)
    return f"{layout_text(plan)} on {plan.gpus:,} GPUs: {wall}{price}"


def _front(problem: PlanningProblem, result: Result) -> list[Block]:
    considered = len(result.gpu_counts_considered)
    kinds = asked_kinds(problem)
    under = f" under {', '.join(kinds)}" if len(kinds) > 1 else ""
    title = f"Pareto front of time, cost and GPUs{under} · {considered} GPU counts considered"
    sheet = _plan_sheet(problem, result.front, result, title)
    points = [(float(plan.gpus), plan.estimate.time.step_s) for plan in result.front]
    drawing = scatter(points, "GPUs", "step s")
    blocks: list[Block] = [sheet, Plain(drawing, "Front: step time over GPUs")]
    run = any(plan.cost.steps is not None for plan in result.front)
    unit, of = (DAY, "run, days") if run else (1.0, "step s")
    priced = [
        (p.cost.usd, p.cost.wall_clock_s / unit) for p in result.front if p.cost.usd is not None
    ]
    if len(priced) == len(result.front):
        title = f"Front: {'run' if run else 'step'} time over cost"
        blocks.append(Plain(scatter(priced, "USD", of), title))
    return blocks
