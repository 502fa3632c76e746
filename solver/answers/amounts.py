"""Figures of answers as text, and the stamp that their JSON carries."""

from __future__ import annotations

from typing import Any

from topology.units import show_bandwidth, show_bytes, show_seconds, show_usd

from ..job.job import PlanningProblem
from ..report.cells import count, percent
from ..report.resolved import problem_data, problem_sha256, tool_version


def stamp(problem: PlanningProblem, schema: str) -> dict[str, Any]:
    """Return what names schema, tool and problem."""
    return {
        "schema": schema,
        "tool_version": tool_version(),
        "problem": problem_data(problem),
        "problem_sha256": problem_sha256(problem),
    }


def signed(value: float, show: Any) -> str:
    """Show a difference with its sign."""
    return f"{'+' if value >= 0 else '−'}{show(abs(value))}"


def amount(value: float, unit: str) -> str:
    """Show a figure in its unit."""
    if unit == "bytes":
        return show_bytes(value)
    if unit in ("seconds", "s"):
        return show_seconds(value)
    if unit in ("ratio", "share"):
        return percent(value)
    if unit == "USD":
        return show_usd(value)
    if unit == "bytes/s per GPU":
        return show_bandwidth(value)
    return f"{count(value)} {unit}".strip()


_SCALES = {
    "bytes": (1e9, "GB"), "bytes/s per GPU": (1e9, "GB/s"), "seconds": (1, "s"), "s": (1, "s"),
    "ratio": (0.01, "%"), "share": (0.01, "%"),
}  # fmt: skip
_MOST_DIGITS = 15
"""Of a double; more figures say nothing."""


def apart(one: float, other: float, unit: str) -> tuple[str, str]:
    """Show two figures in their unit, with digits enough to tell them apart."""
    texts = amount(one, unit), amount(other, unit)
    scale, name = _SCALES.get(unit, (1, unit))
    for digits in range(4, _MOST_DIGITS + 1):
        if texts[0] != texts[1] or one == other:
            break
        texts = f"{one / scale:.{digits}g} {name}", f"{other / scale:.{digits}g} {name}"
    return texts
