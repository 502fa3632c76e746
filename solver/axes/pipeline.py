"""Pipeline parallelism: splits the layers; activations pass from stage to stage."""

from __future__ import annotations

from ..degrees import FloatArray, divisors
from ..job.job import Job
from ..job.transformer import Transformer
from .base import Degrees


def degrees(transformer: Transformer, largest: int) -> tuple[int, ...]:
    """Return the legal numbers of stages: at least one layer each."""
    return tuple(range(1, min(transformer.layers, largest) + 1))


def interleavings(layers_per_stage: int) -> tuple[int, ...]:
    """Return the virtual stages that a stage of so many layers may be cut into."""
    return divisors(layers_per_stage)


def message_bytes(job: Job, cores: Degrees) -> FloatArray:
    """Bytes between neighbours: tokens × hidden × 2 B, each tensor rank its share (SP).

    Narayanan et al. 2021, section 4.1, "scatter/gather" optimisation; with sequence parallelism the
    activations are split already.
    """
    tokens = cores.micro_batch * job.seq_len / cores.cp
    return 2.0 * tokens * job.transformer.hidden / cores.tp
