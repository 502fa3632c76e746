"""Goodput: the share of wall-clock time that trains, between failures, checkpoints and restarts.

It depends on the nodes held and the size of a checkpoint, not on the layout, so that on any one
number of GPUs the plan with the shortest step also ends first.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np

from topology.units import DAY

from ..job.job import Job
from ..job.reliability import Reliability
from .ticks import MAX_TICKS, FloatArray, IntArray

NODE_DAYS = 1000
"""Failure rates are per 1,000 node-days."""

PARTS = 1_000_000
"""Slowdowns are held to one part in a million, rounded up."""

LONGEST_INTERVAL_S = float(DAY)
"""Between checkpoints where nothing is said to fail: runs end for other reasons too."""

MOST_SLOWDOWN = 10 * PARTS
"""A run that trains less than a tenth of its time counts as one that never ends."""


def checkpoint_bytes(job: Job) -> float:
    """Return the bytes of a checkpoint: weights, master copy and moments of what is trained.

    14 bytes a parameter with Adam; BLOOM-176B's 2.3 TB are 13.1, OPT-175B's 1.6 TB are 9.1
    (stas00/ml-engineering, facebookresearch/metaseq).
    """
    return job.trainable * (job.recipe.weight_bytes + job.recipe.optimizer_bytes())


def young_interval(mttf_s: FloatArray, restart_s: float, write_s: FloatArray) -> FloatArray:
    """Return the seconds of training between checkpoints that waste least, to first order.

    sqrt(2 (mean time to failure + restart) * write time): Young 1974, Daly 2006.
    """
    return np.asarray(np.sqrt(2 * (mttf_s + restart_s) * write_s))


def training_share(
    mttf_s: FloatArray, restart_s: float, write_s: FloatArray, interval_s: FloatArray
) -> FloatArray:
    """Return the share of time that trains, for failures at random (Daly 2006, eq. 20).

    A segment of ``interval_s`` and its checkpoint take M exp(R/M) (exp((T + W)/M) - 1) seconds,
    failures of the restart itself included.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        segment = interval_s + write_s
        spent = mttf_s * np.exp(restart_s / mttf_s) * np.expm1(segment / mttf_s)
        share = np.where(np.isfinite(mttf_s), interval_s / spent, interval_s / segment)
    # No failures and no interval: no checkpoint is needed, and none is written.
    return np.where(np.isfinite(interval_s), share, 1.0)


def whole_steps(interval_s: float, step_s: float) -> int:
    """Return the optimizer steps between checkpoints that are so far apart."""
    return max(int(interval_s / step_s), 1)


@dataclass(frozen=True)
class Goodput:
    """Goodput of one job on nodes of one kind.

    Attributes
    ----------
    reliability
        Rates and times.
    checkpoint_bytes
        Size of a checkpoint.
    """

    reliability: Reliability
    checkpoint_bytes: float

    @staticmethod
    def of(job: Job, reliability: Reliability | None) -> Goodput | None:
        """Return the goodput of a job; None where failures are not counted."""
        if reliability is None:
            return None
        return Goodput(reliability, reliability.checkpoint_bytes or checkpoint_bytes(job))

    @staticmethod
    def launched(job: Job, reliability: Reliability | None) -> Goodput:
        """Return the goodput of a job that is run, by the usual figures where none are given.

        A run meets failures whether its plan counted them or not.
        """
        reliability = reliability or Reliability()
        return Goodput(reliability, reliability.checkpoint_bytes or checkpoint_bytes(job))

    def saving_s(self, nodes: int) -> float:
        """Return the training time between checkpoints that a run is told: finite in any case."""
        found = float(self.interval_s(np.array([nodes]))[0])
        return found if isfinite(found) else LONGEST_INTERVAL_S

    def mttf_s(self, nodes: IntArray) -> FloatArray:
        """Return the mean time to a failure of any of the nodes; infinite where none fails."""
        given = self.reliability
        rate = nodes * (given.failures + given.interruptions) / (NODE_DAYS * DAY)
        with np.errstate(divide="ignore"):
            return np.asarray(1 / np.asarray(rate, dtype=np.float64))

    def write_s(self, nodes: IntArray) -> FloatArray:
        """Return the time to write a checkpoint, all nodes at once, training at rest."""
        given = self.reliability
        together = nodes * given.node_bytes_per_s
        if given.bytes_per_s is not None:
            together = np.minimum(together, given.bytes_per_s)
        return np.asarray(self.checkpoint_bytes / together)

    def interval_s(self, nodes: IntArray) -> FloatArray:
        """Return the training time between checkpoints: the given one, or Young's."""
        given = self.reliability
        if given.interval_s is not None:
            return np.full(np.shape(nodes), given.interval_s)
        return young_interval(self.mttf_s(nodes), given.restart_s, self.write_s(nodes))

    def share(self, nodes: IntArray) -> FloatArray:
        """Return the share of time that trains."""
        return training_share(
            self.mttf_s(nodes), self.reliability.restart_s, self.write_s(nodes),
            self.interval_s(nodes),
        )  # fmt: skip

    def slowdown(self, nodes: IntArray) -> IntArray:
        """Return wall-clock over training time in parts a million, rounded up."""
        with np.errstate(divide="ignore"):
            parts = np.ceil(PARTS / self.share(nodes))
        return np.minimum(parts, MOST_SLOWDOWN + 1).astype(np.int64)


def charge(step: IntArray, slowdown: IntArray) -> IntArray:
    """Return the ticks of wall-clock time that a step takes in the mean, rounded up."""
    held = np.minimum(step, MAX_TICKS)
    charged = -(-held * np.minimum(slowdown, MOST_SLOWDOWN) // PARTS)
    endless = slowdown > MOST_SLOWDOWN
    return np.asarray(np.where(endless, MAX_TICKS, np.minimum(charged, MAX_TICKS)))


def longest_within(charged: int, slowdown: int) -> int:
    """Return the longest step that is charged at most so many ticks."""
    return 0 if slowdown > MOST_SLOWDOWN else charged * PARTS // slowdown
