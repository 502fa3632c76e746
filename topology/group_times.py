"""Time of a collective on a group that spreads over NVLink domains, from measured groups like it.

A measured curve is read as time over ideal time: what the links alone would take. Between its
points it is interpolated in logarithms; another link, another number of members or of domains
changes the ideal time only. So a group is priced from curves of other machines where its own was
not measured. Outside the measured range time follows start-up plus bytes over bandwidth, and is
marked as extrapolated.

Bandwidths are what a GPU gets while all GPUs of a node talk, as they do when every group of an axis
runs its collective at once: eight groups each on its own rail, or two that share an adapter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .collectives import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    NETWORK_PAYLOAD,
    REDUCE_SCATTER,
    SEND,
    bus_factor,
    hierarchical_all_reduce_seconds,
    ring_bytes_per_s,
)
from .units import MIB

Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]

ALIKE = 1e-9
"""Logarithms closer than this are equal."""

SHORT = MIB
"""Messages up to this size show the start-up of a collective."""

_TWIN = {REDUCE_SCATTER: ALL_GATHER, ALL_GATHER: REDUCE_SCATTER}
"""Moves as many bytes in as many steps, and stands in where one of the two was not measured."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A group by where its members are.

    Attributes
    ----------
    ranks, domains
        Members, and the NVLink domains (nodes) over which they spread evenly.
    inner_bytes_per_s
        Link of a member inside its domain, per direction.
    outer_bytes_per_s
        Its share of the network, per direction; not used in one domain.
    transport
        What carries the network: ``rdma`` (InfiniBand, RoCE), ``efa`` or ``tcp``.
    """

    ranks: int
    domains: int
    inner_bytes_per_s: float
    outer_bytes_per_s: float
    transport: str = "rdma"

    @property
    def together(self) -> float:
        """Return the members in one domain."""
        return self.ranks / self.domains


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured curve.

    Attributes
    ----------
    kind, spread
        What ran on which group.
    family
        Curves of one family differ in the number of ranks only.
    message_bytes, seconds
        The points, sizes ascending.
    """

    kind: str
    spread: Spread
    family: str
    message_bytes: tuple[float, ...]
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class GroupTime:
    """Predicted times.

    Attributes
    ----------
    seconds
        One a message size.
    extrapolated
        Whether that size, or such a group, lies outside of what was measured.
    families
        Measurements that it is from; empty for closed forms.
    """

    seconds: Floats
    extrapolated: Bools
    families: tuple[str, ...]


def ideal_seconds(kind: str, message_bytes: npt.ArrayLike, spread: Spread) -> Floats:
    """Return what the links alone take: no start-up, full bandwidth, the usual overlap.

    Rings for gather and scatter, a hierarchy for an all-reduce, direct messages for an all-to-all.
    """
    size = np.asarray(message_bytes, np.float64)
    inner, outer = spread.inner_bytes_per_s, spread.outer_bytes_per_s * NETWORK_PAYLOAD
    if spread.domains == 1:
        return np.asarray(bus_factor(kind, spread.ranks) * size / inner, np.float64)
    if kind == ALL_REDUCE:
        return hierarchical_all_reduce_seconds(size, spread.together, spread.domains, inner, outer)
    if kind == ALL_TO_ALL:
        inside = size * (spread.together - 1) / spread.ranks / inner
        across = size * (1 - spread.together / spread.ranks) / outer
        return np.asarray(np.maximum(inside, across), np.float64)
    if kind == SEND:
        return np.asarray(size / outer, np.float64)
    rate = ring_bytes_per_s(spread.together, inner, outer)
    return np.asarray(bus_factor(kind, spread.ranks) * size / rate, np.float64)


def group_time(
    kind: str, message_bytes: npt.ArrayLike, spread: Spread, measured: Iterable[Measured]
) -> GroupTime:
    """Return the time of a collective from the measured groups that are most like it.

    These are curves of the same kind, over one domain or several as asked, on the same transport
    where there is one, and with the nearest number of ranks. Where several families are as near,
    their geometric mean counts, machines with the same links together as one.
    """
    ideal = np.atleast_1d(ideal_seconds(kind, message_bytes, spread))
    curves = tuple(measured)
    chosen = _alike(kind, spread, curves)
    if not chosen:
        return _closed_form(ideal, spread, curves)
    with np.errstate(divide="ignore"):
        place = np.log(ideal)
    read = [_read(family, spread.ranks, place) for family in chosen.values()]
    times, inside = (np.array(part) for part in zip(*read, strict=True))
    known = inside.any(axis=0)
    machines = [family[0].spread.inner_bytes_per_s for family in chosen.values()]
    mean = _mean(times, inside | ~known, machines)
    return GroupTime(np.exp(mean), np.asarray(~known), tuple(sorted(chosen)))


def _mean(times: Floats, usable: Bools, machines: list[float]) -> Floats:
    """Average the usable rows of each machine, then the machines."""
    total = count = np.zeros(times.shape[1])
    for machine in sorted(set(machines)):
        rows = np.array([other == machine for other in machines])[:, None] & usable
        number = rows.sum(axis=0)
        some = number > 0
        total = total + np.where(rows, times, 0.0).sum(axis=0) / np.maximum(number, 1)
        count = count + some
    return np.asarray(total / count)


def _alike(kind: str, spread: Spread, measured: Sequence[Measured]) -> dict[str, list[Measured]]:
    """Return the families nearest to a group."""
    over_one = spread.domains == 1
    found = [m for m in measured if (m.spread.domains == 1) == over_one and len(m.seconds) > 1]
    same = [m for m in found if m.kind == kind] or [m for m in found if m.kind == _TWIN.get(kind)]
    if not over_one:
        same = [m for m in same if m.spread.transport == spread.transport] or same
    families: dict[str, list[Measured]] = {}
    for curve in same:
        families.setdefault(curve.family, []).append(curve)
    away = {name: _distance(family, spread.ranks) for name, family in families.items()}
    least = min(away.values(), default=0.0)
    return {name: family for name, family in families.items() if away[name] <= least + ALIKE}


def _distance(family: list[Measured], ranks: int) -> float:
    """Return how far a number of ranks is outside of those measured, in logarithms."""
    counts = [curve.spread.ranks for curve in family]
    return float(max(np.log(min(counts) / ranks), np.log(ranks / max(counts)), 0.0))


def _read(family: list[Measured], ranks: int, place: Floats) -> tuple[Floats, Bools]:
    """Read log seconds at log ideal times, between the two nearest numbers of ranks."""
    ordered = sorted(family, key=lambda curve: curve.spread.ranks)
    counts = np.log([curve.spread.ranks for curve in ordered])
    at = float(np.interp(np.log(ranks), counts, np.arange(len(counts))))
    low, share = int(at), at - int(at)
    times, inside = _on_curve(ordered[low], place)
    if share > 0:
        above, inside_too = _on_curve(ordered[low + 1], place)
        times, inside = (1 - share) * times + share * above, inside & inside_too
    return times, inside & (_distance(family, ranks) <= ALIKE)


def _on_curve(curve: Measured, place: Floats) -> tuple[Floats, Bools]:
    """Read log seconds of one curve: between its points, else start-up plus ideal time.

    Below the first point what start-up adds there stays; beyond the last bandwidth stays.
    """
    ideal = ideal_seconds(curve.kind, curve.message_bytes, curve.spread)
    known, seconds = np.log(ideal), np.log(curve.seconds)
    times = np.interp(place, known, seconds)
    start = max(curve.seconds[0] - float(ideal[0]), 0.0)
    times = np.where(place < known[0], np.log(start + np.exp(place)), times)
    times = np.where(place > known[-1], seconds[-1] + place - known[-1], times)
    return times, (place >= known[0] - ALIKE) & (place <= known[-1] + ALIKE)


def _closed_form(ideal: Floats, spread: Spread, measured: Sequence[Measured]) -> GroupTime:
    """Start-up plus ideal time, where nothing like it was measured.

    Start-up is the median of the shortest messages measured on links of this kind.
    """
    over_one = spread.domains == 1
    near = [m for m in measured if (m.spread.domains == 1) == over_one]
    near = [m for m in near if m.message_bytes[0] <= SHORT]
    near = [m for m in near if m.spread.transport == spread.transport] or near
    start = float(np.median([curve.seconds[0] for curve in near])) if near else 0.0
    return GroupTime(start + ideal, np.ones(ideal.shape, np.bool_), ())
