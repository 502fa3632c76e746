"""Several files of one machine together: a node's matrix, the fabric's file, the node list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from .imported import Imported

# Facts of which one file is believed; where another one differs, the smaller is the worse value.
_WORSE = {
    "gpus_per_node": min,
    "node_count": min,
    "nvlink_domain": min,
    "nvlink_gpu_bytes_per_s": min,
    "inter_node_bytes_per_s": min,
    "nics": min,
    "oversubscription": max,
}


def merge(parts: Sequence[Imported]) -> Imported:
    """Return what all files together say; where two differ, the worse value, with a warning."""
    if len(parts) == 1:
        return parts[0]
    warnings = [f"{part.format}: {text}" for part in parts for text in part.warnings]
    values: dict[str, Any] = {"format": "+".join(part.format for part in parts)}
    for item in fields(Imported):
        if item.name in ("format", "warnings"):
            continue
        stated = [getattr(part, item.name) for part in parts]
        stated = [value for value in stated if value not in (None, "", (), {}, False)]
        if stated:
            values[item.name] = _one(item.name, stated, warnings)
    return Imported(**values, warnings=tuple(dict.fromkeys(warnings)))


def _one(name: str, stated: list[Any], warnings: list[str]) -> Any:
    if name == "counts":
        return {key: value for counts in stated for key, value in counts.items()}
    if name not in _WORSE:
        return stated[0]
    chosen = _WORSE[name](stated)
    if len(set(stated)) > 1:
        given = ", ".join(f"{value:,g}" for value in _unique(stated))
        warnings.append(f"the files differ in {name} ({given}): {chosen:,g} is taken")
    return chosen


def _unique(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
