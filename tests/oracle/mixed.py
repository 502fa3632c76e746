"""Every layout of a small problem with freely spread layers, on one node group or across several.

By definition and without a solver: plain loops over degrees, blocks of stages and alternatives of
each stage. What the alternatives cost comes from the estimator, nothing else does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from solver.cost.shapes import Shapes, Shardings
from solver.cost.stage_options import StageOptions
from solver.cost.ticks import GRAINS
from solver.job.job import PlanningProblem
from solver.search.instance import Instance
from solver.search.mixed_space import pipeline_across
from solver.search.pipelines import Pipeline
from solver.search.search import instance_of
from solver.search.stagewise import options_of

Point = tuple[int, int, int]
"""Ticks of a step, millionths of USD an hour times ticks, GPUs."""


def instances_of(problem: PlanningProblem) -> list[Instance]:
    """Return one instance a node group."""
    groups = problem.cluster.groups
    single = [replace(problem, cluster=replace(problem.cluster, groups=(g,))) for g in groups]
    return [instance_of(one) for one in single]


def divisors(number: int) -> list[int]:
    """Every divisor, by trial."""
    return [d for d in range(1, number + 1) if number % d == 0]


def blocks(
    problem: PlanningProblem, per_stage: int
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield groups in every order, with every number of stages that whole nodes hold."""
    groups = problem.cluster.groups
    for size in range(2, len(groups) + 1):
        for order in itertools.permutations(range(len(groups)), size):
            room = [range(1, groups[g].gpus // per_stage + 1) for g in order]
            for counts in itertools.product(*room):
                used = [n * per_stage for n in counts]
                nodes = [groups[g].gpus_per_node for g in order]
                if all(u % n == 0 or n % u == 0 for u, n in zip(used, nodes, strict=True)):
                    yield order, counts


def pipelines(problem: PlanningProblem) -> Iterator[tuple[Pipeline, int]]:
    """Yield every layout across groups that keeps the limits of shapes, with USD an hour."""
    job, limits, instances = problem.job, problem.limits, instances_of(problem)
    model, most = job.transformer, max(g.gpus for g in problem.cluster.groups)
    for tp, cp, dp in itertools.product(range(1, most + 1), repeat=3):
        per_stage = tp * cp * dp
        if model.heads % tp or model.kv_heads % tp or (job.seq_len % (2 * cp) and cp > 1):
            continue
        if per_stage > most or job.seq_len % (tp * cp) or job.global_batch % dp:
            continue
        for order, counts in blocks(problem, per_stage):
            groups = [problem.cluster.groups[g] for g in order]
            if not all(_inside(per_stage, tp, g.gpus_per_node, g.nvlink_domain) for g in groups):
                continue
            pp = sum(counts)
            for micro in range(1, max(16, 65_536 // job.seq_len) + 1):
                count, rest = divmod(job.global_batch // dp, micro)
                if rest or pp > min(model.layers, limits.max_stages):
                    continue
                if 10_000 * (pp - 1) > round(10_000 * limits.max_bubble) * (count + pp - 1):
                    continue
                sizes = [g.gpus_per_node for g in groups]
                held = [-(-n * per_stage // s) * s for n, s in zip(counts, sizes, strict=True)]
                shape = Shapes.of(tp=tp, cp=cp, dp=dp, pp=pp, micro_batch=micro,
                                  microbatches=count, held=sum(held))  # fmt: skip
                found = pipeline_across([instances[g] for g in order], counts, shape)
                prices = [round(1e6 * (g.price_usd_per_gpu_hour or 0)) for g in groups]
                if found is not None:
                    yield found, sum(h * p for h, p in zip(held, prices, strict=True))


def _inside(per_stage: int, tp: int, node: int, domain: int) -> bool:
    """Whether a group holds a stage in whole nodes or an even part of one, and TP in a domain."""
    room = max(node, domain)
    whole = per_stage % node == 0 or (per_stage < node and node % per_stage == 0)
    return whole and tp <= room and room % tp == 0


def columns_of(pipeline: Pipeline) -> Iterator[Pipeline]:
    """Yield the pipeline with each of its shardings."""
    every = pipeline.columns
    for z in range(every.zero.shape[1]):
        one = Shardings(every.zero[:, [z]], every.replicas[:, [z]], every.valid[:, [z]])
        yield replace(pipeline, columns=one)


def least_step(pipeline: Pipeline) -> int | None:
    """Least step in ticks over every split, kind and number of recomputed layers."""
    first = pipeline.instances[0]
    total, best = first.job.transformer.layers, None
    most = total - pipeline.stages + 1
    for one in columns_of(pipeline):
        [options] = options_of(one, [tuple(range(1, most + 1))] * one.stages)
        for choice in itertools.product(*(range(len(o)) for o in options)):
            step = _step(pipeline, list(zip(options, choice, strict=True)), total)
            if step is not None and (best is None or step < best):
                best = step
    return best


def _step(pipeline: Pipeline, picked: Sequence[tuple[StageOptions, int]], total: int) -> int | None:
    """Return the step of one complete choice, None where it breaks a rule or a limit."""
    first = pipeline.instances[0]
    if sum(int(o.layers[c]) for o, c in picked) != total:
        return None
    if len({int(o.kind[c]) for o, c in picked}) > 1:
        return None
    if any(
        o.memory[c] > i.cost.capacity_mib
        for i, (o, c) in zip(pipeline.instances, picked, strict=True)
    ):
        return None
    busiest = max(int(o.compute[c]) for o, c in picked)
    sent = max(int(o.sent[c]) for o, c in picked if o.compute[c] == busiest)
    if sent > int(first.limits.max_comm * busiest):
        return None
    pace = max(int(o.pace[c]) for o, c in picked)
    fill = sum(int(o.share[c]) for o, c in picked)
    tail = max(int(o.tail[c]) for o, c in picked)
    return -(-(pace + fill + tail) // GRAINS)
