"""Why nothing fits, in bytes and seconds: which single limit, lifted, makes a plan appear."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topology.units import show_bytes, show_seconds, show_usd

from ..cost.ticks import MIB, TICK_S
from .assemble import cost_of
from .best_first import Clock, Searcher, Tally
from .cpsat.factory import SolverSettings
from .decision import Decision
from .instance import LIMIT_NAMES, Goal, Instance
from .pricing import NEVER, Priced
from .space import build_space

MOST_NODES, MOST_TIMES = 4_096, 64
"""Largest cluster that is tried when nothing fits: in nodes, and in multiples of the given one."""

MOST_STAGES = 128
"""Most pipeline stages that are tried when nothing fits: four times the usual limit."""

RELAXABLE = tuple(name for name in LIMIT_NAMES if name != "batch_divisibility")
"""Limits that a user may lift; divisibility is a fact."""


def why_nothing_fits(instance: Instance, settings: SolverSettings, clock: Clock) -> tuple[str, ...]:
    """Name each limit that alone stands in the way, with need versus have."""
    if not build_space(_lifted(instance, *RELAXABLE)).gpu_counts:
        return (_no_layout(instance),)
    reasons = []
    for name in RELAXABLE:
        goal: Goal = "memory" if name == "memory" else instance.goal
        lifted = replace(_lifted(instance, name), goal=goal)
        best = _least(lifted, settings, clock)
        if best is not None:
            reasons.append(_reason(instance, name, best[0], best[1]))
    if not reasons:
        reasons.append(_together(instance, settings, clock))
    return tuple(reasons)


def _lifted(instance: Instance, *names: str) -> Instance:
    """Switch limits off; of stages no more than ``MOST_STAGES`` are looked at even so."""
    if "max_stages" not in names:
        return instance.without(*names)
    limits = instance.limits.model_copy(update={"max_stages": MOST_STAGES})
    others = (name for name in names if name != "max_stages")
    return replace(instance, limits=limits).without(*others)


def fewest_gpus(
    instance: Instance, settings: SolverSettings, clock: Clock
) -> tuple[int, int, str] | None:
    """Return GPUs, nodes and layout of the smallest larger cluster that holds a plan.

    Node counts double until a plan appears; then the GPU counts up to there are searched in
    ascending order, so the first with a plan is the smallest. None where the largest that is tried
    holds none.
    """
    search = instance.search.model_copy(update={"gpus": None, "max_gpus": None})
    nodes = instance.group.nodes
    most = min(MOST_NODES, MOST_TIMES * nodes)
    while nodes < most and not clock.over():
        nodes = min(2 * nodes, most)
        group = replace(instance.group, nodes=nodes)
        larger = replace(instance, group=group, search=search, cost=instance.cost.on(group))
        space = build_space(larger)
        priced = Priced.of(larger, space.shapes)
        searcher = Searcher(larger, priced, settings, clock, Tally())
        bounds = searcher.bounds()
        rows = np.flatnonzero(bounds < NEVER)
        for gpus in np.unique(priced.shapes.gpus[rows]):
            found = searcher.best(rows[priced.shapes.gpus[rows] == gpus], bounds, NEVER)
            if found.best is not None:
                held = int(priced.shapes.held[found.best.row])
                layout = _layout(priced, found.best)
                return int(gpus), held // group.gpus_per_node, layout
    return None


def _least(
    instance: Instance, settings: SolverSettings, clock: Clock
) -> tuple[Decision, Priced] | None:
    space = build_space(instance)
    priced = Priced.of(instance, space.shapes)
    searcher = Searcher(instance, priced, settings, clock, Tally())
    bounds = searcher.bounds()
    found = searcher.best(np.flatnonzero(bounds < NEVER), bounds, NEVER)
    return None if found.best is None else (found.best, priced)


def _layout(priced: Priced, best: Decision) -> str:
    s = priced.shapes.row(best.row)
    axes = " ".join(
        f"{name} {s[name.lower()]}"
        for name in ("TP", "PP", "CP", "EP", "DP")
        if s[name.lower()] > 1
    )
    return f"{axes or 'one GPU'}, ZeRO {best.zero}, {s['gpus']} GPUs"


def _reason(instance: Instance, name: str, best: Decision, priced: Priced) -> str:
    layout, s = _layout(priced, best), priced.shapes.row(best.row)
    limits, step = instance.limits, best.step * TICK_S
    if name == "memory":
        need, have = best.memory * MIB, instance.cost.capacity_mib * MIB
        return (
            f"memory: the leanest plan ({layout}) needs {show_bytes(need)} "
            f"({need} bytes) on a GPU, and {show_bytes(have)} ({have} bytes) are left of "
            f"{instance.group.gpu.name} after {limits.mem_headroom:.0%} headroom"
        )
    if name == "deadline":
        wall = cost_of(instance.job, step, [(s["held"], instance.group)]).wall_clock_s
        return (
            f"deadline: without it the best plan ({layout}) takes {show_seconds(wall)}, "
            f"and {show_seconds(limits.deadline_s or 0.0)} are allowed"
        )
    if name == "budget":
        usd = cost_of(instance.job, step, [(s["held"], instance.group)]).usd or 0.0
        return (
            f"budget: without it the best plan ({layout}) costs {show_usd(usd)}, "
            f"and {show_usd(limits.budget_usd or 0.0)} are allowed"
        )
    if name == "bubble":
        idle = s["pp"] - 1
        bubble = idle / (s["vpp"] * s["microbatches"] + idle)
        return (
            f"bubble: without it the best plan ({layout}) idles {bubble:.1%}, "
            f"and {limits.max_bubble:.1%} are allowed"
        )
    if name == "communication":
        return (
            f"communication: without it {layout} is a plan; {limits.max_comm:.0%} of compute "
            "are allowed"
        )
    return f"{name}: without it {layout} is a plan"


def _no_layout(instance: Instance) -> str:
    search = instance.search
    wanted = search.gpus or search.max_gpus or instance.group.gpus
    return (
        f"divisibility: no TP x PP x CP x DP that the model ({instance.job.transformer.name}) and "
        f"the batch ({instance.job.global_batch} sequences of {instance.job.seq_len} tokens) allow "
        f"fills {wanted} GPUs or a part of them that is looked at{_restricted(instance)}"
    )


def _restricted(instance: Instance) -> str:
    """Name the lists of the search that leave degrees out."""
    lists = ("tp", "pp", "vpp", "cp", "ep", "etp", "micro_batch")
    named = [f"search.{name}" for name in lists if getattr(instance.search, name) is not None]
    named += [str(rule) for rule in instance.search.rules]
    return f" within {', '.join(named)}" if named else ""


def _together(instance: Instance, settings: SolverSettings, clock: Clock) -> str:
    """Say that no single limit is to blame, and what memory alone would need."""
    lifted = replace(_lifted(instance, *RELAXABLE), goal="memory")
    best = _least(lifted, settings, clock)
    names = ", ".join(RELAXABLE)
    if best is None:
        return f"no single limit is to blame: {names} clash with each other"
    need, have = best[0].memory * MIB, instance.cost.capacity_mib * MIB
    return (
        f"no single limit is to blame: {names} clash with each other; with all of them lifted the "
        f"leanest plan ({_layout(best[1], best[0])}) needs {show_bytes(need)} ({need} bytes) on a "
        f"GPU, and {show_bytes(have)} ({have} bytes) are left"
    )
