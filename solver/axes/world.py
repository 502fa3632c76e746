"""What every axis reads of a set of shapes."""

from __future__ import annotations

from typing import Protocol

from ..degrees import IntArray


class Degrees(Protocol):
    """Degrees of N shapes, arrays of shape (N,); see ``solver.cost.shapes.Shapes``."""

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
