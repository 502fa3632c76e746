"""A cost model's seconds and bytes, by part, before anything is rounded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .data_parallel import DataTraffic
from .memory.items import MemoryItems
from .shapes import Shapes
from .stage_times import StageTimes
from .ticks import FloatArray, IntArray


@dataclass(frozen=True)
class Figures:
    """Seconds and bytes of N shapes, before anything is rounded.

    Attributes
    ----------
    shapes, times, traffic
        Shapes, and times by part.
    update, tail
        Seconds of the optimizer (N, 4, Z), and of all that comes after the pipeline (N, 4, K, Z).
    items
        Bytes by item.
    """

    shapes: Shapes
    times: StageTimes
    traffic: DataTraffic
    update: FloatArray
    tail: FloatArray
    items: MemoryItems

    @property
    def microbatch(self) -> FloatArray:
        """Seconds of one micro-batch, (N, 4, K, Z)."""
        return np.asarray(self.times.base[..., None] + self.traffic.microbatch_exposed)

    @property
    def spared(self) -> FloatArray | float:
        """Seconds that the schedule takes out of a stage's share of the fill, (N, 4, 1, 1) or 0."""
        spared = self.times.spared(self.shapes)
        return spared if isinstance(spared, float) else spared[..., None, None]

    def sent(self, metric: str, where: tuple[IntArray | slice, IntArray | slice]) -> FloatArray:
        """Seconds of communication a step of the chosen (shape, class) entries."""
        times, traffic = self.times, self.traffic
        exposed = metric == "exposed"
        layer = sum((times.exposed if exposed else times.total).values())
        each, once = (
            (traffic.microbatch_exposed, traffic.step_exposed)
            if exposed
            else (traffic.microbatch_total, traffic.step_total)
        )
        full = (*times.base.shape, max(each.shape[-1], once.shape[-1]))
        each, once = (np.broadcast_to(part, full)[where] for part in (each, once))
        inside = np.asarray(layer)[where][..., None] + each
        count = self.shapes.microbatches.reshape((-1,) + (1,) * (inside.ndim - 1))
        return np.asarray(count * inside + once)
