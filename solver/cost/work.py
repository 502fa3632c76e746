"""Work of a part of a layer, and what its pieces share: tokens of a rank, linear layers, casts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..job.job import Job
from ..job.recipe import Precision
from ..job.transformer import Transformer
from .kernels import linear_seconds, pass_seconds
from .machine import Machine
from .shapes import Shapes
from .ticks import FloatArray

Width = tuple[FloatArray, FloatArray]
"""(outputs, inputs) of a linear layer."""


@dataclass(frozen=True)
class Work:
    """Seconds of compute of one micro-batch, arrays of shape (N,).

    Attributes
    ----------
    forward, backward
        Without recomputation.
    repeated
        What selective recomputation adds to backward.
    """

    forward: FloatArray
    backward: FloatArray
    repeated: FloatArray

    def __add__(self, other: Work) -> Work:
        """Do both, one after the other."""
        return Work(
            self.forward + other.forward,
            self.backward + other.backward,
            self.repeated + other.repeated,
        )

    def times(self, factor: float | FloatArray) -> Work:
        """Do it ``factor`` times."""
        return Work(self.forward * factor, self.backward * factor, self.repeated * factor)


class Core:
    """Degrees of a set of cores with their job and machine; every array has shape (N,)."""

    def __init__(self, job: Job, machine: Machine, cores: Shapes) -> None:
        self.job, self.machine, self.cores = job, machine, cores
        self.model: Transformer = job.transformer
        self.stack = machine.profile.stack
        self.software = machine.profile.software
        self.precision: Precision = job.recipe.precision
        self.tp = cores.tp.astype(np.float64)
        self.cp = cores.cp.astype(np.float64)
        self.sp = self.tp if self.software.sequence_parallel else np.ones_like(self.tp)
        """Ranks that norms and residuals are split over."""
        self.tokens = np.asarray(cores.micro_batch * job.seq_len / self.cp)
        """Tokens of a micro-batch on one context rank."""
        self.zero = np.zeros(len(cores))

    def repeats(self, module: str) -> bool:
        """Whether selective recomputation repeats a module."""
        return module in self.software.recompute_modules

    def moved(self, traffic_bytes: FloatArray) -> FloatArray:
        """Time of a memory-bound pass."""
        return pass_seconds(self.machine, traffic_bytes)

    def cast(self, elements: float | FloatArray) -> FloatArray:
        """Time of casting so many elements to the precision of the products, both layouts."""
        width = self.machine.profile.cast_bytes(self.precision)
        return self.moved(width * np.asarray(elements))

    def linears(self, widths: list[Width]) -> Work:
        """Linear layers of all tokens; backward also accumulates the weights' gradients."""
        forward, backward = self.zero, self.zero
        for width in widths:
            ahead, back = linear_seconds(self.machine, self.tokens, width, self.precision)
            gradients = self.moved(self.job.recipe.grad_bytes * width[0] * width[1])
            forward, backward = forward + ahead, backward + back + gradients
        return Work(forward, backward, self.zero)
