"""The idle share of a uniform pipeline, which the limit on the bubble is about."""

from __future__ import annotations

import numpy as np

from ..job.job import Job
from ..job.schedules import PipelineSchedule
from .ticks import FloatArray, IntArray

WHOLE = 10_000
"""A micro-batch on a stage in the units of a bubble under ZB-H1, so that search and proof count in
whole numbers."""

Cut = tuple[IntArray, IntArray, IntArray]
"""Stages, virtual stages, micro-batches."""


def bubble_fraction(pp: IntArray, vpp: IntArray, microbatches: IntArray) -> FloatArray:
    """Return the idle share of a uniform pipeline under 1F1B, (p - 1) / (v m + p - 1).

    Source: Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters",
    section 2.2 (there as a ratio to the ideal time); interleaving divides it by v.
    """
    idle = pp - 1
    return np.asarray(idle / (vpp * microbatches + idle), dtype=np.float64)


def late_parts(job: Job) -> tuple[int, int]:
    """Return F + B, and the least of F, B and W, in parts of ``WHOLE`` of F + B + W.

    By the model's FLOPs: attention's core has no W, and recomputation is not counted.
    """
    each = job.pass_flops
    total = each.forward + each.inputs + each.weights
    least = min(each.forward, each.inputs, each.weights)
    return WHOLE - round(WHOLE * each.weights / total), round(WHOLE * least / total)


def microbatches_for_bubble(job: Job, pp: int, limit: float) -> int:
    """Return the fewest micro-batches whose bubble under ZB-H1 is at most ``limit`` (above 0)."""
    both, least = late_parts(job)
    idle = (pp - 1) * (both - least)  # with p micro-batches or more, when it is smallest
    enough = max(int(np.ceil(idle * (1 - limit) / (limit * WHOLE) - 1e-9)), pp)
    one = np.ones(enough, np.int64)
    idles, busy = bubble_parts(job, "zb-h1", (pp * one, one, np.arange(1, enough + 1)))
    return int(np.flatnonzero(idles <= limit * (busy + idles) * (1 + 1e-9))[0]) + 1


def bubble_parts(job: Job, schedule: PipelineSchedule, cut: Cut) -> tuple[IntArray, IntArray]:
    """Return how long a stage is idle and busy; the bubble is idle / (idle + busy).

    1F1B: p - 1 and v m. ZB-H1: (p - 1)(F + B) - (min(m, p) - 1) · least, and m (F + B + W): see
    ``schedule.spared_seconds``.
    """
    pp, vpp, microbatches = cut
    if schedule == "1f1b":
        return np.asarray(pp - 1), np.asarray(vpp * microbatches)
    both, least = late_parts(job)
    idle = (pp - 1) * both - (np.minimum(microbatches, pp) - 1) * least
    return np.asarray(np.where(pp > 1, idle, 0)), np.asarray(WHOLE * microbatches)
