"""A capacity study's answer in every form."""

from __future__ import annotations

from typing import Any

from topology.units import show_seconds, show_usd

from ..report.blocks import Block, Column, Facts, Report, Sheet
from ..report.cells import count, figures, percent1, things, usd
from ..report.resolved import tool_version
from ..search.portfolio import Schedule
from .capacity import CENTS, MOST_NAMED, Recommendation, break_evens, days

CAPACITY_SCHEMA = "shardplan.capacity/1"
DAY_HOURS = 24


def capacity_report(found: Recommendation) -> Report:
    """Report the recommendation, the front, what binds, and what to beware of."""
    best, spec = found.best, found.study.spec
    head = Facts(tuple(_head(found)))
    blocks: list[Block] = [head]
    rows: list[dict[str, Any]] = []
    if isinstance(best, Schedule):
        rows = [_row(found, best, job) for job in range(len(spec.jobs))]
        blocks.append(Sheet(_COLUMNS, tuple(rows), "Recommendation"))
        blocks += _reserved(found, best)
        points = tuple({"usd": c / CENTS, "days": h / DAY_HOURS} for c, h in found.front)
        columns = (Column("usd", "cost $", usd), Column("days", "last end, days", figures))
        blocks.append(Sheet(columns, points, "Cost against time"))
    if found.binding:
        title = "What binds" if isinstance(best, Schedule) else "What stands in the way"
        blocks.append(Facts(tuple(("•", text) for text in found.binding), title))
    evens = tuple((f"{a} against {b}", _cheaper(share)) for a, b, share in break_evens(found.study))
    if evens:
        blocks.append(Facts(evens, "Reserved against on-demand"))
    blocks.append(Sheet(_OPTIONS, tuple(_options(found)), "Best of each job on each offer"))
    return Report(tuple(blocks), _data(found, rows), tuple(rows), notes=found.warnings)


def _cheaper(share: float) -> str:
    """Say from which use on a contract is cheaper: of no more than all of its hours."""
    if share < 1:
        return f"cheaper above {share:.0%} use"
    return f"never cheaper: its price is {share:.2f} × the other's"


_COLUMNS = (
    Column("job", "job", align="left"),
    Column("offer", "offer", align="left"),
    Column("nodes", "nodes", count),
    Column("gpus", "GPUs", count),
    Column("start_days", "start, days", figures),
    Column("days", "days", figures),
    Column("usd", "cost $", usd),
    Column("layout", "plan", align="left"),
    Column("mfu", "MFU", percent1),
)
_OPTIONS = (
    Column("job", "job", align="left"),
    Column("offer", "offer", align="left"),
    Column("plans", "plans", count),
    Column("fewest", "fewest nodes", count),
    Column("cheapest", "least $", usd),
    Column("fastest", "least days", figures),
)


def _head(found: Recommendation) -> list[tuple[str, str]]:
    spec, best = found.study.spec, found.best
    aim = "least cost" if spec.objective == "cost" else "soonest end"
    limits = [f"{name} {text}" for name, text in (
        ("budget", "" if spec.budget is None else show_usd(spec.budget)),
        ("deadline", "" if spec.deadline is None else show_seconds(spec.deadline)),
    ) if text]  # fmt: skip
    due = [f"{job.name} within {show_seconds(job.deadline)}"
           for job in spec.jobs if job.deadline is not None]  # fmt: skip
    limits += due[:MOST_NAMED]
    if len(due) > MOST_NAMED:
        limits.append(f"{len(due) - MOST_NAMED} more jobs by deadlines of their own")
    failing = "counted" if found.study.problems[0][0].reliability else "not counted"
    rows = [
        ("Study", f"{things(len(spec.jobs), 'job')} · {things(len(spec.offers), 'offer')} · {aim}"),
        ("Limits", " · ".join(limits) or "none"),
        ("Failures", f"{failing} (reliability)"),
    ]
    if isinstance(best, Schedule):
        proof = "PROVED" if best.proved else "not proved best: time ran out"
        total = f"{show_usd(best.cents / CENTS)}, all done after {days(best.makespan)}"
        rows.append(("Answer", f"{total} · {proof}"))
    elif best.proved:
        rows.append(("Answer", "× no schedule keeps the limits: proved"))
    else:
        rows.append(("Answer", "no schedule was found in time; nothing is proved"))
    return rows


def _row(found: Recommendation, best: Schedule, job: int) -> dict[str, Any]:
    number = best.taken[job]
    choice, point = found.portfolio.choices[number], found.points[number]
    spec = found.study.spec
    return {
        "job": spec.jobs[job].name,
        "offer": spec.offers[choice.pool].name,
        "nodes": choice.nodes,
        "gpus": point["gpus"],
        "start_days": best.starts[job] / DAY_HOURS,
        "days": choice.hours / DAY_HOURS,
        "usd": choice.cents / CENTS,
        "layout": point["layout"],
        "mfu": point["mfu"],
        "step_s": point["step_s"],
        "goodput": point["goodput"],
    }


def _reserved(found: Recommendation, best: Schedule) -> list[Block]:
    rows = []
    for number, (offer, pool) in enumerate(
        zip(found.study.spec.offers, found.portfolio.pools, strict=True)
    ):
        nodes = best.reserved[number]
        if pool.node_cents is None or not nodes:
            continue
        window = (pool.closes or 0) - pool.opens
        busy = sum(
            found.portfolio.choices[n].nodes * found.portfolio.choices[n].hours
            for n in best.taken if found.portfolio.choices[n].pool == number
        )  # fmt: skip
        cost = show_usd(nodes * pool.node_cents / CENTS)
        use = f"busy {busy / nodes / window:.0%}"
        rows.append(
            (offer.name, f"{things(nodes, 'node')} for {window / DAY_HOURS:g} days: {cost}, {use}")
        )
    return [Facts(tuple(rows), "Reserved")] if rows else []


def _options(found: Recommendation) -> list[dict[str, Any]]:
    rows = []
    for job, job_spec in enumerate(found.study.spec.jobs):
        for pool, offer in enumerate(found.study.spec.offers):
            mine = [c for c in found.portfolio.choices if (c.job, c.pool) == (job, pool)]
            row: dict[str, Any] = {"job": job_spec.name, "offer": offer.name, "plans": len(mine)}
            if mine:
                row |= {
                    "fewest": min(c.nodes for c in mine),
                    "cheapest": None if offer.contract else min(c.cents for c in mine) / CENTS,
                    "fastest": min(c.hours for c in mine) / DAY_HOURS,
                }
            rows.append(row)
    return rows


def _data(found: Recommendation, rows: list[dict[str, Any]]) -> dict[str, Any]:
    best = found.best
    answer: dict[str, Any] = {"status": "infeasible" if best.proved else "unknown"}
    if isinstance(best, Schedule):
        answer = {
            "status": "optimal" if best.proved else "feasible",
            "usd": best.cents / CENTS,
            "makespan_s": best.makespan * 3600,
            "reserved_nodes": {
                offer.name: nodes
                for offer, nodes in zip(found.study.spec.offers, best.reserved, strict=True)
                if nodes
            },
        }
    return {
        "schema": CAPACITY_SCHEMA,
        "tool_version": tool_version(),
        **answer,
        "runs": rows,
        "front": [{"usd": c / CENTS, "makespan_s": h * 3600} for c, h in found.front],
        "binding": list(found.binding),
        "break_even": [
            {"contract": a, "offer": b, "share_of_use": share}
            for a, b, share in break_evens(found.study)
        ],
        "options": _options(found),
    }
