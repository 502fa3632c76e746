"""What a sweep varies: ``key=a,b,c`` or ``key=lo..hi*2``, and the same lists in a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import yaml

from topology.errors import InputError, Problem
from topology.faults import did_you_mean
from topology.units import shown

from ..job.schema import ProblemSpec
from ..job.settings import SETTINGS

MOST_VALUES = 10_000
"""Most values of one key."""

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z/%$]*)"
_RANGE = re.compile(rf"\s*{_NUMBER}\s*\.\.\s*{_NUMBER}\s*(?:([*+])\s*([0-9]+(?:\.[0-9]+)?))?\s*")
_HINT = "Write e.g. --vary cluster.nodes=4,8,16 or --vary training.seq_len=4096..32768*2."


@dataclass(frozen=True)
class Axis:
    """One varied key.

    Attributes
    ----------
    field
        Dotted name in a problem file.
    values
        What it takes, in order.
    """

    field: str
    values: tuple[Any, ...]


def parse_vary(text: str) -> Axis:
    """Read one ``--vary``.

    Raises
    ------
    InputError
        Where it is neither a list nor a range, or names no field.
    """
    key, equals, listed = text.partition("=")
    if not equals or not listed.strip():
        raise _fault("--vary", "SP114", f"{shown(text)} is not key=values.", _HINT)
    return axis_of(key.strip(), listed, "--vary")


def axis_of(key: str, listed: Any, where: str) -> Axis:
    """Return the axis of a key, a flag's name or a dotted field, with its list or range."""
    values = _values(listed, where, key)
    if not 0 < len(values) <= MOST_VALUES:
        message = f"{len(values):,} values: it must be from 1 to {MOST_VALUES:,}."
        raise _fault(where, "SP109", message, _HINT, key)
    return Axis(field_of(key, where), values)


def field_of(key: str, where: str) -> str:
    """Return the dotted field of a key, which may be a flag's name.

    Raises
    ------
    InputError
        SP101 where the first part of the key is no section.
    """
    by_name = {s.name: s.field for s in SETTINGS}
    name = key.removeprefix("--").replace("-", "_")
    if name in by_name:
        return by_name[name]
    sections = [f.alias or n for n, f in ProblemSpec.model_fields.items()]
    if key.partition(".")[0] in sections and key not in ("schema", "scenarios", "sweep"):
        return key
    hint = did_you_mean(key, [*by_name, *sections])
    raise _fault(where, "SP101", f"{shown(key)} is no field of a problem.", hint or _HINT)


def _values(listed: Any, where: str, key: str) -> tuple[Any, ...]:
    if isinstance(listed, list | tuple):
        return tuple(listed)
    if not isinstance(listed, str):
        return (listed,)
    match = _RANGE.fullmatch(listed)
    if match is not None:
        return _range(match, where, key)
    return tuple(_scalar(part) for part in listed.split(","))


def _scalar(text: str) -> Any:
    """Read one value as a problem file would."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text.strip()


def _range(match: re.Match[str], where: str, key: str) -> tuple[Any, ...]:
    low, high = Fraction(match[1]), Fraction(match[3])
    unit, step = match[2] or match[4], Fraction(match[6] or 1)
    if match[2] and match[4] and match[2] != match[4]:
        raise _fault(where, "SP114", "the two ends have different units.", _HINT, key)
    grows = step > 1 and low > 0 if match[5] == "*" else step > 0
    if not grows or high < low:
        raise _fault(where, "SP109", "a range must ascend, and its step too.", _HINT, key)
    found: list[Any] = []
    while low <= high and len(found) <= MOST_VALUES:
        number = str(low) if low.denominator == 1 else repr(float(low))
        found.append(_scalar(f"{number}{unit}"))
        low = low * step if match[5] == "*" else low + step
    return tuple(found)


def scenario_of(given: Any, name: str, where: str) -> dict[str, Any]:
    """Return the fields that a scenario sets, by dotted name.

    Raises
    ------
    InputError
        Where it is no mapping of fields.
    """
    if not isinstance(given, Mapping) or not given:
        message = f"scenario {shown(name)} needs a mapping of fields."
        raise _fault(where, "SP114", message, "Write e.g. {training.global_batch: 256seq}.")
    return {field_of(str(key), where): value for key, value in given.items()}


def _fault(where: str, code: str, message: str, hint: str, field: str = "") -> InputError:
    return InputError(Problem(where, 0, 0, field, code, message, hint))
