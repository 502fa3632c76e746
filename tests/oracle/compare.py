"""Hold what the product answers against the enumerator, to the last integer and every tie."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

from solver.cost.ticks import MIB, TICK_S
from solver.job.job import PlanningProblem
from solver.plan import Plan as ProductPlan
from solver.result import Result
from solver.search.search import solve

from .enumerator import (
    Block,
    Goal,
    Plan,
    Point,
    blocks,
    charged,
    enumerate_best,
    enumerate_front,
    find_plan,
)
from .legal import Question, gpu_counts
from .problems import questions


class Mismatch(NamedTuple):
    """One figure on which the two disagree."""

    what: str
    product: object
    enumerator: object


@dataclass(frozen=True)
class Comparison:
    """Outcome of one problem."""

    mismatches: tuple[Mismatch, ...]
    best: Plan | None
    front: tuple[Point, ...] | None
    """Points of the front, None where none was asked for."""


def step_of(plan: ProductPlan) -> int:
    """Step of a product's plan in ticks."""
    return round(plan.estimate.time.step_s / TICK_S)


def slowdown_of(plan: ProductPlan) -> int:
    """Wall-clock over training time in millionths."""
    goodput = plan.cost.goodput
    return 1_000_000 if goodput is None else round(goodput.slowdown * 1e6)


def wall_of(plan: ProductPlan) -> int:
    """Wall-clock ticks of a step."""
    return charged(step_of(plan), slowdown_of(plan))


def mebibytes_of(plan: ProductPlan) -> int:
    """Need of a product's plan, rounded up to MiB."""
    whole, rest = divmod(plan.estimate.peak_bytes, MIB)
    return int(whole) + (rest > 0)


def read_plan(plan: ProductPlan, kinds: tuple[str, ...]) -> Plan:
    """Write a product's plan in the enumerator's terms; raise where it contradicts itself."""
    layout = plan.layout
    by_class = {stage.name: kinds.index(stage.recompute) for stage in plan.estimate.stages}
    middle = by_class.get("heavy", by_class.get("light", 0))
    assert by_class.get("light", middle) == middle, "middle stages recompute differently"
    assert layout.dp == layout.dp_shard * layout.dp_replicate
    assert plan.gpus == layout.tp * layout.cp * layout.pp * layout.dp
    batch = plan.batch
    assert batch.micro_batch * batch.microbatches * layout.dp == batch.global_sequences
    found = Plan(
        pp=layout.pp,
        tp=layout.tp,
        cp=layout.cp,
        ep=layout.ep,
        etp=layout.etp,
        vpp=layout.vpp,
        gpus=plan.gpus,
        zero=layout.zero,
        micro_batch=batch.micro_batch,
        first=by_class["first"],
        middle=middle,
        last=by_class.get("last", 0),
        replicas=layout.dp_replicate,
        order=("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp").index(layout.order),
        dp=layout.dp,
        held=plan.gpus_held,
        step=step_of(plan),
        mebibytes=mebibytes_of(plan),
        slowdown=slowdown_of(plan),
        late=("1f1b", "zb-h1").index(plan.options.schedule),
    )
    assert found.axes == plan.axes, (found.axes, plan.axes)
    return found


def compare(problem: PlanningProblem, time_limit_s: float | None = None) -> Comparison:
    """Ask both, and list every difference; an answer that is not proved in time is one."""
    truth = Truth.of(problem)
    result = solve(problem, time_limit_s=time_limit_s)
    return Comparison(tuple(differences(result, truth)), truth.best, truth.front)


def compare_cut_short(problem: PlanningProblem, time_limits_s: tuple[float, ...]) -> list[Mismatch]:
    """List what is claimed falsely when time runs out: a proof, a bound, or a plan."""
    truth, found = Truth.of(problem), []
    for limit in time_limits_s:
        result = solve(problem, time_limit_s=limit)
        if result.status in ("optimal", "infeasible"):
            found += differences(result, truth)
        elif result.status == "unknown":
            found += [Mismatch("plans without a proof", result.plans, ())] if result.plans else []
        else:
            found += _plans(result, truth, result.plans)
            found += _bound(result, truth)
    return found


@dataclass(frozen=True)
class Truth:
    """What the enumerator says of a problem."""

    asked: Question
    priced: list[Block]
    best: Plan | None
    front: tuple[Point, ...] | None

    @classmethod
    def of(cls, problem: PlanningProblem) -> Truth:
        """Enumerate it."""
        asked = questions(problem)
        each = [blocks(one) for one in asked]
        best = best_of_all(asked, problem.objective.minimise, each)
        priced = list(itertools.chain.from_iterable(each))
        pareto = problem.objective.pareto
        front = tuple(enumerate_front(asked[0], priced)) if pareto else None
        return cls(asked[0], priced, best, front)


def best_of_all(questions: list[Question], goal: Goal, priced: list[list[Block]]) -> Plan | None:
    """Return the best plan over several schedules; one that is as good in the first three wins
    where its schedule comes first."""
    every = [
        plan
        for one, blocks_of_it in zip(questions, priced, strict=True)
        if (plan := enumerate_best(one, goal, blocks_of_it)) is not None
    ]
    return min(every, key=lambda plan: (plan.key(goal)[:3], plan.late), default=None)


def differences(result: Result, truth: Truth) -> list[Mismatch]:
    """List every difference between a finished answer and the truth."""
    found = [*_best(result, truth), *_plans(result, truth, (*result.plans[1:], *result.front))]
    if truth.front is not None:
        have = {(p.gpus, wall_of(p), p.gpus_held * wall_of(p)) for p in result.front}
        if have != set(truth.front) or len(have) != len(result.front):
            missing, extra = sorted(set(truth.front) - have), sorted(have - set(truth.front))
            found.append(Mismatch("front (extra; missing)", extra, missing))
    return found


def _best(result: Result, truth: Truth) -> list[Mismatch]:
    found, best, asked = [], truth.best, truth.asked
    status = "infeasible" if best is None else "optimal"
    if result.status != status:
        found.append(Mismatch("status", result.status, status))
    kept, counts = {block.gpus for block in truth.priced}, gpu_counts(asked)
    if not kept <= set(result.gpu_counts_considered) <= set(counts):
        found.append(Mismatch("GPU counts", result.gpu_counts_considered, (sorted(kept), counts)))
    have = read_plan(result.plans[0], asked.cost.kinds) if result.plans else None
    if have != best:
        both = () if have is None or best is None else zip(Plan._fields, have, best, strict=True)
        parts = [(name, a, b) for name, a, b in both if a != b]
        shown = [(name, a) for name, a, _ in parts], [(name, b) for name, _, b in parts]
        left, right = shown if parts else (have, best)
        found.append(Mismatch("best plan", left, right))
    if result.status == "optimal" and result.certificate.gap != 0:
        found.append(Mismatch("gap of an optimum", result.certificate.gap, 0))
    return found


def _plans(result: Result, truth: Truth, plans: tuple[ProductPlan, ...]) -> list[Mismatch]:
    """Hold plans to keep the limits, to take what they say, and to be no better than the best."""
    found, goal = [], result.objective
    for plan in plans:
        have = read_plan(plan, truth.asked.cost.kinds)
        known = find_plan(truth.priced, have)
        if known != have:
            found.append(Mismatch("plan", have, known))
        elif truth.best is not None and _better(have, truth.best, goal):
            found.append(Mismatch("plan better than the best", have, truth.best))
    return found


def _better(plan: Plan, best: Plan, goal: Goal) -> bool:
    """Whether a plan comes before the best; plans of two schedules compare in three figures."""
    looked_at = None if plan.late == best.late else 3
    return plan.key(goal)[:looked_at] < best.key(goal)[:looked_at]


def _bound(result: Result, truth: Truth) -> list[Mismatch]:
    """Hold the certified lower bound of a step to be one; of cost, its gap to be open."""
    bound = result.certificate.bound
    if bound is None or truth.best is None:
        return [Mismatch("bound", bound, truth.best)]
    if result.objective == "time" and bound > truth.best.wall * TICK_S * (1 + 1e-9):
        return [Mismatch("bound", bound, truth.best.wall * TICK_S)]
    return []
