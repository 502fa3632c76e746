"""Unit constants, and quantities for people; `topology.units` hands both on."""

from __future__ import annotations

KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12
KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
TFLOP = 10**12
MINUTE, HOUR, DAY, WEEK = 60, 3600, 86_400, 604_800
BITS_PER_BYTE = 8

# Figures are shown with three digits; these are where rounding moves to one digit less.
_THREE_DIGITS, _TWO_DIGITS = 99.95, 9.995
_CENTS_BELOW_USD = 100
_PLAIN_BELOW = 10_000


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    """Return ``value`` with three figures in the largest step that leaves it at 1 or more."""
    scale, unit = next((s for s in steps if abs(value) >= s[0]), steps[-1])
    amount = value / scale
    digits = 0 if abs(amount) >= _THREE_DIGITS else 1 if abs(amount) >= _TWO_DIGITS else 2
    return f"{amount:,.{digits}f} {unit}"


def show_bytes(value: float, *, binary: bool = False) -> str:
    """Return bytes for people: ``17.5 GB``, or ``16.3 GiB`` with ``binary``."""
    if binary:
        return _scaled(value, ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"), (1, "B")))
    return _scaled(value, ((TB, "TB"), (GB, "GB"), (MB, "MB"), (KB, "KB"), (1, "B")))


def show_bandwidth(value: float) -> str:
    """Return bytes per second for people: ``50.0 GB/s``."""
    return show_bytes(value) + "/s"


def show_seconds(value: float) -> str:
    """Return seconds for people: ``69.6 s``, ``12.3 ms``, ``19.2 days``."""
    steps = ((2 * DAY, DAY, "days"), (2 * HOUR, HOUR, "h"), (2 * MINUTE, MINUTE, "min"))
    for least, scale, unit in steps:
        if abs(value) >= least:
            return _scaled(value / scale, ((1, unit),))
    return _scaled(value, ((1, "s"), (1e-3, "ms"), (1e-6, "µs")))


def show_usd(value: float) -> str:
    """Return dollars for people: ``$73,751``, cents below 100 dollars."""
    return f"${value:,.0f}" if abs(value) >= _CENTS_BELOW_USD else f"${value:,.2f}"


def show_count(value: float) -> str:
    """Return a count for people: ``70.6 B``, ``4.19 M``, ``512``."""
    if abs(value) < _PLAIN_BELOW and float(value).is_integer():
        return f"{value:,.0f}"
    steps = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"))
    return _scaled(value, steps) if abs(value) >= KB else f"{value:.3g}"
