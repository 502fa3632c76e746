"""What the axes share: the degrees they read and the traffic they describe, without any time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..degrees import FloatArray, IntArray


class Degrees(Protocol):
    """Degrees of N shapes, arrays of shape (N,); see ``solver.cost.shapes``."""

    @property
    def gpus(self) -> IntArray:
        """GPUs used."""

    @property
    def tp(self) -> IntArray:
        """Tensor-parallel degree."""

    @property
    def cp(self) -> IntArray:
        """Context-parallel degree."""

    @property
    def pp(self) -> IntArray:
        """Pipeline stages."""

    @property
    def ep(self) -> IntArray:
        """Expert-parallel degree."""

    @property
    def etp(self) -> IntArray:
        """Expert-tensor-parallel degree."""

    @property
    def dp(self) -> IntArray:
        """Data-parallel degree."""

    @property
    def micro_batch(self) -> IntArray:
        """Sequences in a micro-batch."""


@dataclass(frozen=True)
class Traffic:
    """Traffic of an axis for one layer's forward pass and one micro-batch, arrays of shape (N,).

    Attributes
    ----------
    ranks, stride, used
        Members of a group, the distance between neighbours in rank order, and all ranks there are.
    ring_bytes
        Full buffer of a ring collective (gathered or reduced), per call.
    calls
        Collectives.
    inside_bytes, outside_bytes
        Bytes that a rank sends directly to members inside its NVLink domain, and beyond it.
    memory_bytes
        HBM traffic that comes with it (copies, accumulation).
    """

    ranks: IntArray
    stride: IntArray
    used: IntArray
    ring_bytes: FloatArray
    calls: FloatArray
    inside_bytes: FloatArray
    outside_bytes: FloatArray
    memory_bytes: FloatArray
