"""Faults that only show when model, cluster, batch and limits are seen together."""

from __future__ import annotations

from collections.abc import Iterator

from topology.cluster import Cluster
from topology.errors import Problem
from topology.source import Source

from .job import Job, Limits, Objective, Search


def clashes(
    source: Source, job: Job, cluster: Cluster, limits: Limits, search: Search, goal: Objective
) -> list[Problem]:
    """Find what makes every plan impossible, or cannot be answered, whatever the search does."""
    return [
        *_gpu_counts(source, cluster, search),
        *_tensor(source, job, cluster, limits, search),
        *_pipeline(source, job, search),
        *_experts(source, job, search),
        *_money(source, job, cluster, limits, goal),
    ]


def _gpu_counts(source: Source, cluster: Cluster, search: Search) -> Iterator[Problem]:
    per_node = cluster.groups[0].gpus_per_node
    for name, count in (("gpus", search.gpus), ("max_gpus", search.max_gpus)):
        if count is None:
            continue
        if name == "gpus" and count > cluster.gpus:
            message = f"{count:,} exceeds the {cluster.gpus:,} GPUs of the cluster."
            yield source.fault(("search", name), "SP103", message, "Add nodes, or lower it.")
        elif name == "gpus" and count % per_node and (count > per_node or per_node % count):
            yield source.fault(("search", name), "SP103", *_part_of_node(count, per_node))


def _part_of_node(count: int, per_node: int) -> tuple[str, str]:
    below = count // per_node * per_node
    choices = f"{below} or {below + per_node}" if below else f"a divisor of {per_node}"
    message = f"{count} does not fill nodes of {per_node} GPUs ({count / per_node:g} nodes)."
    return message, f"Use {choices}, or set gpus_per_node."


def _tensor(
    source: Source, job: Job, cluster: Cluster, limits: Limits, search: Search
) -> Iterator[Problem]:
    if search.tp is None:
        return
    node, model = cluster.groups[0].gpus_per_node, job.transformer
    if limits.tp_within_node and search.tp[0] > node:
        message = (
            f"{search.tp[0]} is larger than one node ({node} GPUs) "
            "while limits.tp_within_node is true."
        )
        hint = f"Set limits.tp_within_node to false or use tp of at most {node}."
        yield source.fault(("search", "tp"), "SP107", message, hint)
    possible = [tp for tp in _divisors(model.heads) if _splits(model.kv_heads, tp)]
    if not set(search.tp) & set(possible):
        message = (
            f"{model.heads} attention heads and {model.kv_heads} KV heads "
            f"cannot be split by {_listed(search.tp)}."
        )
        hint = f"Possible: {_listed(possible)}."
        yield source.fault(("search", "tp"), "SP108", message, hint)


def _splits(kv_heads: int, tp: int) -> bool:
    """Whether KV heads divide among the ranks, or are repeated evenly."""
    return kv_heads % tp == 0 or tp % kv_heads == 0


def _pipeline(source: Source, job: Job, search: Search) -> Iterator[Problem]:
    layers = job.transformer.layers
    if search.pp is not None and search.pp[0] > layers:
        message = f"{search.pp[0]} stages exceed the {layers} layers of the model."
        yield source.fault(("search", "pp"), "SP108", message, f"Use at most {layers}.")


def _experts(source: Source, job: Job, search: Search) -> Iterator[Problem]:
    if search.ep is None or 1 in search.ep:
        return
    moe = job.transformer.moe
    if moe is None:
        message = f"{_listed(search.ep)} needs a mixture of experts; this model is dense."
        yield source.fault(("search", "ep"), "SP110", message, "Use ep: 1.")
    elif all(moe.experts % ep for ep in search.ep):
        message = f"{_listed(search.ep)} must divide the {moe.experts} experts."
        hint = f"Possible: {_listed(_divisors(moe.experts))}."
        yield source.fault(("search", "ep"), "SP110", message, hint)


def _money(
    source: Source, job: Job, cluster: Cluster, limits: Limits, goal: Objective
) -> Iterator[Problem]:
    unpriced = any(group.price_usd_per_gpu_hour is None for group in cluster.groups)
    price = "Give --price 2.50 or cluster.price (no default: prices change)."
    tokens = "Write e.g. tokens: 100B under training."
    if goal.minimise == "cost" and unpriced:
        yield source.fault(("objective", "minimise"), "SP112", "cost needs a price.", price)
    if limits.budget_usd is not None and unpriced:
        yield source.fault(("limits", "budget"), "SP112", "a budget needs a price.", price)
    for name, given in (("budget", limits.budget_usd), ("deadline", limits.deadline_s)):
        if given is not None and job.tokens is None:
            message = f"a {name} needs the tokens of the whole run."
            yield source.fault(("limits", name), "SP113", message, tokens)


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _listed(numbers: tuple[int, ...] | list[int], most: int = 12) -> str:
    text = ", ".join(map(str, numbers[:most]))
    return text + (", …" if len(numbers) > most else "")
