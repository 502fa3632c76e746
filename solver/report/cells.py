"""Single values as text for people."""

from __future__ import annotations

import math

from topology.units import GB, show_count

_WHOLE_PERCENT = 0.095
_LEAST_DECIMAL = 0.05
"""What is nearer to a whole percent reads the same with one decimal."""

_RARE = 0.001
"""Chance below which an expected error says nothing more: its tails were never measured."""


def dash_one(value: int) -> str:
    """Show a degree of 1, which means that the axis is not used, as a dash."""
    return "–" if value == 1 else f"{value:,}"


def count(value: float) -> str:
    """Show a whole number with separators."""
    return f"{value:,.0f}"


def percent(share: float) -> str:
    """Show a share of 1 as percent: two figures, one decimal below 10 % and where one is needed."""
    part = math.modf(100 * abs(share))[0]
    needed = min(part, 1 - part) >= _LEAST_DECIMAL
    digits = 1 if needed or 0 < abs(share) < _WHOLE_PERCENT else 0
    return f"{100 * share:.{digits}f} %"


def percent1(share: float) -> str:
    """Show a share of 1 as percent with one decimal."""
    return f"{100 * share:.1f} %"


def chance(probability: float | None) -> str:
    """Show the chance of running out of memory; a dash where no error is known."""
    if probability is None:
        return "–"
    return "< 0.1 %" if probability < _RARE else percent1(probability)


def gigabytes(size: float) -> str:
    """Show bytes as GB (10^9) with one decimal, without the unit."""
    return f"{size / GB:,.1f}"


def figures(value: float) -> str:
    """Show a number with three figures and no exponent below a million."""
    if value == 0:
        return "0"
    size = abs(value)
    digits = 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.995 else 4  # noqa: PLR2004
    return f"{value:,.{digits}f}"


def usd(value: float) -> str:
    """Show dollars without the sign: whole from 100 up, cents below."""
    if value == 0:
        return "0"
    digits = 0 if abs(value) >= 100 else 2 if abs(value) >= 1 else 4  # noqa: PLR2004
    return f"{value:,.{digits}f}"


def parameters(value: float) -> str:
    """Show a parameter count: ``70.6 B``."""
    return show_count(value)


def yes(value: bool) -> str:
    """Show a truth value."""
    return "yes" if value else "no"


def mark(value: bool) -> str:
    """Show a check mark or a cross."""
    return "ok" if value else "BROKEN"


def things(number: int, noun: str) -> str:
    """Show a number of things: ``1 node``, ``2 nodes``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def axis_name(axis: str) -> str:
    """Show an axis of communication: ``TP``, ``DP shard``; copies to the host stand among them."""
    first, *rest = axis.split("_")
    return "copies to the host" if axis == "host" else " ".join([first.upper(), *rest])
