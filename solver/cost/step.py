"""The step in seconds, without memory and rounding: what measured runs are compared with."""

from __future__ import annotations

import numpy as np

from .calibrated import Calibrated
from .shapes import Shapes, Shardings
from .stages import Stages
from .ticks import FloatArray


def step_seconds(
    model: Calibrated, shapes: Shapes, stages: Stages, columns: Shardings
) -> FloatArray:
    """Return the step under the first recomputation and sharding, shape (N,).

    As ``schedule.pipeline_grains`` and ``schedule.step_ticks`` reckon it, in floats.
    """
    times, traffic, update = model.priced(shapes, stages, columns)
    used = stages.count > 0
    stage = (times.base[..., None] + traffic.microbatch_exposed)[..., 0, 0]
    tail = np.where(used, model.tail(shapes, traffic, update)[..., 0, 0], 0.0)
    fill = model.fill(shapes)[:, None]
    spared = times.spared(shapes)
    pace = np.where(used, (shapes.microbatches[:, None] - 1 / fill) * stage + spared, 0.0)
    share = np.where(used, stages.count * (stage / fill - spared), 0.0)
    return np.asarray(pace.max(axis=-1) + share.sum(axis=-1) + tail.max(axis=-1))
