"""Which plans there are: degrees, batches, interleavings and shardings by definition.

Plain loops over plain integers; only the legal degrees of an axis and the rule by which layers fall
on stages come from the product.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from solver.axes import context, expert, tensor
from solver.cost.goodput import Goodput
from solver.cost.shapes import Shapes
from solver.cost.stages import interleaves, stack_fits
from solver.cost.tables import Tables
from solver.job.counting import attention_core_flops, forward_flops, mean_span
from solver.job.job import Job, Limits
from solver.job.search import Recompute, Search
from topology.cluster import NodeGroup

MANY_TOKENS = 65_536
"""Tokens up to which larger micro-batches are looked at where the search names none."""


class Estimator(Protocol):
    """What the enumerator needs of a cost model."""

    @property
    def kinds(self) -> tuple[Recompute, ...]:
        """Kinds of recomputation, in the order of the tables' axis."""

    @property
    def capacity_mib(self) -> int:
        """Memory that a plan may use at most, MiB."""

    def tables(self, shapes: Shapes) -> Tables:
        """Return the coefficients of every choice."""


@dataclass(frozen=True)
class Question:
    """The parts of a planning problem that decide the answer."""

    job: Job
    group: NodeGroup
    limits: Limits
    search: Search
    cost: Estimator
    goodput: Goodput | None = None


def divisors(number: int) -> list[int]:
    """Every divisor, ascending, by trial."""
    return [d for d in range(1, number + 1) if number % d == 0]


def gpu_counts(question: Question) -> list[int]:
    """Divisors of one node, then whole nodes up to the cluster; or what the search says."""
    node, search = question.group.gpus_per_node, question.search
    if search.gpus is not None:
        return [search.gpus]
    counts = {*divisors(node), *(node * n for n in range(1, question.group.nodes + 1))}
    return sorted(n for n in counts if search.max_gpus is None or n <= search.max_gpus)


def held_gpus(question: Question, gpus: int) -> int:
    """GPUs paid for: whole nodes."""
    node = question.group.gpus_per_node
    return math.ceil(gpus / node) * node


def slowdown(question: Question, held: int) -> int:
    """Wall-clock over training time on so many GPUs, in millionths."""
    if question.goodput is None:
        return 1_000_000
    nodes = np.array(held // question.group.gpus_per_node)
    return int(question.goodput.slowdown(nodes))


def wanted(legal: Sequence[int], listed: tuple[int, ...] | None) -> list[int]:
    """Legal values that the search does not rule out."""
    return [value for value in legal if listed is None or value in listed]


def keeps_rules(question: Question, axis: str, value: int) -> bool:
    """Whether a degree keeps what the search fixes, forbids and bounds."""
    for rule in question.search.rules:
        if rule.axis == axis:
            kept = {
                "=": value == rule.value,
                "!=": value != rule.value,
                "<=": value <= rule.value,
                ">=": value >= rule.value,
            }[rule.relation]
            if not kept:
                return False
    return True


def interleavings(question: Question, pp: int) -> list[int]:
    """Numbers of virtual stages that the layers fall on; above 1 only with a pipeline."""
    model = question.job.transformer
    vpp = np.array(wanted(range(1, (model.layers if pp > 1 else 1) + 1), question.search.vpp))
    stages = np.full(len(vpp), pp)
    fits = interleaves(model, stages, vpp) & stack_fits(model, stages, vpp)
    return [int(v) for v in vpp[fits]]


def batches(question: Question, dp: int) -> list[tuple[int, int]]:
    """Micro-batch and how many of them a pipeline runs in one step."""
    if question.job.global_batch % dp:
        return []
    sequences = question.job.global_batch // dp
    room = max(16, MANY_TOKENS // question.job.seq_len)
    sizes = question.search.micro_batch or range(1, room + 1)
    return [(size, sequences // size) for size in sizes if sequences % size == 0]


def legal_shapes(question: Question, gpus: int) -> Iterator[dict[str, int]]:
    """Every shape on so many GPUs, whatever the limits say."""
    job, search = question.job, question.search
    model = job.transformer
    late = search.schedule == "zb-h1"  # weight gradients wait: a pipeline of whole stages
    pipelines = {
        pp: [v for v in interleavings(question, pp) if v == 1 or not late]
        for pp in wanted(divisors(gpus), search.pp)
        if (2 if late else 1) <= pp <= model.layers
    }
    for tp, cp, pp in itertools.product(
        wanted(tensor.degrees(model), search.tp),
        wanted(context.degrees(job.seq_len, gpus), search.cp),
        pipelines,
    ):
        if gpus % (tp * cp * pp) or job.seq_len % (tp * cp):
            continue
        dp = gpus // (tp * cp * pp)
        degrees = {"gpus": gpus, "held": held_gpus(question, gpus)}
        degrees |= {"tp": tp, "cp": cp, "pp": pp, "dp": dp}
        for (micro_batch, microbatches), vpp, ep in itertools.product(
            batches(question, dp), pipelines[pp], wanted(expert.degrees(model), search.ep)
        ):
            for etp in expert_slices(question, tp):
                if (tp * cp * dp) % (ep * etp) or (vpp > 1 and microbatches % pp):
                    continue
                shape = degrees | {
                    "ep": ep,
                    "etp": etp,
                    "vpp": vpp,
                    "micro_batch": micro_batch,
                    "microbatches": microbatches,
                }
                if all(keeps_rules(question, axis, value) for axis, value in shape.items()):
                    for order in orders(question, degrees, ep * etp):
                        yield shape | {"order": order}


def expert_slices(question: Question, tp: int) -> list[int]:
    """Whole experts, or experts sliced over the tensor ranks where their width divides."""
    moe = question.job.transformer.moe
    sliced = [tp] if moe is not None and tp > 1 and moe.ffn % tp == 0 else []
    return wanted([1, *sliced], question.search.etp)


def orders(question: Question, degrees: dict[str, int], spread: int) -> list[int]:
    """Whether stages (0) or replicas (1) are furthest apart: both, also where they are the same.

    With replicas furthest apart the ranks of a stage are blocks of TP × CP for dense layers and of
    EP for experts: the same ranks only where these are equal, or where there is one stage.
    """
    listed = question.search.order or ("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp")
    found = [0] if "tp-cp-ep-dp-pp" in listed else []
    agree = question.job.transformer.moe is None or degrees["tp"] * degrees["cp"] == spread
    if "tp-cp-ep-pp-dp" in listed and (agree or degrees["pp"] == 1):
        found.append(1)
    return found


def shape_keeps_limits(question: Question, shape: dict[str, int]) -> bool:
    """Limits that the degrees alone decide: bubble, TP inside a node or NVLink domain, stages."""
    limits, group, pp = question.limits, question.group, shape["pp"]
    idle, busy = idle_and_busy(question, shape)
    if 10_000 * idle > round(10_000 * limits.max_bubble) * (busy + idle):
        return False
    room = max(group.nvlink_domain, group.gpus_per_node)
    if limits.tp_within_node and (shape["tp"] > room or room % shape["tp"]):
        return False
    return pp <= limits.max_stages


def idle_and_busy(question: Question, shape: dict[str, int]) -> tuple[int, int]:
    """Parts of a step that a stage waits and works: by count, or by FLOPs where weights wait."""
    pp, microbatches = shape["pp"], shape["microbatches"]
    if question.search.schedule == "1f1b":
        return pp - 1, shape["vpp"] * microbatches
    model, seen = question.job.transformer, question.job.document_tokens
    forward = forward_flops(model, seen, "causal", None)
    core = sum(
        attention_core_flops(model, mean_span(seen, model.window if windowed else None))
        for windowed in [True] * model.window_layers
        + [False] * (model.layers - model.window_layers)
    )
    weights = round(10_000 * (forward - core) / (3 * forward))
    late = min(microbatches, pp) - 1
    return (pp - 1) * (10_000 - weights) - late * weights, 10_000 * microbatches


def legal_shardings(question: Question, tp: int, cp: int, dp: int) -> list[tuple[int, int]]:
    """ZeRO stage and replica groups: everything over all ranks, then ZeRO-3 in smaller groups."""
    group, search = question.group, question.search
    possible = [0, 1] if search.schedule == "zb-h1" else [0, 1, 2, 3]
    stages = sorted(wanted(possible, search.zero))
    stages = [stage for stage in stages if keeps_rules(question, "zero", stage)]
    whole_group = stages if keeps_rules(question, "dp_replicate", 1) else []
    found = [(zero, 1) for zero in whole_group]
    if search.hsdp and 3 in stages:
        for replicas in divisors(dp):
            ranks = tp * cp * dp // replicas
            whole = ranks % group.nvlink_domain == 0 or ranks % group.gpus_per_node == 0
            if 1 < replicas < dp and whole and keeps_rules(question, "dp_replicate", replicas):
                found.append((3, replicas))
    return found
