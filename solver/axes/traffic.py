"""What an axis sends: volumes and who takes part, without any time."""

from __future__ import annotations

from dataclasses import dataclass

from ..degrees import FloatArray, IntArray


@dataclass(frozen=True)
class Traffic:
    """Traffic of an axis for one layer's forward pass and one micro-batch, arrays of shape (N,).

    Attributes
    ----------
    ranks, stride
        Members of a group, and the distance between neighbours in rank order.
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
    ring_bytes: FloatArray
    calls: FloatArray
    inside_bytes: FloatArray
    outside_bytes: FloatArray
    memory_bytes: FloatArray
