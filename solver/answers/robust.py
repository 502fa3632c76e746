"""Plans held against the error of the predictions: which loses least, and what to measure next."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from topology.units import show_seconds

from ..job.job import PlanningProblem
from ..plan import Plan
from ..report.layouts import layout_text
from ..result import Result
from ..search.search import solve
from .compare import parts
from .outputs import Loss, Measurement, PassedOver, Robust

WIDE = 12
"""Plans that are held against each other."""
RUNS = 3
"""Runs that are proposed at most."""
STEPS = 20
"""Steps of a run: enough to leave warm-up behind and average a few."""
COMPUTE = ("compute", "recomputation", "overhead", "optimizer")
"""Parts of a step that run on the GPU alone; its bubble grows with the stages."""


def robust(problem: PlanningProblem, *, seed: int = 0, workers: int = 1) -> Robust:
    """Find the plan whose largest loss over the error band is least, and what to measure.

    Each of compute and of the traffic of each axis may take the expected error longer or shorter,
    all corners of that box are looked at; a plan's loss in a corner is against the best plan there.
    """
    result = solve(problem, seed=seed, workers=workers, top=WIDE)
    if not result.plans:
        return Robust(result=result, error=result.expected_error, losses=(), choice=None,
                      measurements=(), after_loss=None, after_loss_text="")  # fmt: skip
    plans, error = result.plans, result.expected_error
    corners = list(_corners(plans, error))
    steps = [[_step(plan, corner) for corner in corners] for plan in plans]
    least = [min(column) for column in zip(*steps, strict=True)]
    losses = tuple(
        Loss(
            rank=plan.rank,
            layout=layout_text(plan),
            worst=max(step / best - 1 for step, best in zip(row, least, strict=True)),
            wins=sum(step == best for step, best in zip(row, least, strict=True)) / len(corners),
        )
        for plan, row in zip(plans, steps, strict=True)
    )
    choice = min(losses, key=lambda loss: (loss.worst, loss.rank))
    lost, text = _after_loss(problem, plans[0])
    return Robust(
        result=result,
        error=error,
        losses=losses,
        choice=choice.rank,
        measurements=tuple(_measurements(result)),
        passed_over=tuple(_passed_over(result)),
        after_loss=lost,
        after_loss_text=text,
    )


Corner = dict[str, float]


def _corners(plans: Sequence[Plan], error: float) -> Iterator[Corner]:
    """Yield every combination of faster and slower compute and traffic."""
    axes = sorted({name for plan in plans for name in parts(plan) if name.startswith("exposed")})
    used = [n for n in axes if any(_total(plan, n) > 0 for plan in plans)]
    for signs in itertools.product((-1, 1), repeat=1 + len(used)):
        yield {n: sign * error for n, sign in zip(("compute", *used), signs, strict=True)}


def _total(plan: Plan, part: str) -> float:
    axis = part.removeprefix("exposed ").lower()
    traffic = plan.estimate.time.communication.get(axis)
    return 0.0 if traffic is None else traffic.total_s


def _step(plan: Plan, corner: Corner) -> float:
    """Return the step where parts take longer: what more traffic takes is exposed."""
    mine = parts(plan)
    slower = 1 + corner["compute"]
    busy = sum(mine[name] for name in COMPUTE) * slower
    for name, change in corner.items():
        if name != "compute":
            busy += max(mine.get(name, 0.0) + change * _total(plan, name), 0.0)
    known = sum(value for name, value in mine.items() if name != "bubble")
    return busy * (1 + mine["bubble"] / known)


def _close(result: Result) -> list[Plan]:
    """Return the plans within the tolerance of the best."""
    most = result.plans[0].estimate.time.step_s * (1 + result.tolerance)
    return [plan for plan in result.plans if plan.estimate.time.step_s <= most]


def _to_measure(result: Result) -> list[Plan]:
    """Choose the best plan and close ones whose steps are made of the most different parts."""
    close, chosen = _close(result), [result.plans[0]]
    while len(chosen) < min(RUNS, len(close)):
        rest = [plan for plan in close if plan not in chosen]
        chosen.append(max(rest, key=lambda plan: min(_apart(plan, one) for one in chosen)))
    return chosen


def _passed_over(result: Result) -> Iterator[PassedOver]:
    """Say of each other plan why a run of it tells less."""
    close, chosen = _close(result), _to_measure(result)
    best = result.plans[0].estimate.time.step_s
    for plan in result.plans:
        if plan in chosen:
            continue
        if plan not in close:
            behind = plan.estimate.time.step_s / best - 1
            why = f"{behind:.1%} behind plan 1, more than the {result.tolerance:.1%} that are equal"
        else:
            near = min(chosen, key=lambda one: _apart(plan, one))
            apart = show_seconds(_apart(plan, near))
            why = (
                f"closest in its parts to plan {near.rank} ({apart} in all): its run tells of both"
            )
        yield PassedOver(rank=plan.rank, why=why)


def _measurements(result: Result) -> Iterator[Measurement]:
    """Propose the runs."""
    best = result.plans[0]
    for plan in _to_measure(result):
        step = plan.estimate.time.step_s
        if plan is best:
            outcome = f"{show_seconds(step)} expected; it stays best unless another one is faster"
        else:
            share = 1 - best.estimate.time.step_s / step
            outcome = (
                f"{show_seconds(step)} expected; it is the better plan where it takes "
                f"{share:.1%} less against plan 1 than predicted"
            )
        flags = f"--layout {layout_text(plan)}"
        yield Measurement(rank=plan.rank, steps=STEPS, flags=flags, expected_s=step,
                          outcome=outcome)  # fmt: skip


def _apart(one: Plan, other: Plan) -> float:
    """Return how differently two steps are made up."""
    left, right = parts(one), parts(other)
    return sum(abs(left.get(n, 0.0) - right.get(n, 0.0)) for n in {**left, **right})


def _after_loss(problem: PlanningProblem, best: Plan) -> tuple[Plan | None, str]:
    """Plan again with a node less than the best plan uses."""
    if len(problem.cluster.groups) > 1 or best.nodes < 2:  # noqa: PLR2004 - one node is all
        return None, "there is no node to lose"
    group = replace(problem.cluster.group, nodes=best.nodes - 1)
    search = problem.search.model_copy(update={"gpus": None})
    fewer = replace(problem, search=search, cluster=replace(problem.cluster, groups=(group,)))
    found = solve(fewer, top=1, explain=False)
    if not found.plans:
        return None, "nothing fits with a node less: keep a spare one"
    plan = found.plans[0]
    slower = plan.estimate.time.step_s / best.estimate.time.step_s - 1
    share = 1 / best.nodes
    spare = "a spare node saves more than it costs" if slower > share else "a spare node costs more"
    text = (
        f"{layout_text(plan)} on {plan.nodes} nodes: {slower:.1%} longer steps while a node of "
        f"{best.nodes} ({share:.1%}) is away; {spare} for as long"
    )
    return plan, text
