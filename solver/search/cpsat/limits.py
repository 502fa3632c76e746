"""The limits as constraints: one function each, behind one literal of the same name.

Also where a shape alone decides (bubble, TP within a node, stages, divisibility) the limit is a
constraint of the model, so that switching its literal off brings the shapes back.
"""

from __future__ import annotations

from collections.abc import Callable

from ortools.sat.python import cp_model

from ...cost.tables import Tables
from ...cost.ticks import IntArray
from ..instance import Instance
from .variables import Variables

Limit = Callable[[cp_model.CpModel, Instance, Tables, Variables, cp_model.IntVar], None]


def memory(
    model: cp_model.CpModel, instance: Instance, tables: Tables, v: Variables, on: cp_model.IntVar
) -> None:
    """Keep the need of the worst GPU within usable memory less the headroom."""
    model.add(v.memory <= instance.capacity_mib).only_enforce_if(on)


def communication(
    model: cp_model.CpModel, instance: Instance, tables: Tables, v: Variables, on: cp_model.IntVar
) -> None:
    """Keep communication on the busiest stage within a share of its compute."""
    allowance = instance.allowance(tables.compute)
    for row, shape in enumerate(v.shape):
        model.add(v.communication <= int(allowance[row])).only_enforce_if(on, shape)


def bubble(
    model: cp_model.CpModel, instance: Instance, tables: Tables, v: Variables, on: cp_model.IntVar
) -> None:
    """Keep (p - 1) / (v m + p - 1) within the limit."""
    shapes = tables.shapes
    excess = instance.bubble_excess(shapes.pp, shapes.vpp, shapes.microbatches)
    _of_shape(model, v, excess, 0, on)


def tp_within_node(
    model: cp_model.CpModel, instance: Instance, tables: Tables, v: Variables, on: cp_model.IntVar
) -> None:
    """Keep a tensor-parallel group in one node (or NVLink domain)."""
    _of_shape(model, v, instance.tp_domains(tables.shapes.tp), 1, on)


def max_stages(
    model: cp_model.CpModel, instance: Instance, tables: Tables, v: Variables, on: cp_model.IntVar
) -> None:
    """Keep the pipeline within so many stages."""
    _of_shape(model, v, tables.shapes.pp, instance.limits.max_stages, on)


def deadline(
    model: cp_model.CpModel, instance: Instance, tables: Tables, v: Variables, on: cp_model.IntVar
) -> None:
    """Keep all steps before the deadline."""
    model.add(v.charged <= instance.longest_step).only_enforce_if(on)


def budget(
    model: cp_model.CpModel, instance: Instance, tables: Tables, v: Variables, on: cp_model.IntVar
) -> None:
    """Keep the cost of all GPU-hours held within the budget."""
    model.add(v.gpu_time <= instance.most_gpu_ticks).only_enforce_if(on)


def batch_divisibility(
    model: cp_model.CpModel, instance: Instance, tables: Tables, v: Variables, on: cp_model.IntVar
) -> None:
    """Keep micro-batch × micro-batches × DP equal to the global batch."""
    shapes = tables.shapes
    left = instance.batch_remainder(shapes.dp, shapes.micro_batch, shapes.microbatches)
    _of_shape(model, v, abs(left), 0, on)


def _of_shape(
    model: cp_model.CpModel, v: Variables, values: IntArray, limit: int, on: cp_model.IntVar
) -> None:
    chosen = cp_model.LinearExpr.weighted_sum(v.shape, [int(x) for x in values])
    model.add(chosen <= limit).only_enforce_if(on)


LIMITS: tuple[Limit, ...] = (
    memory,
    communication,
    bubble,
    tp_within_node,
    max_stages,
    deadline,
    budget,
    batch_divisibility,
)
"""Every limit of the model; ``solver.checks`` holds a twin of each, a test compares the two."""
