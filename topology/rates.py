"""Names and forms of link bandwidths: ``nvlink4``, ``ndr400``, ``{per_gpu: 50GB/s}``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from .units import GB, parse_bandwidth, shown

# Per GPU and direction, all links: links of a full GPU x rate of a link (GB/s: v1 20, v2 to v4 25,
# v5 50; network table of stas00/ml-engineering): 4x20, 6x25, 12x25, 18x25, 18x50.
NVLINK: Final[Mapping[str, float]] = {
    "nvlink1": 80 * GB,
    "nvlink2": 150 * GB,
    "nvlink3": 300 * GB,
    "nvlink4": 450 * GB,
    "nvlink5": 900 * GB,
}
# InfiniBand 4x and Ethernet line rates, Gb/s over 8 bits.
NETWORK: Final[Mapping[str, float]] = {
    "edr": 12.5 * GB,
    "edr100": 12.5 * GB,
    "hdr": 25 * GB,
    "hdr200": 25 * GB,
    "ndr": 50 * GB,
    "ndr400": 50 * GB,
    "xdr": 100 * GB,
    "xdr800": 100 * GB,
    "ethernet100": 12.5 * GB,
    "ethernet200": 25 * GB,
    "ethernet400": 50 * GB,
    "ethernet800": 100 * GB,
}
LEAST_BYTES_PER_S = 1e6
MOST_BYTES_PER_S = 1e14


def _in_range(rate: float, value: object) -> float:
    if not LEAST_BYTES_PER_S <= rate <= MOST_BYTES_PER_S:
        msg = f"{shown(value)} is out of range; links run at 1 MB/s to 100 TB/s, e.g. 50GB/s."
        raise ValueError(msg)
    return rate


def _named(value: object, names: Mapping[str, float]) -> float:
    """Return the rate of a name, or of a written bandwidth.

    Raises
    ------
    ValueError
        For unknown names, with the nearest known one, and for bad rates.
    """
    if not isinstance(value, str) or value.strip()[:1].isdigit():
        return _in_range(parse_bandwidth(value), value)
    key = value.strip().lower().replace("-", "").replace("_", "").replace(" ", "")
    if key in names:
        return names[key]
    near = difflib.get_close_matches(key[:40], names, n=1)
    guess = f" Did you mean '{near[0]}'?" if near else ""
    msg = f"{shown(value)} is not a known link.{guess} Known: {', '.join(names)}; or write 50GB/s."
    raise ValueError(msg)


def intra_rate(value: object) -> float:
    """Return NVLink bytes/s per GPU and direction from a name, a rate, or ``none`` (0)."""
    if isinstance(value, str) and value.strip().lower() in {"none", "pcie"}:
        return 0.0
    return _named(value, NVLINK)


def inter_rate(value: object) -> tuple[str, float]:
    """Return ("per_gpu" or "per_node", bytes/s per direction) from any accepted form."""
    if not isinstance(value, dict):
        return "per_gpu", _named(value, NETWORK)
    known = {"per_gpu", "per_node"}
    if len(value) != 1 or not set(value) <= known:
        keys = ", ".join(shown(k) for k in list(value)[:4]) or "nothing"
        msg = f"inter takes per_gpu or per_node, found {keys}; write {{per_gpu: 50GB/s}}."
        raise ValueError(msg)
    ((kind, rate),) = value.items()
    return kind, _named(rate, NETWORK)
