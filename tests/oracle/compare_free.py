"""Random problems whose layers spread freely, and the product's answer against every layout."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from solver.cost.goodput import Goodput
from solver.cost.shapes import Shapes
from solver.cost.ticks import MAX_TICKS
from solver.job.job import Account, Job, Limits, Objective, PlanningProblem
from solver.job.search import Search
from solver.job.transformer import Transformer
from solver.plan import Plan
from solver.search.pipelines import Pipeline
from solver.search.search import solve
from solver.search.uneven import valid_columns
from topology import ClusterSpec

from .compare import Mismatch, wall_of
from .enumerator import charged
from .legal import gpu_counts, legal_shapes, shape_keeps_limits
from .mixed import instances_of, least_step, pipelines
from .problems import ZERO_BUBBLE, question

GPUS = ("h100-80gb-sxm", "a100-80gb-sxm", "a100-40gb-sxm")
MICRO_USD = 1e6
LATE_SHARE = 0.4
"""Share of the problems on one node group whose weight gradients wait (ZB-H1)."""


def free_problem(seed: int, number: int, groups: int) -> PlanningProblem:
    """Draw a model of a few wide layers on one or several small node groups."""
    dice = random.Random(f"free {seed}/{number}/{groups}")
    model = Transformer(
        name="tiny", layers=dice.choice((3, 4)), hidden=4096, heads=32, kv_heads=2, head_dim=128,
        ffn=14_336, gated=True, vocab=dice.choice((32_000, 128_256)), norm="rms",
    )  # fmt: skip
    spec: list[dict[str, Any]] = [
        {
            "nodes": dice.choice((1, 2)),
            "gpus_per_node": dice.choice((1, 2)),
            "gpu": gpu,
            "price": dice.choice((0.5, 1.2, 2.5)),
        }
        for gpu in dice.sample(GPUS, groups)
    ]
    late = groups == 1 and dice.random() < LATE_SHARE
    search = {
        "schedule": "zb-h1" if late else "1f1b",
        "recompute": dice.choice((("none",), ("none", "full"))),
        "stages": "free",
        "order": ("tp-cp-ep-dp-pp",),
        "vpp": (1,),
    }
    return PlanningProblem(
        job=Job(
            transformer=model,
            seq_len=dice.choice((2048, 8192)),
            global_batch=dice.choice((4, 8)),
            tokens=10**11,
        ),
        cluster=ClusterSpec.model_validate({"groups": spec}).build(),
        limits=Limits(
            max_bubble=dice.choice((0.3, 1.0)),
            mem_headroom=dice.choice((0.1, 0.4, 0.6)),
            max_comm=dice.choice((0.1, 0.5)),
        ),
        search=Search.model_validate(search),
        objective=Objective(minimise=dice.choice(("time", "cost"))),
        account=Account(profile=ZERO_BUBBLE if late else None),
    )


def compare_free(problem: PlanningProblem) -> tuple[Mismatch, ...]:
    """List where the product's optimum differs from the least over every layout."""
    cost = problem.objective.minimise == "cost"
    every = [*_single(problem), *pipelines(problem)]
    known = [
        wall * rate if cost else wall
        for pipeline, rate in every
        if (step := least_step(pipeline)) is not None
        and (wall := charged(step, _slowdown(problem, pipeline))) < MAX_TICKS
    ]
    result = solve(problem, top=1)
    status = "optimal" if known else "infeasible"
    if result.status != status:
        return (Mismatch("status", result.status, status),)
    if not known:
        return ()
    plan = result.plans[0]
    wall = wall_of(plan)
    value = wall * _rate(problem, plan) if cost else wall
    return () if value == min(known) else (Mismatch("objective", value, min(known)),)


def _slowdown(problem: PlanningProblem, pipeline: Pipeline) -> int:
    """Wall-clock over training time, in millionths, on the nodes that the stages fill."""
    goodput = Goodput.of(problem.job, problem.reliability)
    if goodput is None:
        return 1_000_000
    each, nodes = int(pipeline.shape.gpus[0]) // pipeline.stages, 0
    for instance, stages in pipeline.blocks():
        nodes += math.ceil(len(stages) * each / instance.group.gpus_per_node)
    return int(goodput.slowdown(np.array(nodes)))


def _single(problem: PlanningProblem) -> Iterator[tuple[Pipeline, int]]:
    """Yield every layout on each node group by itself, with millionths of USD an hour."""
    for instance in instances_of(problem):
        group = instance.group
        one = replace(problem, cluster=replace(problem.cluster, groups=(group,)))
        asked = question(one)
        for gpus in gpu_counts(asked):
            for degrees in legal_shapes(asked, gpus):
                if shape_keeps_limits(asked, degrees):
                    shape = Shapes(**{name: np.array([v]) for name, v in degrees.items()})
                    pipeline = Pipeline(
                        (instance,) * degrees["pp"], shape, valid_columns(instance, shape)
                    )
                    price = round((group.price_usd_per_gpu_hour or 0.0) * MICRO_USD)
                    yield pipeline, degrees["held"] * price


def _rate(problem: PlanningProblem, plan: Plan) -> int:
    """Millionths of USD an hour of the GPUs that a plan holds."""
    if plan.blocks:
        held = [(b.gpus_held, b.usd_per_gpu_hour or 0.0) for b in plan.blocks]
    else:
        gpu = plan.estimate.stages[0].gpu
        group = next(g for g in problem.cluster.groups if g.gpu.id == gpu)
        held = [(plan.gpus_held, group.price_usd_per_gpu_hour or 0.0)]
    return sum(gpus * round(price * MICRO_USD) for gpus, price in held)
