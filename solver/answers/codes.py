"""What limits and faults mean, in words, for ``explain CODE``."""

from __future__ import annotations

LIMITS: dict[str, tuple[str, str]] = {
    "memory": (
        "The worst GPU of a plan needs at most the usable memory (what the driver shows) less the "
        "headroom. Above the limit but within the card a plan is tight: such runs exist, and some "
        "of them fail.",
        "More stages or TP, ZeRO 2 or 3, recomputation, a smaller micro-batch, offload, fewer "
        "state bytes; or less headroom (--mem-headroom).",
    ),
    "communication": (
        "Communication over compute (without recomputation) on the busiest stage; exposed traffic, "
        "or all of it with --comm-metric total.",
        "Smaller TP or CP, larger micro-batches, replicas inside a node (HSDP), a faster network; "
        "or a looser limit (--max-comm).",
    ),
    "bubble": (
        "The idle share of the pipeline, (p - 1) / (v m + p - 1) for p stages, m micro-batches and "
        "v virtual stages.",
        "More micro-batches (smaller micro-batch or DP), virtual stages, fewer stages; or a looser "
        "limit (--max-bubble).",
    ),
    "tp_within_node": (
        "A tensor-parallel group lies inside one node or NVLink domain: it exchanges activations "
        "in every layer, four times a step.",
        "A TP that divides the node; or limits: {tp_within_node: false}.",
    ),
    "max_stages": ("Pipeline stages at most.", "Fewer stages, or limits: {max_stages: N}."),
    "deadline": (
        "Wall-clock time of the whole run: steps times the step.",
        "More GPUs, or --deadline.",
    ),
    "budget": ("USD of the whole run: GPUs held, hours, price.", "Fewer GPUs, or --budget."),
    "batch_divisibility": (
        "DP times micro-batch times accumulation is the global batch.",
        "Degrees that divide it.",
    ),
}
"""Meaning and what helps, by the limit's name."""

STATUSES: dict[str, tuple[str, str]] = {
    "optimal": (
        "Proved: every model that was opened was closed, and nothing left can be better.",
        "",
    ),
    "feasible": (
        "A plan that keeps every limit; the gap bounds how much better another one may be.",
        "More time (--time-limit).",
    ),
    "infeasible": ("Proved: no plan keeps every limit.", "shardplan explain PROBLEM.yaml."),
    "unknown": ("Time ran out before any plan was found.", "More time (--time-limit)."),
    "fits": ("The need is within the limit (usable memory less headroom).", ""),
    "tight": (
        "Between the limit and what the card has: the run may work, or fail after hours.",
        "",
    ),
    "out_of_memory": ("The need is larger than the card.", "See memory."),
}
"""Meaning of what answers say of themselves."""


def meaning(code: str) -> tuple[str, str] | None:
    """Return what a code means and what helps; None for an unknown one."""
    name = code.lower().replace("-", "_")
    return LIMITS.get(name) or STATUSES.get(name)


def known() -> tuple[str, ...]:
    """Return every code."""
    return (*LIMITS, *STATUSES)
