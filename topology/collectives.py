"""Closed forms of collectives: volumes, rings, and the hierarchical all-reduce.

``message_bytes`` is the full (gathered or reduced) buffer of a rank. Bus bandwidth is
2 (n - 1)/n × bytes / time for an all-reduce and (n - 1)/n × bytes / time for the others, so that it
can be held against the bandwidth of a link. Every function broadcasts over numpy arrays.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

ALL_REDUCE, ALL_GATHER = "all_reduce", "all_gather"
REDUCE_SCATTER, ALL_TO_ALL, SEND = "reduce_scatter", "all_to_all", "send"
KINDS = (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL)

# Share of the shorter part that a hierarchical all-reduce hides behind the longer one: median of
# messages from 1 GiB over ten fabrics of 2 to 36 domains (benchmarks/collectives.py --holdout
# fabric prints the fit, and what it makes of 4 x 8 B200 without that fabric).
HIERARCHICAL_OVERLAP = 0.86

# Share of a network adapter's rate that is payload: 47 of 50 GB/s on NDR InfiniBand
# (NVIDIA/nccl-tests issue 290).
NETWORK_PAYLOAD = 0.94


def bus_factor(collective: str, ranks: npt.ArrayLike) -> Floats:
    """Return the bytes that cross a rank's link per byte of message: 2 (n-1)/n, (n-1)/n, or 1.

    Source: nccl-tests doc/PERFORMANCE.md (bus bandwidth).
    """
    n = np.asarray(ranks, np.float64)
    if collective == SEND:
        return np.where(n > 1, 1.0, 0.0)
    return (2.0 if collective == ALL_REDUCE else 1.0) * (n - 1) / n


def collective_seconds(
    kind: str,
    message_bytes: npt.ArrayLike,
    ranks: npt.ArrayLike,
    bytes_per_s: npt.ArrayLike,
    latency_s: npt.ArrayLike = 0.0,
) -> Floats:
    """Return the time of a ring collective, seconds: steps × latency + bus bytes / bandwidth.

    An all-reduce takes 2 (n - 1) steps, the others n - 1, a send between neighbours one.
    Source: Patarasuk and Yuan 2009, bandwidth-optimal all-reduce, section 3.

    Raises
    ------
    ValueError
        For an unknown kind.
    """
    if kind not in (*KINDS, SEND):
        msg = f"{kind!r} is not a collective; choose one of {', '.join((*KINDS, SEND))}."
        raise ValueError(msg)
    n = np.asarray(ranks, np.float64)
    if kind == SEND:
        steps = np.where(n > 1, 1.0, 0.0)
    else:
        steps = (2.0 if kind == ALL_REDUCE else 1.0) * (n - 1)
    moved = bus_factor(kind, ranks) * np.asarray(message_bytes, np.float64)
    seconds = steps * np.asarray(latency_s, np.float64)
    return np.asarray(seconds + moved / np.asarray(bytes_per_s, np.float64), np.float64)


def ring_bytes_per_s(
    members: npt.ArrayLike, inner_bytes_per_s: npt.ArrayLike, outer_bytes_per_s: npt.ArrayLike
) -> Floats:
    """Return the bus bandwidth of rings over several domains with ``members`` in each, bytes/s.

    A ring enters and leaves a domain once, so parallel rings use the network shares of all members
    together, up to what the links inside carry. Measured: all-gather on 2 × 8 H100 at 25 GB/s per
    GPU reaches 189 of 200 GB/s; all-reduce on 12 × 8 H100 at 50 GB/s 387 of 400 (`network_curves`).
    """
    outer = np.asarray(members, np.float64) * np.asarray(outer_bytes_per_s, np.float64)
    return np.asarray(np.minimum(inner_bytes_per_s, outer), np.float64)


def hierarchical_all_reduce_seconds(
    message_bytes: npt.ArrayLike,
    inner_ranks: npt.ArrayLike,
    outer_ranks: npt.ArrayLike,
    inner_bytes_per_s: npt.ArrayLike,
    outer_bytes_per_s: npt.ArrayLike,
    inner_latency_s: npt.ArrayLike = 0.0,
    outer_latency_s: npt.ArrayLike = 0.0,
    overlap: float = HIERARCHICAL_OVERLAP,
) -> Floats:
    """Return the time of an all-reduce over ``outer_ranks`` domains of ``inner_ranks``, seconds.

    Reduce-scatter inside, all-reduce of 1/inner of the message across per network share, all-gather
    inside. ``overlap`` is the share of the shorter of the two (inside, across) that hides behind
    the longer: 0 in series, 1 full.
    """
    size = np.asarray(message_bytes, np.float64)
    inner = np.asarray(inner_ranks, np.float64)
    inside = 2.0 * collective_seconds(ALL_GATHER, size, inner, inner_bytes_per_s, inner_latency_s)
    across = collective_seconds(
        ALL_REDUCE, size / inner, outer_ranks, outer_bytes_per_s, outer_latency_s
    )
    return np.asarray(inside + across - overlap * np.minimum(inside, across), np.float64)
