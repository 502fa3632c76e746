"""Pipeline schedules in closed form: bubble, micro-batches in flight, step from stage times."""

from __future__ import annotations

import numpy as np

from .ticks import FloatArray, IntArray


def bubble_fraction(pp: IntArray, vpp: IntArray, microbatches: IntArray) -> FloatArray:
    """Return the idle share of a uniform pipeline, (p - 1) / (v m + p - 1).

    Source: Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters",
    section 2.2 (there as a ratio to the ideal time); interleaving divides it by v.
    """
    idle = pp - 1
    return np.asarray(idle / (vpp * microbatches + idle), dtype=np.float64)


def chunks_in_flight(
    pp: IntArray, vpp: IntArray, microbatches: IntArray, index: IntArray
) -> IntArray:
    """Return the virtual-stage activations that stage ``index`` holds at most.

    1F1B: min(m, p - i). Interleaved 1F1B: min(m v, 2 (p - i - 1) + (v - 1) p + 1) chunks of 1/v
    stage each (warm-up of Narayanan et al. 2021, section 2.2). Without a pipeline: one.
    """
    plain = np.minimum(microbatches, pp - index)
    interleaved = np.minimum(microbatches * vpp, 2 * (pp - index - 1) + (vpp - 1) * pp + 1)
    return np.where(pp == 1, vpp, np.where(vpp == 1, plain, interleaved))


def step_ticks(
    stage: IntArray, tail: IntArray, count: IntArray, vpp: IntArray, microbatches: IntArray
) -> IntArray:
    """Return the step: m · slowest + (sum − slowest) / v + the longest tail, in ticks.

    ``stage`` and ``tail`` have shape (..., 4): time of one micro-batch, and what is left after
    the pipeline has drained (data-parallel traffic, optimizer), of a stage of each class; ``count``
    broadcasts against them, ``vpp`` and ``microbatches`` against (...). The closed form never
    undershoots an event simulation of 1F1B.
    """
    present = np.where(count > 0, stage, 0)
    slowest = present.max(axis=-1)
    fill = (present * count).sum(axis=-1) - slowest
    return np.asarray(
        microbatches * slowest + -(-fill // vpp) + np.where(count > 0, tail, 0).max(axis=-1),
        dtype=np.int64,
    )
