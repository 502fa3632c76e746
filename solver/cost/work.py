"""Work of a part of a layer, and what its pieces share: tokens of a rank, linear layers, casts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..job.counting import Linear
from ..job.finetune import FrozenPart
from ..job.job import Job
from ..job.recipe import Precision
from ..job.transformer import Transformer
from .kernels import linear_seconds, pass_seconds
from .machine import Machine
from .memory.frozen_weights import QUANTISED_BYTES, SIXTEEN_BIT
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
    weight
        Part of backward that only gives the gradients of weights in matrix products.
    """

    forward: FloatArray
    backward: FloatArray
    repeated: FloatArray
    weight: FloatArray

    def __add__(self, other: Work) -> Work:
        """Do both, one after the other."""
        return Work(
            self.forward + other.forward,
            self.backward + other.backward,
            self.repeated + other.repeated,
            self.weight + other.weight,
        )

    def times(self, factor: float | FloatArray) -> Work:
        """Do it ``factor`` times."""
        return Work(
            self.forward * factor,
            self.backward * factor,
            self.repeated * factor,
            self.weight * factor,
        )


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

    def linears(self, widths: list[Width], *, trained: bool = True) -> Work:
        """Linear layers of all tokens; backward also accumulates the gradients of trained weights.

        A quantised base is restored for each product.
        """
        forward, backward, weight = self.zero, self.zero, self.zero
        for width in widths:
            ahead, back, late = linear_seconds(
                self.machine, self.tokens, width, self.precision, trained=trained
            )
            size = width[0] * width[1]
            if trained:
                added = self.moved(self.job.recipe.grad_bytes * size)
                back, late = back + added, late + added
            else:
                restored = self.moved(self.restored_bytes * size)
                ahead, back = ahead + restored, back + restored
            forward, backward, weight = forward + ahead, backward + back, weight + late
        return Work(forward, backward, self.zero, weight)

    def trains(self, part: FrozenPart) -> bool:
        """Whether the weights of a part are trained."""
        return self.job.finetune is None or self.job.finetune.trains(part)

    @property
    def restored_bytes(self) -> float:
        """Traffic of restoring a quantised weight for its product: it is read, and written."""
        finetune = self.job.finetune
        if finetune is None or QUANTISED_BYTES[finetune.base_bits] == SIXTEEN_BIT:
            return 0.0
        return QUANTISED_BYTES[finetune.base_bits] + SIXTEEN_BIT

    def adapters(self, linears: list[Linear]) -> Work:
        """Adapters of some linear layers: two thin products each."""
        finetune = self.job.finetune
        rank = np.full_like(self.tp, (finetune.lora_rank or 0) if finetune else 0)
        widths: list[Width] = []
        for linear in linears:
            inputs = linear.inputs / np.where(linear.by_input, self.tp, 1.0)
            outputs = linear.outputs / np.where(linear.by_output, self.tp, 1.0)
            widths += [(rank, inputs), (outputs, rank)]
        return self.linears(widths)
