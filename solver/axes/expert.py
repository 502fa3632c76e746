"""Expert parallelism: spreads the experts of a layer; tokens travel to them and back."""

from __future__ import annotations

import numpy as np

from topology.levels import members_per_domain

from ..degrees import IntArray, divisors
from ..job.job import Job
from ..job.transformer import Transformer
from .base import Degrees, Traffic

BACKWARD = 1.0
"""Gradients travel the same ways back."""


def degrees(transformer: Transformer) -> tuple[int, ...]:
    """Return the legal degrees: divisors of the number of experts."""
    return (1,) if transformer.moe is None else divisors(transformer.moe.experts)


def slices(transformer: Transformer, tp: IntArray) -> tuple[IntArray, ...]:
    """Return the legal expert-tensor degrees for each TP: whole experts, or sliced over TP ranks.

    As Megatron-LM's ``--expert-tensor-parallel-size``, which is TP unless given. An entry of 0 is
    no degree of its own.
    """
    moe = transformer.moe
    whole = np.ones_like(tp)
    if moe is None:
        return (whole,)
    return whole, np.where((tp > 1) & (moe.ffn % tp == 0), tp, 0)


def traffic(job: Job, cores: Degrees, domain: int, *, once: bool) -> Traffic:
    """Return the traffic of one mixture layer: dispatch and combine, tokens × hidden × 2 B each.

    With ``once`` a token crosses to each rank, and to each NVLink domain, once, however many of its
    experts are there; k experts drawn evenly reach n (1 - (1 - 1/n)^k) of n places on average.
    Without it a token is sent for each expert.
    """
    model = job.transformer
    moe = model.moe
    top_k = moe.top_k if moe is not None else 0
    tokens = cores.micro_batch * job.seq_len / cores.cp / cores.tp
    together = members_per_domain(cores.ep, cores.etp, domain, cores.gpus)
    domains = np.maximum(cores.ep / together, 1.0)
    if once:
        reached = cores.ep * (1 - (1 - 1 / cores.ep) ** top_k)
        remote = (domains - 1) * (1 - (1 - 1 / domains) ** top_k)
    else:
        reached = top_k * np.ones(len(tokens))
        remote = top_k * (1 - 1 / domains)
    share_away = 1 - 1 / cores.ep
    # The exchange is as slow as the rank that receives most.
    payload = 2.0 * 2.0 * tokens * model.hidden * job.routed
    active = cores.ep > 1
    none = np.zeros(len(tokens))
    return Traffic(
        ranks=cores.ep,
        stride=cores.etp,
        used=cores.gpus,
        ring_bytes=none,
        calls=none,
        inside_bytes=np.where(active, payload * reached * share_away, 0.0),
        outside_bytes=np.where(active, payload * remote, 0.0),
        memory_bytes=none,
    )


def sliced_traffic(job: Job, cores: Degrees) -> Traffic:
    """Return what slicing each expert over ETP ranks adds: gather of its rows, scatter of outputs.

    Every rank of the slice works on the rows of all of them (Megatron-Core,
    ``expert_tensor_parallel_size``).
    """
    moe = job.transformer.moe
    top_k = moe.top_k if moe is not None else 0
    rows = cores.micro_batch * job.seq_len / cores.cp / cores.tp * top_k * cores.etp
    none = np.zeros(len(rows))
    return Traffic(
        ranks=cores.etp,
        stride=np.ones_like(cores.etp),
        used=cores.gpus,
        ring_bytes=2.0 * rows * job.transformer.hidden,
        calls=np.where(cores.etp > 1, 2.0, 0.0),
        inside_bytes=none,
        outside_bytes=none,
        memory_bytes=none,
    )
