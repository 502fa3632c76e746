"""Tensor parallelism, always with sequence parallelism: splits the matrices of each layer."""

from __future__ import annotations

from math import gcd

import numpy as np

from ..degrees import IntArray, divisors
from ..job.job import Job
from ..job.transformer import Transformer
from .base import Degrees, Traffic

BACKWARD = 1.5
"""Backward scatters, gathers, and gathers each block's input once more: six for four."""
BACKWARD_REDUCED = 1.0
"""Without sequence parallelism backward has as many all-reduces as forward, two."""


def degrees(transformer: Transformer) -> tuple[int, ...]:
    """Return the legal degrees: divisors of query and key/value heads and of every split width.

    Latent attention (MLA) has one latent for all heads, so that only its query heads count.
    """
    widths = [transformer.heads, transformer.hidden]
    if transformer.mla is None:
        widths.append(transformer.kv_heads)
    if transformer.dense_layers:
        widths.append(transformer.ffn)
    if transformer.moe is not None and transformer.moe.shared_ffn:
        widths.append(transformer.moe.shared_ffn)
    return divisors(gcd(*widths))


def traffic(job: Job, cores: Degrees, blocks: int) -> Traffic:
    """Return the traffic of a layer with ``blocks`` split blocks (attention, dense MLP).

    Each block gathers its input and scatters its output, forward; backward does the same and
    gathers the input once more (Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2, and its
    figure 5). The buffer is tokens × hidden × 2 B.
    """
    tokens = cores.micro_batch * job.seq_len / cores.cp
    active = cores.tp > 1
    calls = np.where(active, 2.0 * blocks, 0.0)
    none = np.zeros(len(tokens))
    return Traffic(
        ranks=cores.tp,
        stride=np.ones_like(cores.tp),
        used=cores.gpus,
        ring_bytes=2.0 * tokens * job.transformer.hidden,
        calls=calls,
        inside_bytes=none,
        outside_bytes=none,
        memory_bytes=none,
    )


def stride(cores: Degrees) -> IntArray:
    """Return the distance between members: tensor parallelism is the innermost axis."""
    return np.ones_like(cores.tp)
