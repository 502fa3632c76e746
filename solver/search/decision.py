"""A complete decision: a shape of the space and the choices inside it, with its exact figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..cost.tables import Choice, Tables, evaluate
from ..plan import axes
from .instance import Instance

LexKey = tuple[int, ...]


@dataclass(frozen=True)
class Decision:
    """One plan in the search's integers.

    Attributes
    ----------
    row
        Shape, by its index in the space.
    zero, replicas
        ZeRO stage and HSDP replica groups.
    recompute
        Kind (index) for first, middle and last stages.
    step, memory, communication
        Ticks of the step, MiB of the worst GPU, grains of communication.
    charged
        Ticks of wall-clock time a step, failures included.
    gpu_ticks
        GPUs held times ``charged``.
    axes
        Parallel axes, HSDP included.
    order
        (pp, tp, cp, ep, etp, vpp, gpus, zero, micro-batch, recompute, replicas, order of axes): the
        last tie-break.
    """

    row: int
    zero: int
    replicas: int
    recompute: tuple[int, int, int]
    step: int
    memory: int
    communication: int
    charged: int
    gpu_ticks: int
    axes: int
    order: LexKey

    def value(self, instance: Instance) -> int:
        """Return the goal's value in its integer unit."""
        return {"time": self.charged, "cost": self.gpu_ticks, "memory": self.memory}[instance.goal]

    def key(self, instance: Instance) -> LexKey:
        """Return what plans are ranked by: goal, second objective, axes, memory, order."""
        second = self.gpu_ticks if instance.goal == "time" else self.charged
        return (self.value(instance), second, self.axes, self.memory, *self.order)


def decide(instance: Instance, tables: Tables, place: int, row: int, choice: Choice) -> Decision:
    """Evaluate a choice for the shape at ``place`` of ``tables``, which is ``row`` of the space."""
    step, memory, communication = evaluate(tables, place, choice)
    s = tables.shapes.row(place)
    zero = int(tables.shardings.zero[place, choice.sharding])
    replicas = int(tables.shardings.replicas[place, choice.sharding])
    plain = axes(s["tp"], s["pp"], s["cp"], s["ep"], s["etp"], s["dp"], replicas)
    order = (
        *(s[name] for name in ("pp", "tp", "cp", "ep", "etp", "vpp", "gpus")),
        zero, s["micro_batch"], *choice.recompute, -replicas, s["order"],
    )  # fmt: skip
    charged = instance.charge_one(step, s["held"])
    return Decision(
        row, zero, replicas, choice.recompute, step, memory, communication,
        charged, charged * s["held"], plain, order,
    )  # fmt: skip


def column_of(tables: Tables, place: int, zero: int, replicas: int) -> int:
    """Return the sharding column with this stage and these replica groups."""
    s = tables.shardings
    match = s.valid[place] & (s.zero[place] == zero) & (s.replicas[place] == replicas)
    return int(np.flatnonzero(match)[0])
