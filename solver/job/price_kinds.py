"""Kinds of contract as alternatives: a problem under one of them, and the ones that are asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from topology.cluster import Cluster, NodeGroup
from topology.errors import Problem, UnsupportedError
from topology.offers import KINDS, PriceKind

from .job import PlanningProblem
from .reliability import Reliability


def common_kinds(groups: Sequence[NodeGroup]) -> tuple[PriceKind, ...]:
    """Return the kinds under which every node group has a price."""
    offered = [{offer.kind for offer in group.priced} for group in groups]
    return tuple(kind for kind in KINDS if all(kind in kinds for kinds in offered))


def asked_kinds(problem: PlanningProblem) -> tuple[PriceKind, ...]:
    """Return the kinds that the search chooses among: those asked for, else all that are priced."""
    return problem.objective.price_kinds or common_kinds(problem.cluster.groups)


def under(problem: PlanningProblem, kind: PriceKind) -> PlanningProblem:
    """Return the problem at the prices of one kind alone, with its interruptions."""
    groups = tuple(replace(g.under(kind), offers=()) for g in problem.cluster.groups)
    return replace(
        problem,
        cluster=replace(problem.cluster, groups=groups),
        reliability=_interrupted(problem, kind),
        objective=problem.objective.model_copy(update={"price_kinds": ()}),
    )


def under_one_kind(problem: PlanningProblem) -> PlanningProblem:
    """Return the problem under the first of its kinds, for what looks at one price only."""
    kinds = asked_kinds(problem)
    return under(problem, kinds[0]) if kinds else problem


def with_interruptions(cluster: Cluster, reliability: Reliability | None) -> Cluster:
    """Return the cluster with the section's interruptions written to each offer that names none."""
    if reliability is None:
        return cluster
    groups = []
    for group in cluster.groups:
        offers = tuple(
            replace(offer, interruptions=reliability.interruptions)
            if offer.interruptions is None
            else offer
            for offer in group.offers
        )
        groups.append(replace(group, offers=offers))
    return replace(cluster, groups=tuple(groups))


def _interrupted(problem: PlanningProblem, kind: PriceKind) -> Reliability | None:
    """Return the reliability with the interruptions of a kind in place of the section's.

    Raises
    ------
    UnsupportedError
        Where node groups of one cluster are interrupted at different rates.
    """
    given = problem.reliability
    offers = [o for g in problem.cluster.groups for o in g.priced if o.kind == kind]
    stated = [offer.interruptions for offer in offers if offer.interruptions is not None]
    if given is None or not stated:
        return given
    if len(set(stated)) > 1:
        message = f"{kind} nodes of several groups are interrupted at different rates."
        hint = "Write the same interruptions for each of cluster.groups."
        raise UnsupportedError(
            Problem(problem.path or "problem", 0, 0, "cluster.groups", "SP115", message, hint)
        )
    return given.model_copy(update={"interruptions": stated[0]})
