"""One line of the ledger, the names of its sources, and how numbers are written out."""

from __future__ import annotations

from dataclasses import dataclass

FRAMEWORK = "Distributed Training Planner"
CHAPTER = "An overview of distributed training: the memory budget and the time model"
EXERCISE = "Choose a Parallelism Plan for Training a 70B Model on 64 GPUs"

_WRITTEN_IN_FULL = 1e15
"""Whole numbers from here on read better as a power of ten."""


@dataclass(frozen=True, slots=True)
class Line:
    """One entry: ``formula`` holds symbols, then numbers; ``value`` is in ``unit``.

    Units are base units (B, s, FLOP, USD, GPU-h), "share" for a share of 1, and "" for text.
    """

    section: str
    label: str
    formula: str
    value: float | str
    unit: str
    source: str


def written(number: float) -> str:
    """Write a number out: whole ones with separators, others to six significant digits."""
    if number == int(number) and abs(number) < _WRITTEN_IN_FULL:
        return f"{int(number):,}"
    return f"{number:.6g}"
