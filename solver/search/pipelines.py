"""A layout whose stages are to be chosen one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..cost.calibrated import Calibrated
from ..cost.goodput import PARTS
from ..cost.shapes import Shapes, Shardings
from ..cost.stages import layers_by_rule
from ..cost.ticks import TICK_S
from .instance import LONGEST_STEP, SECONDS_PER_HOUR, Instance, whole

MOST_STAGES = 128
"""Longest pipeline whose stages are chosen one by one."""


@dataclass(frozen=True)
class Pipeline:
    """A layout whose stages are to be chosen.

    Attributes
    ----------
    instances
        Problem of the node group that holds each stage; all alike but for group and cost model.
    shape, columns
        Degrees, and the shardings that are looked at; arrays of one row. ``gpus`` and ``held``
        count all groups.
    waits
        Seconds that each stage waits for a neighbour of another group.
    """

    instances: tuple[Instance, ...]
    shape: Shapes
    columns: Shardings
    waits: tuple[float, ...] = ()

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return len(self.instances)

    def model(self, stage: int) -> Calibrated:
        """Return the cost model of a stage's GPUs."""
        cost = self.instances[stage].cost
        if not isinstance(cost, Calibrated):
            raise TypeError("only the calibrated account chooses stages one by one")
        return cost

    @property
    def held(self) -> tuple[int, ...]:
        """GPUs paid for in each block: whole nodes."""
        each = int(self.shape.gpus[0]) // self.stages
        nodes = [
            (-(-len(block) * each // i.group.gpus_per_node), i.group.gpus_per_node)
            for i, block in self.blocks()
        ]
        return tuple(count * size for count, size in nodes)

    @property
    def slowdown(self) -> int:
        """Wall-clock over training time on the nodes of all blocks, in parts a million."""
        goodput = self.instances[0].goodput
        if goodput is None:
            return PARTS
        nodes = [i.group.gpus_per_node for i, _ in self.blocks()]
        held = sum(gpus // node for gpus, node in zip(self.held, nodes, strict=True))
        return int(goodput.slowdown(np.array(held)))

    @property
    def ticks_of_budget(self) -> int:
        """Wall-clock ticks of a step that the budget leaves, at the prices of all blocks."""
        first = self.instances[0]
        steps, budget = first.job.steps, first.limits.budget_usd
        prices = [i.group.price_usd_per_gpu_hour or 0.0 for i, _ in self.blocks()]
        rate = sum(gpus * price for gpus, price in zip(self.held, prices, strict=True))
        if budget is None or not steps or not rate:
            return LONGEST_STEP
        return min(whole(budget / rate * SECONDS_PER_HOUR / (steps * TICK_S)), LONGEST_STEP)

    def blocks(self) -> list[tuple[Instance, list[int]]]:
        """Return runs of stages on one node group."""
        found: list[tuple[Instance, list[int]]] = []
        for stage, instance in enumerate(self.instances):
            if found and found[-1][0] is instance:
                found[-1][1].append(stage)
            else:
                found.append((instance, [stage]))
        return found


def even_layers(pipeline: Pipeline) -> tuple[int, ...] | None:
    """Return the layers of an even interleaved split, which stay; None for a plain pipeline."""
    vpp = int(pipeline.shape.vpp[0])
    if vpp == 1:
        return None
    return layers_by_rule(pipeline.instances[0].job.transformer, pipeline.stages, vpp)
