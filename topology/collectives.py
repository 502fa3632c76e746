"""Time and bandwidth of collectives: measured curves, and closed forms where nothing was measured.

``message_bytes`` is the full (gathered or reduced) buffer of a rank. Bus bandwidth is
2 (n - 1)/n × bytes / time for an all-reduce and (n - 1)/n × bytes / time for the others, so that it
can be held against the bandwidth of a link. Every function broadcasts over numpy arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .hardware import find_gpu, load_preset
from .units import GB

Floats: TypeAlias = npt.NDArray[np.float64]
Points: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]

ALL_REDUCE, ALL_GATHER = "all_reduce", "all_gather"
REDUCE_SCATTER, ALL_TO_ALL, SEND = "reduce_scatter", "all_to_all", "send"
KINDS = (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL)

# Share of the shorter part that a hierarchical all-reduce hides behind the longer one: 4 x 8 B200,
# 4 GiB: 16.1 ms if all were hidden, 22.05 measured, 26.25 in series (all_reduce_bench on p6-b200,
# stas00/ml-engineering network/README.md): (26.25 - 22.05) / (26.25 - 16.1).
HIERARCHICAL_OVERLAP = 0.41


@dataclass(frozen=True, slots=True)
class NetworkCurve:
    """A measured collective over several nodes.

    Attributes
    ----------
    gpu, collective, nodes, ranks
        What ran where.
    inter_bytes_per_s
        Network share of one GPU, bytes/s per direction.
    message_bytes, bus_bytes_per_s
        The points.
    fabric, source
        Where it was measured.
    """

    gpu: str
    collective: str
    nodes: int
    ranks: int
    inter_bytes_per_s: float
    message_bytes: tuple[float, ...]
    bus_bytes_per_s: tuple[float, ...]
    fabric: str
    source: str


def _points(points: list[list[float]]) -> Points:
    sizes, rates = zip(*points, strict=True)
    return tuple(map(float, sizes)), tuple(rate * GB for rate in rates)


@functools.cache
def _data() -> Any:
    return load_preset("collectives")


@functools.cache
def _inside(gpu: str, collective: str) -> Mapping[int, Points]:
    """Return the measured curves of a GPU by rank count."""
    table = _data()["inside"][gpu][collective]
    return {int(ranks): _points(points) for ranks, points in table.items()}


@functools.cache
def network_curves() -> tuple[NetworkCurve, ...]:
    """Return what was measured over several nodes, to check closed forms against."""
    sources = _data()["sources"]
    curves = []
    for entry in _data()["across"]:
        sizes, rates = _points(entry["points"])
        curves.append(
            NetworkCurve(
                gpu=entry["gpu"],
                collective=entry["collective"],
                nodes=entry["nodes"],
                ranks=entry["ranks"],
                inter_bytes_per_s=entry["inter_gb_per_s"] * GB,
                message_bytes=sizes,
                bus_bytes_per_s=rates,
                fabric=entry["fabric"],
                source=sources[entry["source"]],
            )
        )
    return tuple(curves)


def curve_source(gpu: str) -> str:
    """Return where the curves of a GPU are from; empty where it has none."""
    data, gpu_id = _data(), find_gpu(gpu).id
    if gpu_id in data["inside"]:
        return str(data["sources"][data["inside"][gpu_id]["source"]])
    alike = data["alike"].get(gpu_id)
    return f"curves of {alike['gpu']} ({alike['source']})" if alike else ""


@functools.cache
def _stand_in(gpu_id: str) -> tuple[str, float]:
    """Return the GPU whose curves to use and the factor on their bandwidth.

    Raises
    ------
    ValueError
        For a GPU that has neither curves nor a stand-in (no peer-to-peer links).
    """
    if gpu_id in _data()["inside"]:
        return gpu_id, 1.0
    alike = _data()["alike"].get(gpu_id)
    if alike is None:
        msg = f"no collective was measured on {gpu_id}; use collective_seconds with a bandwidth."
        raise ValueError(msg)
    other = str(alike["gpu"])
    return other, find_gpu(gpu_id).nvlink_bytes_per_s / find_gpu(other).nvlink_bytes_per_s


def _on_curve(points: Points, log_size: Floats) -> Floats:
    """Return bandwidths at log sizes, log-log between the points.

    Below the smallest point time stays what it is there (all latency), so bandwidth falls in
    proportion to size; beyond the largest it stays flat.
    """
    sizes, rates = np.log(points[0]), np.log(points[1])
    inside = np.interp(log_size, sizes, rates)
    return np.asarray(np.exp(inside + np.minimum(log_size - sizes[0], 0.0)), np.float64)


def bus_bandwidth(
    gpu: str, collective: str, message_bytes: npt.ArrayLike, ranks: npt.ArrayLike
) -> Floats:
    """Return the bus bandwidth within one NVLink domain, bytes/s.

    Interpolated in the logarithms of size and rank count; flat beyond the largest of either and
    below the smallest rank count. One rank moves nothing: infinite.

    Raises
    ------
    ValueError
        For a GPU without curves or stand-in (see `curve_source`), and for an unknown collective.
    """
    if collective not in KINDS:
        msg = f"{collective!r} is not a measured collective; choose one of {', '.join(KINDS)}."
        raise ValueError(msg)
    source, factor = _stand_in(find_gpu(gpu).id)
    curves = _inside(source, collective)
    counts = np.array(sorted(curves), np.float64)
    size, members = np.broadcast_arrays(
        np.asarray(message_bytes, np.float64), np.asarray(ranks, np.int64)
    )
    with np.errstate(divide="ignore"):
        log_size = np.log(size)
    result = np.full(size.shape, np.inf)
    for count in np.unique(members[members > 1]):
        chosen = members == count
        place = float(np.interp(np.log(count), np.log(counts), np.arange(len(counts))))
        low, share = int(place), place - int(place)
        rate = _on_curve(curves[int(counts[low])], log_size[chosen])
        if share > 0:
            above = _on_curve(curves[int(counts[low + 1])], log_size[chosen])
            rate = rate ** (1 - share) * above**share
        result[chosen] = rate * factor
    return result


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
