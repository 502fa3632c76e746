"""Variables of a chunk of shapes, and the definitions that tie them to the cost tables."""

from __future__ import annotations

from dataclasses import dataclass

from ortools.sat.python import cp_model

from ...cost.goodput import PARTS
from ...cost.stages import CLASSES, HEAVY, LAST, LIGHT, RECOMPUTE_CLASS
from ...cost.tables import Choice, Tables
from ...cost.ticks import GRAINS, IntArray
from ..instance import Instance

GROUPS = 3
"""Stage classes that choose their recomputation apart: first, middle, last."""


@dataclass(frozen=True)
class Variables:
    """Decisions and derived quantities of one model.

    Attributes
    ----------
    shape
        One literal a shape of the chunk; exactly one holds.
    recompute
        For first, middle and last stages one literal a kind; exactly one holds.
    sharding
        One literal a sharding column that some shape of the chunk has; exactly one holds.
    pace, tail
        Grains of the slowest stage, and left after draining.
    share
        Grains that filling the pipeline takes on the stages of each class.
    memory
        MiB of the worst GPU.
    communication
        Grains of communication on the busiest stage.
    step
        Ticks of the optimizer step.
    charged
        Ticks of wall-clock time a step, failures included; ``step`` itself where none are counted.
    gpu_time
        GPU-ticks held for ``charged``.
    """

    shape: list[cp_model.IntVar]
    recompute: list[list[cp_model.IntVar]]
    sharding: dict[int, cp_model.IntVar]
    pace: cp_model.IntVar
    share: list[cp_model.IntVar]
    tail: cp_model.IntVar
    memory: cp_model.IntVar
    communication: cp_model.IntVar
    step: cp_model.IntVar
    charged: cp_model.IntVar
    gpu_time: cp_model.IntVar

    def choice(self, solver: cp_model.CpSolver) -> tuple[int, Choice]:
        """Read the chosen shape (index in the chunk) and the choices inside it."""
        row = next(i for i, literal in enumerate(self.shape) if solver.value(literal))
        column = next(z for z, literal in self.sharding.items() if solver.value(literal))
        kinds = tuple(
            next(k for k, literal in enumerate(group) if solver.value(literal))
            for group in self.recompute
        )
        first, middle, last = kinds
        return row, Choice(column, (first, middle, last))


def declare(model: cp_model.CpModel, instance: Instance, tables: Tables, longest: int) -> Variables:
    """Create the variables; domains are as tight as the tables allow."""
    rows, kinds = len(tables.shapes), tables.pace.shape[2]
    columns = [z for z in range(tables.pace.shape[3]) if tables.shardings.valid[:, z].any()]
    held = int(tables.shapes.held.max())
    step = model.new_int_var(0, longest, "step")
    counted = instance.goodput is not None
    return Variables(
        shape=[model.new_bool_var(f"shape[{j}]") for j in range(rows)],
        recompute=[
            [model.new_bool_var(f"recompute[{g},{k}]") for k in range(kinds)] for g in range(GROUPS)
        ],
        sharding={z: model.new_bool_var(f"sharding[{z}]") for z in columns},
        pace=model.new_int_var(0, int(tables.pace.max()), "pace"),
        share=[
            model.new_int_var(0, int(tables.share[:, c].max()), f"share[{c}]")
            for c in range(CLASSES)
        ],
        tail=model.new_int_var(0, int(tables.tail.max()), "tail"),
        memory=model.new_int_var(0, int(tables.memory.max()), "memory"),
        communication=model.new_int_var(0, int(tables.communication.max()), "communication"),
        step=step,
        charged=model.new_int_var(0, longest, "charged") if counted else step,
        gpu_time=model.new_int_var(0, longest * held, "gpu_time"),
    )


def define(model: cp_model.CpModel, instance: Instance, tables: Tables, v: Variables) -> None:
    """State what the variables mean: choices, then quantities bounded from below by the tables.

    One-sided definitions suffice: every quantity is only ever minimised or capped.
    """
    model.add_exactly_one(v.shape)
    model.add_exactly_one(v.sharding.values())
    for group in v.recompute:
        model.add_exactly_one(group)
    slowdown = instance.slowdown(tables.shapes.held)
    for row, shape in enumerate(v.shape):
        _legal_choices(model, tables, v, row)
        if not instance.search.recompute_by_stage:
            _one_kind(model, tables, v, row)
        _table(model, tables.pace[row], tables, v, row, [v.pace] * CLASSES)
        _table(model, tables.share[row], tables, v, row, v.share)
        _table(model, tables.tail[row], tables, v, row, [v.tail] * CLASSES)
        _table(model, tables.memory[row], tables, v, row, [v.memory] * CLASSES)
        _communication(model, tables, v, row)
        held = int(tables.shapes.held[row])
        model.add(v.gpu_time >= held * v.charged).only_enforce_if(shape)
        if instance.goodput is not None:
            model.add(PARTS * v.charged >= int(slowdown[row]) * v.step).only_enforce_if(shape)
    model.add(GRAINS * v.step >= v.pace + sum(v.share) + v.tail)


def _legal_choices(model: cp_model.CpModel, tables: Tables, v: Variables, row: int) -> None:
    """Shut the columns that a shape lacks, and pin the kind of stages that it lacks."""
    for column, literal in v.sharding.items():
        if not tables.shardings.valid[row, column]:
            model.add_implication(v.shape[row], ~literal)
    count = tables.stages.count[row]
    for group, empty in ((1, count[LIGHT] + count[HEAVY] == 0), (2, count[LAST] == 0)):
        if empty:
            model.add_implication(v.shape[row], v.recompute[group][0])


def _one_kind(model: cp_model.CpModel, tables: Tables, v: Variables, row: int) -> None:
    """Let every stage of a shape recompute by the kind of the first one."""
    count = tables.stages.count[row]
    present = {1: count[LIGHT] + count[HEAVY] > 0, 2: count[LAST] > 0}
    for group in (group for group, there in present.items() if there):
        for first, other in zip(v.recompute[0], v.recompute[group], strict=True):
            model.add_bool_or([~v.shape[row], ~first, other])


def _table(
    model: cp_model.CpModel, table: IntArray, tables: Tables, v: Variables, row: int,
    quantity: list[cp_model.IntVar],
) -> None:  # fmt: skip
    """Bound ``quantity[class]`` from below by table[class, kind, column] of the choices made."""
    shape = v.shape[row]
    columns = [z for z in v.sharding if tables.shardings.valid[row, z]]
    if not columns:
        return
    for stage in range(CLASSES):
        if tables.stages.count[row, stage] == 0:
            continue
        for kind, literal in enumerate(v.recompute[RECOMPUTE_CLASS[stage]]):
            _entries(model, table[stage, kind], columns, v, (shape, literal), quantity[stage])


def _entries(
    model: cp_model.CpModel, values: IntArray, columns: list[int], v: Variables,
    literals: tuple[cp_model.IntVar, ...], quantity: cp_model.IntVar,
) -> None:  # fmt: skip
    """Bound ``quantity`` by values[column]: the least once, what exceeds it under its column."""
    least = int(min(values[z] for z in columns))
    if least > 0:
        model.add(quantity >= least).only_enforce_if(*literals)
    for column in columns:
        if values[column] > least:
            model.add(quantity >= int(values[column])).only_enforce_if(
                *literals, v.sharding[column]
            )


def _communication(model: cp_model.CpModel, tables: Tables, v: Variables, row: int) -> None:
    columns = [z for z in v.sharding if tables.shardings.valid[row, z]]
    if not columns:
        return
    group = RECOMPUTE_CLASS[int(tables.busiest[row])]
    for kind, literal in enumerate(v.recompute[group]):
        values = tables.communication[row, kind]
        _entries(model, values, columns, v, (v.shape[row], literal), v.communication)
