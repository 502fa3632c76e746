"""Context parallelism: splits the sequence; keys and values go round a ring."""

from __future__ import annotations

import numpy as np

from topology.levels import members_per_domain

from ..degrees import BoolArray, IntArray, divisors
from ..job.job import Job
from ..job.transformer import Transformer
from .base import Degrees, Traffic

PARTS_PER_RANK = 2
"""A causal ring gives each rank an early and a late part, so that all have the same work."""

MERGE_BYTES = 12.0
"""HBM traffic of merging one partial attention output element (fitted)."""

BACKWARD = 2.0
"""Backward sends keys and values again, and their gradients."""
BACKWARD_HEADS = 1.0
"""Where heads are exchanged, gradients travel the same ways back."""


def degrees(seq_len: int, largest: int) -> tuple[int, ...]:
    """Return the legal degrees up to ``largest``: the sequence divides into two parts a rank."""
    if seq_len % PARTS_PER_RANK:
        return (1,)
    return tuple(d for d in divisors(seq_len // PARTS_PER_RANK) if d <= largest)


def splits_heads(transformer: Transformer, tp: IntArray, cp: IntArray) -> BoolArray:
    """Whether every rank of an all-to-all group has whole heads, and whole key-value heads."""
    heads = (transformer.heads % (tp * cp) == 0) & (transformer.kv_heads % (tp * cp) == 0)
    return np.asarray((cp == 1) | heads)


def head_traffic(job: Job, cores: Degrees, domain: int) -> Traffic:
    """Return the traffic of one layer where heads are exchanged for sequence.

    Jacobs et al. 2023, "DeepSpeed Ulysses", arXiv 2309.14509, section 3.2: queries, keys, values
    and outputs go through an all-to-all each, tokens × width / t × 2 B, of which (c - 1) / c leaves
    the rank.
    """
    model = job.transformer
    tokens = cores.micro_batch * job.seq_len / cores.cp
    if model.mla is None:
        width = model.query_width + 2.0 * model.kv_heads * model.head_dim + model.value_width
    else:
        mla = model.mla
        width = model.heads * (2.0 * mla.qk_head_dim + 2.0 * mla.v_head_dim)
    active = cores.cp > 1
    payload = 2.0 * tokens * width / cores.tp
    domains = np.maximum(cores.cp / members_per_domain(cores.cp, cores.tp, domain, cores.gpus), 1.0)
    none = np.zeros(len(tokens))
    return Traffic(
        ranks=cores.cp,
        stride=cores.tp,
        used=cores.gpus,
        ring_bytes=none,
        calls=none,
        inside_bytes=np.where(active, payload * (1 - 1 / cores.cp), 0.0),
        outside_bytes=np.where(active, payload * (1 - 1 / domains), 0.0),
        memory_bytes=np.where(active, 2.0 * payload, 0.0),
    )


def traffic(job: Job, cores: Degrees) -> Traffic:
    """Return the traffic of one layer: every rank sees all keys and values once.

    Liu et al. 2023, "Ring Attention with Blockwise Transformers", arXiv 2310.01889, section 3: the
    keys and values of a rank pass c - 1 times. The gathered buffer is tokens × (K + V width) / t ×
    2 B × c.
    """
    model = job.transformer
    tokens = cores.micro_batch * job.seq_len / cores.cp
    if model.mla is None:
        width = 2.0 * model.kv_heads * model.head_dim / cores.tp
    else:
        width = model.heads * (model.mla.qk_head_dim + model.mla.v_head_dim) / cores.tp
    active = cores.cp > 1
    none = np.zeros(len(tokens))
    return Traffic(
        ranks=cores.cp,
        stride=cores.tp,
        used=cores.gpus,
        ring_bytes=2.0 * tokens * width * cores.cp,
        calls=np.where(active, 1.0, 0.0),
        inside_bytes=none,
        outside_bytes=none,
        memory_bytes=np.where(
            active, MERGE_BYTES * cores.cp * tokens * model.value_width / cores.tp, 0.0
        ),
    )
