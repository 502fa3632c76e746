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
SYNONYMS = {"hsdp": "dp_replicate", "mbs": "micro_batch", "gradient_accumulation": "microbatches"}
RULE_FIELDS: dict[str, Relation] = {"fix": "=", "forbid": "!=", "max": "<=", "min": ">="}
"""Keys of the search section, and the flags of the same names."""
LARGEST = 10**9
MOST_RULES = 100

_WRITTEN = re.compile(r"\s*([A-Za-z_]{1,40})\s*(?:=\s*([0-9]{1,9}(?:\s*,\s*[0-9]{1,9})*)\s*)?")


class Rule(BaseModel):
    """One constraint: a degree equal to, other than, at most or at least a value."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    axis: str
    relation: Relation
    value: int

    def __str__(self) -> str:
        """Write it as ``tp <= 8``."""
        return f"{self.axis} {self.relation} {self.value}"

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
        numbers: list[int | None] = [int(n) for n in match[2].split(",")] if match[2] else [None]
        for number in numbers:
            yield _rule(match[1], number, relation)


def _rule(axis: object, value: object, relation: Relation) -> Rule:
    name = axis.lower() if isinstance(axis, str) else ""
    name = SYNONYMS.get(name, name)
    if name not in AXES:
        hint = did_you_mean(name, AXES)
        raise FieldError("SP112", f"{shown(axis)} unknown. Choose {', '.join(AXES)}.", hint)
    if value is None and relation == "!=":
        return _off(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        message = f"{name} needs a whole number from 0 to {LARGEST:,}, got {shown(value)}."
        raise FieldError("SP114", message, f"Write e.g. {name}=8.")
    return Rule(axis=name, relation=relation, value=value)


def _off(axis: str) -> Rule:
    """Return the rule that switches an axis off."""
    if axis in ("zero", "dp_replicate"):
        return Rule(axis=axis, relation="<=", value=0 if axis == "zero" else 1)
    if axis == "gpus":
        raise FieldError("SP114", "gpus cannot be forbidden as a whole.", "Write e.g. gpus=24.")
    return Rule(axis=axis, relation="<=", value=1)
