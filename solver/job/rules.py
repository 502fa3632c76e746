"""Hard constraints on single axes: ``--fix tp=8``, ``--forbid pp``, ``--max``, ``--min``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from topology.faults import FieldError, did_you_mean
from topology.units import shown

from ..degrees import BoolArray, IntArray
from .schedules import SCHEDULES

Relation = Literal["=", "!=", "<=", ">="]
AXES = (
    "tp",
    "pp",
    "vpp",
    "cp",
    "ep",
    "etp",
    "dp",
    "dp_replicate",
    "zero",
    "micro_batch",
    "microbatches",
    "gpus",
)
"""What a rule can be about; ``dp_replicate`` counts HSDP replica groups."""
NAMED = {"schedule": SCHEDULES}
"""Axes without an order: a rule fixes or forbids one of these names, and counts it by its place."""
SYNONYMS = {"hsdp": "dp_replicate", "mbs": "micro_batch", "gradient_accumulation": "microbatches"}
RULE_FIELDS: dict[str, Relation] = {"fix": "=", "forbid": "!=", "max": "<=", "min": ">="}
"""Keys of the search section, and the flags of the same names."""
LARGEST = 10**9
MOST_RULES = 100

_VALUES = r"[0-9A-Za-z-]{1,40}(?:\s*,\s*[0-9A-Za-z-]{1,40})*"
_WRITTEN = re.compile(rf"\s*([A-Za-z_]{{1,40}})\s*(?:=\s*({_VALUES})\s*)?")


class Rule(BaseModel):
    """One constraint: a degree equal to, other than, at most or at least a value."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    axis: str
    relation: Relation
    value: int

    def __str__(self) -> str:
        """Write it as ``tp <= 8``."""
        return f"{self.axis} {self.relation} {self.written}"

    @property
    def written(self) -> str:
        """The value as files and flags have it."""
        named = NAMED.get(self.axis)
        return str(self.value) if named is None else named[self.value]

    def keeps(self, degrees: IntArray) -> BoolArray:
        """Mark the degrees that keep the rule."""
        compare = {
            "=": np.equal, "!=": np.not_equal, "<=": np.less_equal, ">=": np.greater_equal,
        }[self.relation]  # fmt: skip
        return np.asarray(compare(degrees, self.value))


def parse_rules(field: str) -> Any:
    """Make a validator that reads the rules of a field: ``tp=8``, ``[tp=8, cp]`` or ``{tp: 8}``.

    An axis alone may be forbidden: ``pp`` forbids pipelines, that is every pp but 1.
    """
    relation = RULE_FIELDS[field]

    def validator(value: object) -> tuple[Rule, ...]:
        if value is None:
            return ()
        rules = tuple(_rules(value, relation))
        if len(rules) > MOST_RULES:
            raise FieldError("SP109", f"{len(rules)} rules: at most {MOST_RULES} are read.")
        return rules

    return validator


def _rules(value: object, relation: Relation) -> Iterator[Rule]:
    if isinstance(value, Mapping):
        for axis, wanted in value.items():
            values = wanted if isinstance(wanted, list | tuple) else [wanted]
            for one in values:
                yield _rule(axis, one, relation)
        return
    for text in value if isinstance(value, list | tuple) else [value]:
        match = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            hint = "Write e.g. tp=8, or {tp: 8}."
            raise FieldError("SP114", f"{shown(text)} is not a rule about an axis.", hint)
        for one in match[2].split(",") if match[2] else [None]:
            yield _rule(match[1], _number(one), relation)


def _number(text: str | None) -> object:
    """Return a written value as a number, where it is one."""
    return int(text) if text is not None and text.strip().isdecimal() else text


def _rule(axis: object, value: object, relation: Relation) -> Rule:
    name = axis.lower() if isinstance(axis, str) else ""
    name = SYNONYMS.get(name, name)
    if name in NAMED:
        return _named(name, value, relation)
    if name not in AXES:
        known = (*AXES, *NAMED)
        hint = did_you_mean(name, known)
        raise FieldError("SP112", f"{shown(axis)} unknown. Choose {', '.join(known)}.", hint)
    if value is None and relation == "!=":
        return _off(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        message = f"{name} needs a whole number from 0 to {LARGEST:,}, got {shown(value)}."
        raise FieldError("SP114", message, f"Write e.g. {name}=8.")
    return Rule(axis=name, relation=relation, value=value)


def _named(axis: str, value: object, relation: Relation) -> Rule:
    """Return the rule about an axis of names."""
    names: tuple[str, ...] = NAMED[axis]
    text = value.strip().lower() if isinstance(value, str) else value
    if relation not in ("=", "!="):
        message = f"{axis} has no order, so no largest or smallest value."
        raise FieldError("SP114", message, f"Use fix or forbid: {axis}={names[-1]}.")
    if text not in names:
        message = f"{axis} needs one of {', '.join(names)}, got {shown(value)}."
        raise FieldError("SP112", message, did_you_mean(str(text), names))
    return Rule(axis=axis, relation=relation, value=names.index(str(text)))


def _off(axis: str) -> Rule:
    """Return the rule that switches an axis off."""
    if axis in ("zero", "dp_replicate"):
        return Rule(axis=axis, relation="<=", value=0 if axis == "zero" else 1)
    if axis == "gpus":
        raise FieldError("SP114", "gpus cannot be forbidden as a whole.", "Write e.g. gpus=24.")
    return Rule(axis=axis, relation="<=", value=1)
