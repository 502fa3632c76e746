"""Why nothing fits: which limits clash, and the least that makes a plan appear."""

from __future__ import annotations

from collections.abc import Iterator

from ..result import Infeasibility, Relaxation
from .best_first import Clock
from .clashes import RELAXABLE, Grounds
from .contradictions import contradiction
from .cpsat.factory import SolverSettings
from .instance import Instance
from .joint import without_money
from .levers import levers
from .relaxations import Relaxer

FREE_HINT = (
    "try --stages free: layers and recomputed layers chosen stage by stage may fit where evenly "
    "spread ones do not"
)
EVEN_FIGURES = (
    "figures and clashes below are of evenly spread layers, but for budget and deadline; chosen "
    "stage by stage they can do with less, yet nothing fits"
)


def why_nothing_fits(instance: Instance, settings: SolverSettings, clock: Clock) -> Infeasibility:
    """Find every minimal set of clashing limits, and the smallest relaxation of each limit."""
    grounds = Grounds(instance, settings, clock)
    if grounds.structural or not grounds.feasible(frozenset()):
        return Infeasibility(reasons=(_no_layout(instance),), clashes=(), relaxations=())
    clashes = tuple(tuple(sorted(clash)) for clash in grounds.clashes())
    relaxer = Relaxer(grounds)
    relaxations = (*relaxer.all(), *levers(grounds))
    one = any(r.limit in RELAXABLE for r in relaxations)
    if not any(r.command for r in relaxations):
        relaxations += tuple(without_money(grounds))
    reasons = _reasons(clashes, relaxations) if one else _apart(relaxer, clashes)
    about = (EVEN_FIGURES,) if instance.search.stages == "free" else ()
    return Infeasibility(reasons=(*about, *reasons), clashes=clashes, relaxations=relaxations)


def hints(why: Infeasibility) -> tuple[str, ...]:
    """Return what to try: each relaxation with its flag, and the plan that it brings."""
    named = {r.limit for r in why.relaxations if any(t.startswith(r.limit) for t in why.reasons)}
    return tuple(
        f"try {r.command}" if r.limit in named else f"try {r.command}: {r.text}"
        for r in why.relaxations
        if r.command
    )


def _reasons(
    clashes: tuple[tuple[str, ...], ...], relaxations: tuple[Relaxation, ...]
) -> Iterator[str]:
    """Write need against have of each limit that alone stands in the way, then the clashes."""
    alone = [r for r in relaxations if r.limit in RELAXABLE]
    for relaxation in alone:
        yield f"{relaxation.limit}: {relaxation.text}"
    yield from _together(clashes)


def _apart(relaxer: Relaxer, clashes: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    """Say of each limit what it needs when no other one holds, where no single one is to blame."""
    yield "no single limit is to blame: lifting one of them brings no plan"
    for clash in clashes:
        if len(clash) == 1:
            need = relaxer.alone(clash[0])
            yield f"{clash[0]}, even by itself: {need}" if need else f"{clash[0]}, even by itself"
    yield from _together(clashes)


def _together(clashes: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    named = [" and ".join(clash) for clash in clashes if len(clash) > 1]
    if named:
        yield f"limits that no plan keeps together: {'; '.join(named)}"


def _no_layout(instance: Instance) -> str:
    search = instance.search
    clash = contradiction(search)
    if clash:
        return f"contradicting rules: {clash}"
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
