"""Faults that only show when model, cluster, batch and limits are seen together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from topology.cluster import Cluster
from topology.errors import Problem
from topology.source import Loc, Source

from .job import Job, Limits, Objective
from .price_kinds import common_kinds
from .search import Search


def clashes(
    source: Source, job: Job, cluster: Cluster, limits: Limits, search: Search, goal: Objective
) -> list[Problem]:
    """Find what makes every plan impossible, or cannot be answered, whatever the search does."""
    found: list[Problem] = []
    for asked in _asked(search):
        found += _gpu_counts(source, cluster, asked)
        found += _tensor(source, job, cluster, limits, asked)
        found += _pipeline(source, job, asked)
        found += _experts(source, job, asked)
    return [*found, *_money(source, job, cluster, limits, goal)]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Values that are asked of an axis, and the field that asks."""

    axis: str
    values: tuple[int, ...]
    field: Loc


def _asked(search: Search) -> Iterator[_Asked]:
    for axis in ("tp", "pp", "ep"):
        listed = getattr(search, axis)
        if listed is not None:
            yield _Asked(axis, listed, ("search", axis))
    if search.gpus is not None:
        yield _Asked("gpus", (search.gpus,), ("search", "gpus"))
    for rule in search.rules:
        if rule.relation == "=":
            yield _Asked(rule.axis, (rule.value,), ("search", "fix"))


def _gpu_counts(source: Source, cluster: Cluster, asked: _Asked) -> Iterator[Problem]:
    if asked.axis != "gpus":
        return
    per_node, count = cluster.groups[0].gpus_per_node, asked.values[0]
    if count > cluster.gpus:
        message = f"{count:,} exceeds the {cluster.gpus:,} GPUs of the cluster."
        yield source.fault(asked.field, "SP103", message, "Add nodes, or lower it.")
    elif len(cluster.groups) > 1:
        return  # nodes of several sizes add up to many counts: the search finds which
    elif count < 1 or (count % per_node and (count > per_node or per_node % count)):
        yield source.fault(asked.field, "SP103", *_part_of_node(count, per_node))


def _part_of_node(count: int, per_node: int) -> tuple[str, str]:
    below = count // per_node * per_node
    choices = f"{below} or {below + per_node}" if below else f"a divisor of {per_node}"
    message = f"{count} does not fill nodes of {per_node} GPUs ({count / per_node:g} nodes)."
    return message, f"Use {choices}, or set gpus_per_node."


def _tensor(
    source: Source, job: Job, cluster: Cluster, limits: Limits, asked: _Asked
) -> Iterator[Problem]:
    if asked.axis != "tp":
        return
    node, model = max(g.gpus_per_node for g in cluster.groups), job.transformer
    if limits.tp_within_node and asked.values[0] > node:
        message = (
            f"{asked.values[0]} is larger than one node ({node} GPUs) "
            "while limits.tp_within_node is true."
        )
        hint = f"Set limits.tp_within_node to false or use tp of at most {node}."
        yield source.fault(asked.field, "SP107", message, hint)
    possible = [tp for tp in _divisors(model.heads) if _splits(model.kv_heads, tp)]
    if not set(asked.values) & set(possible):
        message = (
            f"{model.heads} attention heads and {model.kv_heads} KV heads "
            f"cannot be split by {_listed(asked.values)}."
        )
        hint = f"Possible: {_listed(possible)}."
        yield source.fault(asked.field, "SP108", message, hint)


def _splits(kv_heads: int, tp: int) -> bool:
    """Whether KV heads divide among the ranks, or are repeated evenly."""
    return kv_heads % tp == 0 or tp % kv_heads == 0


def _pipeline(source: Source, job: Job, asked: _Asked) -> Iterator[Problem]:
    layers = job.transformer.layers
    if asked.axis == "pp" and asked.values[0] > layers:
        message = f"{asked.values[0]} stages exceed the {layers} layers of the model."
        yield source.fault(asked.field, "SP108", message, f"Use at most {layers}.")


def _experts(source: Source, job: Job, asked: _Asked) -> Iterator[Problem]:
    if asked.axis != "ep" or 1 in asked.values:
        return
    moe = job.transformer.moe
    if moe is None:
        message = f"{_listed(asked.values)} needs a mixture of experts; this model is dense."
        yield source.fault(asked.field, "SP110", message, "Use ep: 1.")
    elif all(ep < 1 or moe.experts % ep for ep in asked.values):
        message = f"{_listed(asked.values)} must divide the {moe.experts} experts."
        hint = f"Possible: {_listed(_divisors(moe.experts))}."
        yield source.fault(asked.field, "SP110", message, hint)


def _money(
    source: Source, job: Job, cluster: Cluster, limits: Limits, goal: Objective
) -> Iterator[Problem]:
    unpriced = any(group.price_usd_per_gpu_hour is None for group in cluster.groups)
    where = "--price 2.50 or cluster.price"
    if len(cluster.groups) > 1:
        where = "a price to each of cluster.groups"
    price = f"Give {where} (no default: prices change)."
    tokens = "Write e.g. tokens: 100B under training."
    yield from _unpriced_kinds(source, cluster, goal)
    if "cost" in (goal.minimise, *goal.then) and unpriced:
        yield source.fault(("objective", "minimise"), "SP112", "cost needs a price.", price)
    if limits.budget_usd is not None and unpriced:
        yield source.fault(("limits", "budget"), "SP112", "a budget needs a price.", price)
    for name, given in (("budget", limits.budget_usd), ("deadline", limits.deadline_s)):
        if given is not None and job.tokens is None:
            message = f"a {name} needs the tokens of the whole run."
            yield source.fault(("limits", name), "SP113", message, tokens)


def _unpriced_kinds(source: Source, cluster: Cluster, goal: Objective) -> Iterator[Problem]:
    common = common_kinds(cluster.groups)
    lacking = [kind for kind in goal.price_kinds if kind not in common]
    if not lacking:
        return
    have = f"only {' and '.join(common)}" if common else "none of a named kind"
    message = f"no price of {' and '.join(lacking)} nodes: the cluster has {have}."
    where = "each of cluster.groups" if len(cluster.groups) > 1 else "cluster"
    hint = f"Write e.g. prices: {{{lacking[0]}: 2.50}} under {where}."
    yield source.fault(("objective", "price_kinds"), "SP112", message, hint)


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _listed(numbers: tuple[int, ...] | list[int], most: int = 12) -> str:
    text = ", ".join(map(str, numbers[:most]))
    return text + (", …" if len(numbers) > most else "")


def beyond_framework(source: Source, framework: str, search: Search) -> list[Problem]:
    """Say what a framework does not have."""
    if framework != "fsdp" or search.zero is None or 1 not in search.zero:
        return []
    message = "FSDP has no ZeRO 1: it shards weights, gradients and states alike."
    hint = "Use zero 2 or 3, 0 for none, or framework: megatron."
    return [source.fault(("search", "zero"), "SP115", message, hint)]
