"""What is minimised: the goal, and then the tie-breaks, one after the other."""

from __future__ import annotations

from ortools.sat.python import cp_model

from topology.placement import ORDERS

from ...cost.tables import Tables
from ...plan import axes
from ..instance import Goal
from .variables import Variables

Expression = cp_model.LinearExprT

ZERO_STAGES = 4


def goal_expression(goal: Goal, v: Variables) -> Expression:
    """Return the quantity of a goal."""
    return {"time": v.charged, "cost": v.gpu_time, "memory": v.memory}[goal]


def tie_breaks(goal: Goal, tables: Tables, v: Variables) -> list[Expression]:
    """Return what decides among equal plans, most important first.

    Second objective, fewest axes, least memory (most headroom), then the lexicographically least
    (pp, tp, cp, ep, etp, vpp, gpus, zero, micro-batch, recomputation, replicas, order of axes).
    """
    second = {"time": v.gpu_time, "cost": v.charged, "memory": v.charged}[goal]
    return [second, _axes(tables, v), v.memory, _order(tables, v)]


def _axes(tables: Tables, v: Variables) -> Expression:
    s = tables.shapes
    of_shape = [
        axes(int(s.tp[j]), int(s.pp[j]), int(s.cp[j]), int(s.ep[j]), int(s.etp[j]), int(s.dp[j]), 1)
        for j in range(len(s))
    ]
    hybrid = [v.sharding[z] for z in v.sharding if tables.shardings.replicas[0, z] > 1]
    literals, weights = [*v.shape, *hybrid], [*of_shape, *(1 for _ in hybrid)]
    return cp_model.LinearExpr.weighted_sum(literals, weights)


def _order(tables: Tables, v: Variables) -> Expression:
    """Encode ``Decision.order`` as one number, each digit wide enough for its values."""
    s = tables.shapes
    heads = [s.row(j) for j in range(len(s))]
    keys = [tuple(h[n] for n in ("pp", "tp", "cp", "ep", "etp", "vpp", "gpus")) for h in heads]
    head_rank = {key: i for i, key in enumerate(sorted(set(keys)))}
    micro_rank = {b: i for i, b in enumerate(sorted({h["micro_batch"] for h in heads}))}
    kinds, groups, columns = len(v.recompute[0]), len(v.recompute), sorted(v.sharding)
    replicas = tables.shardings.replicas[0]
    replica_rank = {r: i for i, r in enumerate(sorted({-int(replicas[z]) for z in columns}))}
    replica_digit = len(ORDERS)
    recompute_digit = replica_digit * len(replica_rank)
    micro_digit = recompute_digit * kinds**groups
    zero_digit = micro_digit * len(micro_rank)
    head_digit = zero_digit * ZERO_STAGES
    of_shape = [
        head_rank[key] * head_digit + micro_rank[h["micro_batch"]] * micro_digit + h["order"]
        for key, h in zip(keys, heads, strict=True)
    ]
    of_sharding = [
        int(tables.shardings.zero[0, z]) * zero_digit
        + replica_rank[-int(replicas[z])] * replica_digit
        for z in columns
    ]
    literals = [*v.shape, *(v.sharding[z] for z in columns)]
    weights = [*of_shape, *of_sharding]
    for group, choices in enumerate(v.recompute):
        weight = recompute_digit * kinds ** (groups - 1 - group)
        literals += choices
        weights += [k * weight for k in range(kinds)]
    return cp_model.LinearExpr.weighted_sum(literals, weights)
