"""What the plans of a sweep have least of: it can differ from point to point."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from topology.errors import InputError
from topology.source import load_yaml

from ..job.objective_field import ObjectiveSpec, objective_section
from ..report.header import objective_text
from .points import SCENARIO, SweepSpec, tree

SECTION = "objective"


def aims_of(spec: SweepSpec) -> tuple[ObjectiveSpec, ...]:
    """Return the objectives of a sweep's points, each once, in order; not those of bad points."""
    data = load_yaml(spec.text, spec.path).data
    base = data.get(SECTION) if isinstance(data, dict) else None
    moving = [axis for axis in spec.axes if axis.field.partition(".")[0] == SECTION]
    ways = max(len(spec.scenarios), 1) * math.prod(len(axis.values) for axis in moving)
    seen: dict[str, ObjectiveSpec | None] = {}
    for labels, fields in spec.combinations():
        key = str([labels.get(SCENARIO), *(labels[axis.field] for axis in moving)])
        if key not in seen:
            seen[key] = _objective(base, fields)
        if len(seen) == ways:  # the other points differ in other fields only
            break
    return tuple({_words(one): one for one in seen.values() if one is not None}.values())


def fastest(spec: SweepSpec) -> bool:
    """Whether every point's best plan is its fastest one."""
    aims = aims_of(spec)
    return bool(aims) and all(aim.minimise == "time" for aim in aims)


def aims_text(spec: SweepSpec) -> str:
    """Name the objectives for people."""
    return " or ".join(map(_words, aims_of(spec)))


def _words(one: ObjectiveSpec) -> str:
    return objective_text(one.minimise, one.then)


def _objective(base: Any, fields: Mapping[str, Any]) -> ObjectiveSpec | None:
    given = tree({k: v for k, v in fields.items() if k.partition(".")[0] == SECTION}).get(SECTION)
    try:
        return ObjectiveSpec.model_validate(objective_section({**_named(base), **_named(given)}))
    except (InputError, ValidationError, ValueError):  # the point itself says what is wrong
        return None


def _named(section: Any) -> dict[str, Any]:
    """Return a section as names and values: one that is a value says what to minimise."""
    if section is None or isinstance(section, dict):
        return section or {}
    return {"minimise": section}
