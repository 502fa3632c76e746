"""Layers chosen stage by stage, for the best plan or for every layout of a search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..cost.shapes import Shapes, Shardings
from .best_first import Clock, Tally
from .cpsat.factory import SolverSettings
from .decision import Decision
from .instance import Instance
from .pipelines import MOST_STAGES, Pipeline
from .pricing import NEVER
from .stagewise import Split
from .uneven import Best, Candidate, best_of, candidates_of


@dataclass(frozen=True)
class Splits:
    """Searches for splits over the shapes of one instance."""

    instance: Instance
    shapes: Shapes
    settings: SolverSettings
    clock: Clock
    tally: Tally

    def refine(self, best: Decision) -> Split | None:
        """Return a better split of a plan's own shape and sharding; None where there is none."""
        shape = self.shapes.take(np.array([best.row]))
        if int(shape.pp[0]) > MOST_STAGES:
            return None
        one = np.ones((1, 1), np.int64)
        column = Shardings(best.zero * one, best.replicas * one, one.astype(bool))
        pipeline = Pipeline((self.instance,) * int(shape.pp[0]), shape, column)
        weight = int(shape.held[0]) if self.instance.goal == "cost" else 1
        slowdown = int(self.instance.slowdown(shape.held)[0])
        candidate = Candidate(0, weight, int(shape.gpus[0]), lambda: pipeline, slowdown)
        value = best.value(self.instance)
        return best_of([candidate], value, self.settings, self.clock, self.tally).split

    def free(self, below: int, gap: float = 0.0) -> Best:
        """Find the best split of any shape with an objective under ``below``, or one near it."""
        return self._among(self.shapes, below, gap)

    def on(self, gpus: int, below: int) -> tuple[Split | None, bool]:
        """Find the best split on so many GPUs, and say whether it is proved."""
        found = self._among(self.shapes.take(self.shapes.gpus == gpus), below)
        return found.split, found.proved

    def _among(self, shapes: Shapes, below: int, gap: float = 0.0) -> Best:
        candidates = list(candidates_of(self.instance, shapes, min(below, NEVER)))
        return best_of(candidates, below, self.settings, self.clock, self.tally, gap)
