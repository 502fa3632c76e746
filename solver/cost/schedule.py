"""Pipeline schedules in closed form: bubble, micro-batches in flight, step from stage times."""

from __future__ import annotations

import numpy as np

from .software import Schedule
from .ticks import MAX_TICKS, FloatArray, IntArray, grains, whole_ticks

FILL_DIVISOR = {"1f1b": 1, "zb-h1": 1, "zb-1p": 3, "zb-2p": 50}
"""What a schedule divides 1F1B's fill by. Zero bubble splits the backward pass: with the memory of
1F1B (p - 1)(F + B - W) is left, a third of (p - 1)(F + B + W) where F, B and W take equal time;
with twice the memory nothing but about 2 % of it (Qi et al. 2024, arXiv 2401.10241, table 2).
ZB-H1, which the search can choose, is reckoned by `spared_seconds` instead."""


def chunks_in_flight(
    pp: IntArray,
    vpp: IntArray,
    microbatches: IntArray,
    index: IntArray,
    schedule: Schedule = "1f1b",
) -> IntArray:
    """Return the virtual-stage activations that stage ``index`` holds at most.

    1F1B: min(m, p - i); ZB-H1 as many between forward and the gradient of the input
    (`split_in_flight` has the others). Interleaved 1F1B: min(m v, 2 (p - i - 1) + (v - 1) p + 1)
    chunks of 1/v stage each (warm-up of Narayanan et al. 2021, section 2.2). Zero bubble: min(m, p)
    on every stage, or min(m, 2 p) (Qi et al. 2024, arXiv 2401.10241, section 2). Without a
    pipeline: one.
    """
    if schedule in ("1f1b", "zb-h1"):
        plain = np.minimum(microbatches, pp - index)
    else:
        plain = np.minimum(microbatches, pp * (2 if schedule == "zb-2p" else 1)) + 0 * index
    interleaved = np.minimum(microbatches * vpp, 2 * (pp - index - 1) + (vpp - 1) * pp + 1)
    return np.where(pp == 1, vpp, np.where(vpp == 1, plain, interleaved))


Held = tuple[IntArray, IntArray]
"""Micro-batches that wait for their input gradient, and that owe their weight gradients."""


def split_in_flight(pp: IntArray, microbatches: IntArray, index: IntArray) -> tuple[Held, Held]:
    """Return what stage ``index`` holds at most under ZB-H1: most of the first, most of the second.

    Together they are min(m, p) on every stage. Before a backward min(m, p - i) wait and the others
    owe: the (p - i) M_B + i M_W (i from 0) of Qi et al. 2024, arXiv 2401.10241, section 2.3. Behind
    it min(m, i + 1) owe, which is more where weight gradients need more than backward, as with
    recomputation. Without a pipeline the weights never wait.
    """
    most = np.minimum(microbatches, pp)
    waiting = np.minimum(microbatches, pp - index)
    owing = np.where(pp > 1, np.minimum(microbatches, index + 1), 0)
    return (waiting, most - waiting), (most - owing, owing)


def spared_seconds(
    pp: IntArray, microbatches: IntArray, weight_s: FloatArray, least_s: FloatArray
) -> FloatArray:
    """Return what ZB-H1 takes out of a stage's share of the fill.

    1F1B leaves (p - 1)(F + B + W) idle, ZB-H1 (p - 1)(F + B - W): Qi et al. 2024, arXiv 2401.10241,
    section 2.3 and table 2, for W no longer than F and B, and p micro-batches or more. Else, as
    events have it, (p - 1)(F + B) less min(m, p) - 1 times the least of the three; uniform stages
    take exactly that. So each stage spares W + (min(m, p) - 1)/(p - 1) · least.

    Parameters
    ----------
    pp, microbatches
        Stages and micro-batches.
    weight_s, least_s
        Seconds of one micro-batch on the stage: weight gradients (W), and the least of forward,
        input gradient and these.
    """
    late = (np.minimum(microbatches, pp) - 1) / np.maximum(pp - 1, 1)
    return np.asarray(np.where(pp > 1, weight_s + late * least_s, 0.0))


def pipeline_grains(
    stage_s: FloatArray,
    count: IntArray,
    vpp: IntArray,
    microbatches: IntArray,
    spared_s: FloatArray | float = 0.0,
) -> tuple[IntArray, IntArray]:
    """Return what the slowest stage adds to a step, and what every stage adds, in grains.

    A pipeline takes m · slowest + (sum - slowest) / v = (m - 1/v) · slowest + sum / v, where the
    sum runs over all stages: the pace of the slowest class plus each class's share of the fill.
    ``spared_s`` of a stage is what its schedule takes out of its share (`spared_seconds`).
    An event simulation of 1F1B takes no longer where stages differ by a factor of 4 at most and
    backward takes 1.5 to 3.5 times forward (tests/cost/test_simulate.py), one of ZB-H1 where stages
    that differ as much part their time alike (tests/cost/test_simulate_split.py). Arrays broadcast;
    classes lie on the axis that ``count`` has.
    """
    pace = (microbatches - 1 / vpp) * stage_s + spared_s
    share = count * stage_s / vpp - count * spared_s
    return grains(np.where(count > 0, pace, 0.0)), grains(np.where(count > 0, share, 0.0))


def step_ticks(pace: IntArray, share: IntArray, tail: IntArray) -> IntArray:
    """Return the step in ticks: the largest pace, all shares, the longest tail; (..., 4) each."""
    total = pace.max(axis=-1) + share.sum(axis=-1) + tail.max(axis=-1)
    return np.asarray(np.minimum(whole_ticks(total), MAX_TICKS), dtype=np.int64)
