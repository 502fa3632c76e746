"""The space of shapes: every combination of legal degrees, with what the limits exclude counted.

A shape is left out here only by a rule of structure (divisibility) or by a limit that the CP-SAT
model holds too; switching the limit off in the instance brings its shapes back.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from topology.levels import spanned_level
from topology.placement import MEGATRON_ORDER, ORDERS

from ..axes import context, data, expert, pipeline, tensor
from ..cost.shapes import Shapes
from ..cost.stages import interleaves, stack_fits
from ..degrees import BoolArray, IntArray, divisors
from ..job.job import Job
from ..job.search import Search
from .instance import Instance

MANY_TOKENS, SMALLEST_CHOICE = 65_536, 16
"""Unless the search names others, micro-batches divide the batch and have up to 65,536 tokens, at
least up to 16 sequences: products of that many rows are within 0.2 % of their best rate
(profiles/gpus.yaml, matmul_half_rows), and activations only grow."""


def micro_batches(job: Job) -> tuple[int, ...]:
    """Return the micro-batches looked at unless the search names others."""
    largest = max(MANY_TOKENS // job.seq_len, SMALLEST_CHOICE)
    return tuple(size for size in divisors(job.global_batch) if size <= largest)


@dataclass(frozen=True)
class Space:
    """All shapes of an instance.

    Attributes
    ----------
    shapes
        What may be opened.
    gpu_counts
        GPU counts that have at least one legal layout, ascending.
    dropped
        Shapes left out by each limit that holds.
    """

    shapes: Shapes
    gpu_counts: tuple[int, ...]
    dropped: dict[str, int]


def gpu_count_is_considered(instance: Instance, gpus: IntArray) -> BoolArray:
    """Whether a number of GPUs is looked at: divisors of a node, then whole nodes."""
    node, search = instance.group.gpus_per_node, instance.search
    allowed = search.keeps("gpus", gpus)
    if search.gpus is not None:
        return np.asarray(allowed & (gpus == search.gpus))
    most = min(search.max_gpus or instance.group.gpus, instance.group.gpus)
    part = (gpus < node) & (node % np.minimum(gpus, node) == 0)
    return np.asarray(allowed & (gpus <= most) & (part | (gpus % node == 0)))


def build_space(instance: Instance) -> Space:
    """Combine the axes' legal degrees."""
    dropped: dict[str, int] = {}
    base = _degrees(instance, dropped)
    batched = _with_batches(instance, base, dropped)
    shapes = _with_experts(instance, batched)
    counts = tuple(int(g) for g in np.unique(shapes.gpus))
    return Space(shapes, counts, dropped)


def chosen(search: Search, axis: str, legal: tuple[int, ...]) -> IntArray:
    """Return the legal degrees that the search's list and rules allow."""
    listed = getattr(search, axis, None)
    kept = legal if listed is None else tuple(d for d in legal if d in set(listed))
    degrees = np.array(kept, dtype=np.int64)
    return np.asarray(degrees[search.keeps(axis, degrees)])


def _drop(dropped: dict[str, int], name: str, keep: BoolArray) -> BoolArray:
    lost = int((~keep).sum())
    if lost:
        dropped[name] = dropped.get(name, 0) + lost
    return keep


def _largest(instance: Instance) -> int:
    search = instance.search
    return min(search.gpus or search.max_gpus or instance.group.gpus, instance.group.gpus)


def _degrees(instance: Instance, dropped: dict[str, int]) -> dict[str, IntArray]:
    """TP × CP × PP × DP whose product is a considered number of GPUs."""
    job, search, most = instance.job, instance.search, _largest(instance)
    model = job.transformer
    tp = chosen(search, "tp", tuple(d for d in tensor.degrees(model) if d <= most))
    cp = chosen(search, "cp", context.degrees(job.seq_len, most))
    stages = min(model.layers, most)
    pp = chosen(search, "pp", tuple(range(1, stages + 1)))
    if search.zero_bubble:
        pp = pp[pp > 1]
    if instance.holds("max_stages"):
        pp = pp[_drop(dropped, "max_stages", pp <= instance.limits.max_stages)]
    dp = chosen(search, "dp", tuple(d for d in divisors(job.global_batch) if d <= most))
    grid = np.meshgrid(tp, cp, pp, dp, indexing="ij")
    flat = dict(zip(("tp", "cp", "pp", "dp"), (g.ravel() for g in grid), strict=True))
    gpus = flat["tp"] * flat["cp"] * flat["pp"] * flat["dp"]
    keep = gpu_count_is_considered(instance, gpus)
    keep &= job.seq_len % (flat["tp"] * flat["cp"]) == 0
    if search.cp_comm == "all_to_all":
        keep &= context.splits_heads(model, flat["tp"], flat["cp"])
    keep &= bool(data.stages(search))  # rules may leave no way to hold the states
    flat = {name: values[keep] for name, values in flat.items()}
    if instance.holds("tp_within_node"):
        inside = _drop(dropped, "tp_within_node", instance.tp_domains(flat["tp"]) == 1)
        flat = {name: values[inside] for name, values in flat.items()}
    return flat


def _with_batches(
    instance: Instance, base: dict[str, IntArray], dropped: dict[str, int]
) -> dict[str, IntArray]:
    """Add micro-batch, micro-batches and virtual stages."""
    search = instance.search
    parts: list[dict[str, IntArray]] = []
    sizes = search.micro_batch or micro_batches(instance.job)
    for micro in chosen(search, "micro_batch", sizes):
        per_pipeline = instance.job.global_batch // base["dp"]
        keep = per_pipeline % micro == 0
        keep &= search.keeps("microbatches", per_pipeline // micro)
        cut = {name: values[keep] for name, values in base.items()}
        cut["microbatches"] = per_pipeline[keep] // micro
        cut["micro_batch"] = np.full(keep.sum(), micro)
        parts += _with_virtual_stages(instance, cut, dropped)
    names = (*base, "microbatches", "micro_batch", "vpp")
    if not parts:
        return {name: np.zeros(0, np.int64) for name in names}
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _with_virtual_stages(
    instance: Instance, cut: dict[str, IntArray], dropped: dict[str, int]
) -> list[dict[str, IntArray]]:
    model, parts = instance.job.transformer, []
    pp, microbatches = cut["pp"], cut["microbatches"]
    deepest = {-(-model.layers // int(p)) for p in np.unique(pp) if p > 1}
    if instance.search.zero_bubble:
        deepest = set()
    cuts = sorted({1, *(v for layers in deepest for v in pipeline.interleavings(layers))})
    for vpp in chosen(instance.search, "vpp", tuple(cuts)):
        virtual = np.full_like(pp, vpp)
        legal = interleaves(model, pp, virtual) & stack_fits(model, pp, virtual)
        if vpp > 1:
            legal &= (pp > 1) & (microbatches % pp == 0)
        kept = {name: values[legal] for name, values in cut.items()}
        kept["vpp"] = virtual[legal]
        if instance.holds("bubble"):
            excess = instance.bubble_excess(kept["pp"], kept["vpp"], kept["microbatches"])
            inside = _drop(dropped, "bubble", excess <= 0)
            kept = {name: values[inside] for name, values in kept.items()}
        if len(kept["pp"]):
            parts.append(kept)
    return parts


def _with_experts(instance: Instance, batched: dict[str, IntArray]) -> Shapes:
    """Add the expert degrees, and the GPUs used and held."""
    node = instance.group.gpus_per_node
    gpus = batched["tp"] * batched["cp"] * batched["pp"] * batched["dp"]
    held = -(-gpus // node) * node
    ranks = batched["tp"] * batched["cp"] * batched["dp"]
    parts = []
    model, search = instance.job.transformer, instance.search
    choices = itertools.product(
        chosen(search, "ep", expert.degrees(model)), expert.slices(model, batched["tp"])
    )
    for ep, etp in choices:
        keep = (etp > 0) & (ranks % np.maximum(ep * etp, 1) == 0) & search.allows("etp", etp)
        columns = {name: values[keep] for name, values in batched.items()}
        count = int(keep.sum())
        parts.append(
            Shapes(
                gpus=gpus[keep], held=held[keep], ep=np.full(count, ep), etp=etp[keep],
                order=np.zeros(count, np.int64), **columns,
            )
        )  # fmt: skip
    shapes = Shapes.concatenate(parts) if parts else Shapes.of().take(slice(0, 0))
    return _with_orders(instance, shapes)


def _with_orders(instance: Instance, shapes: Shapes) -> Shapes:
    """Add the order that keeps the stages of a pipeline together, where that may help.

    It brings stages nearer and takes replicas further apart, so it can only win where it takes the
    pipeline to an inner level; elsewhere it is at best a tie, which the usual order wins. Expert
    layers need the same ranks in a stage as the others (`topology.placement.Placement`).
    """
    wanted = instance.search.order or ORDERS
    swapped = replace(shapes, order=np.ones_like(shapes.order))
    legal = shapes.pp == 1
    if instance.job.transformer.moe is None:
        legal |= True
    else:
        legal |= shapes.tp * shapes.cp == shapes.ep * shapes.etp
    if MEGATRON_ORDER not in wanted:
        return swapped.take(legal)
    if len(wanted) == 1 or not instance.cost.places:
        return shapes
    group, used = instance.group, shapes.gpus
    far, near = (spanned_level(group, s.pp, s.stage_stride, used) for s in (shapes, swapped))
    return Shapes.concatenate([shapes, swapped.take(legal & (near < far))])
