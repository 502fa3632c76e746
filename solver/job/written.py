"""What a field of a problem file holds as written, for its reader and for the JSON Schema."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from topology.faults import checked
from topology.units import parse_percent

from .fields import parse_degrees, positive
from .search import MAX_GPUS

NUMBER, TEXT, NOTHING = {"type": "number"}, {"type": "string"}, {"type": "null"}
WHOLES = {"type": "array", "items": {"type": "integer"}, "minItems": 1}
WRITTEN = WithJsonSchema({"anyOf": [NUMBER, TEXT]})
"""What a file holds where a unit may stand: ``0.15`` or ``15%``; the reader checks the rest."""
WRITTEN_OR_NOT = WithJsonSchema({"anyOf": [NUMBER, TEXT, NOTHING]})
WRITTEN_DEGREES = WithJsonSchema({"anyOf": [{"type": "integer"}, WHOLES, TEXT, NOTHING]})
RULES = WithJsonSchema(
    {"anyOf": [TEXT, {"type": "array", "items": TEXT}, {"type": "object"}, NOTHING]}
)
"""``tp=8``, a list of such, or a mapping of axis to value or values."""
SEVERAL = WithJsonSchema({"anyOf": [TEXT, {"type": "array", "items": TEXT}, NOTHING]})
OFFLOAD_OR_NOT = WithJsonSchema(
    {"anyOf": [TEXT, {"type": "boolean"}, {"type": "array", "items": TEXT}, NOTHING]}
)
MODULES = WithJsonSchema(
    {"anyOf": [TEXT, {"type": "array", "items": {"type": ["string", "array"]}}, NOTHING]}
)
FLAG_OR_AXES = WithJsonSchema(
    {"anyOf": [{"type": "boolean"}, TEXT, {"type": "array", "items": TEXT}, NOTHING]}
)

Share = Annotated[float, BeforeValidator(checked(parse_percent, "SP109")), WRITTEN]
MOST_COMM = 10.0
"""Communication may take longer than compute: up to 1000 % of it."""
CommShare = Annotated[
    float, BeforeValidator(checked(partial(parse_percent, most=MOST_COMM), "SP109")), WRITTEN
]
Degrees = Annotated[
    tuple[int, ...] | None, BeforeValidator(checked(parse_degrees)), WRITTEN_DEGREES
]


def _positive_degrees(value: Any) -> tuple[int, ...]:
    return positive(parse_degrees(value))


PositiveDegrees = Annotated[
    tuple[int, ...] | None, BeforeValidator(checked(_positive_degrees)), WRITTEN_DEGREES
]
GpuCount = Annotated[int | None, Field(ge=1, le=MAX_GPUS, examples=[64])]
