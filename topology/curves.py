"""Measured bandwidths of collectives: curves by GPU inside a domain, and over several nodes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .cluster import NodeGroup
from .collectives import KINDS, bus_factor
from .group_times import GroupTime, Measured, Spread, group_time
from .hardware import find_gpu, load_preset
from .levels import levels
from .units import GB

Floats: TypeAlias = npt.NDArray[np.float64]
Points: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]


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
    transport
        What carries it: ``rdma`` (InfiniBand, RoCE), ``efa`` or ``tcp``.
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
    transport: str
    fabric: str
    source: str


def _points(points: list[list[float]]) -> Points:
    sizes, rates = zip(*points, strict=True)
    return tuple(map(float, sizes)), tuple(rate * GB for rate in rates)


@functools.cache
def _data() -> Any:
    return load_preset("collectives")


@functools.cache
def curves_inside(gpu: str, collective: str) -> Mapping[int, Points]:
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
                transport=entry["transport"],
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
def stand_in(gpu_id: str) -> tuple[str, float]:
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
    source, factor = stand_in(find_gpu(gpu).id)
    curves = curves_inside(source, collective)
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


@functools.cache
def measured_groups() -> tuple[Measured, ...]:
    """Return every measured curve, inside domains and over several nodes."""
    found = [
        Measured(kind, _one_domain(gpu, ranks), gpu, points[0], _seconds(kind, ranks, points))
        for gpu in _data()["inside"]
        for kind in KINDS
        for ranks, points in curves_inside(gpu, kind).items()
    ]
    for curve in network_curves():
        gpu = find_gpu(curve.gpu)
        domain = max(gpu.nvlink_domain, gpu.gpus_per_node)
        spread = Spread(
            curve.ranks, -(-curve.ranks // domain), gpu.nvlink_bytes_per_s,
            curve.inter_bytes_per_s, curve.transport,
        )  # fmt: skip
        points = curve.message_bytes, curve.bus_bytes_per_s
        seconds = _seconds(curve.collective, curve.ranks, points)
        found.append(Measured(curve.collective, spread, curve.fabric, points[0], seconds))
    return tuple(found)


def _one_domain(gpu: str, ranks: int) -> Spread:
    return Spread(ranks, 1, find_gpu(gpu).nvlink_bytes_per_s, 0.0)


def _seconds(kind: str, ranks: int, points: Points) -> tuple[float, ...]:
    moved = float(bus_factor(kind, ranks))
    return tuple(moved * size / rate for size, rate in zip(*points, strict=True))


def collective_time(
    group: NodeGroup, level: int, kind: str, message_bytes: npt.ArrayLike, transport: str = "rdma"
) -> GroupTime:
    """Return the time of a collective over all GPUs that a level of a node group holds.

    Inside a domain the GPU's own curves count where there are any; else, and across domains, those
    of machines like it.
    """
    held = levels(group)
    inner, outer = held[0], held[level]
    domains = -(-outer.gpus // inner.gpus)
    spread = Spread(outer.gpus, domains, inner.bytes_per_s, outer.bytes_per_s, transport)
    curves = measured_groups()
    own = tuple(curve for curve in curves if curve.family == group.gpu.id)
    return group_time(kind, message_bytes, spread, own if own and domains == 1 else curves)
