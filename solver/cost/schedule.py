"""Pipeline schedules in closed form: bubble, micro-batches in flight, step from stage times."""

from __future__ import annotations

import numpy as np

from .software import Schedule
from .ticks import MAX_TICKS, FloatArray, IntArray, grains, whole_ticks

FILL_DIVISOR = {"1f1b": 1, "zb-1p": 3, "zb-2p": 50}
"""What a schedule divides 1F1B's fill by. Zero bubble splits the backward pass: with the memory of
1F1B (p - 1)(F + B - W) is left, a third of (p - 1)(F + B + W) where F, B and W take equal time;
with twice the memory nothing but about 2 % of it (Qi et al. 2023, arXiv 2401.10241, table 1)."""


def bubble_fraction(pp: IntArray, vpp: IntArray, microbatches: IntArray) -> FloatArray:
    """Return the idle share of a uniform pipeline, (p - 1) / (v m + p - 1).

    Source: Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters",
    section 2.2 (there as a ratio to the ideal time); interleaving divides it by v.
    """
    idle = pp - 1
    return np.asarray(idle / (vpp * microbatches + idle), dtype=np.float64)


def chunks_in_flight(
    pp: IntArray,
    vpp: IntArray,
    microbatches: IntArray,
    index: IntArray,
    schedule: Schedule = "1f1b",
) -> IntArray:
    """Return the virtual-stage activations that stage ``index`` holds at most.

    1F1B: min(m, p - i). Interleaved 1F1B: min(m v, 2 (p - i - 1) + (v - 1) p + 1) chunks of 1/v
    stage each (warm-up of Narayanan et al. 2021, section 2.2). Zero bubble: min(m, p) on every
    stage, or min(m, 2 p) (Qi et al. 2023, arXiv 2401.10241, section 2). Without a pipeline: one.
    """
    if schedule == "1f1b":
        plain = np.minimum(microbatches, pp - index)
    else:
        plain = np.minimum(microbatches, pp * (2 if schedule == "zb-2p" else 1)) + 0 * index
    interleaved = np.minimum(microbatches * vpp, 2 * (pp - index - 1) + (vpp - 1) * pp + 1)
    return np.where(pp == 1, vpp, np.where(vpp == 1, plain, interleaved))


def pipeline_grains(
    stage_s: FloatArray, count: IntArray, vpp: IntArray, microbatches: IntArray
) -> tuple[IntArray, IntArray]:
    """Return what the slowest stage adds to a step, and what every stage adds, in grains.

    A pipeline takes m · slowest + (sum - slowest) / v = (m - 1/v) · slowest + sum / v, where the
    sum runs over all stages: the pace of the slowest class plus each class's share of the fill.
    An event simulation of 1F1B takes no longer where stages differ by a factor of 4 at most and
    backward takes 1.5 to 3.5 times forward (tests/cost/test_simulate.py). Arrays broadcast; classes
    lie on the axis that ``count`` has.
    """
    pace = (microbatches - 1 / vpp) * stage_s
    share = count * stage_s / vpp
    return grains(np.where(count > 0, pace, 0.0)), grains(np.where(count > 0, share, 0.0))


def step_ticks(pace: IntArray, share: IntArray, tail: IntArray) -> IntArray:
    """Return the step in ticks: the largest pace, all shares, the longest tail; (..., 4) each."""
    total = pace.max(axis=-1) + share.sum(axis=-1) + tail.max(axis=-1)
    return np.asarray(np.minimum(whole_ticks(total), MAX_TICKS), dtype=np.int64)
