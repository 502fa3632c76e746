"""JSON Schemas of what goes in and what comes out."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode

from ..job.schema import ProblemSpec
from ..result import Result
from .blocks import Report
from .resolved import PLAN_SCHEMA

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def show_schema(what: str) -> Report:
    """Report the schema of ``problem`` or ``plan``."""
    return Report((), problem_schema() if what == "problem" else plan_schema())


def problem_schema() -> dict[str, Any]:
    """Return the schema of a problem file."""
    schema = _untitled(ProblemSpec, "validation")
    # Just the word is short for what is minimised.
    schema["properties"]["objective"]["anyOf"].append({"enum": ["time", "cost"]})
    # True takes every default of the section.
    schema["properties"]["reliability"]["anyOf"].append({"type": "boolean"})
    return {"$schema": _DRAFT, "title": "shardplan problem", **schema}


def plan_schema() -> dict[str, Any]:
    """Return the schema of the plan JSON that ``solve`` writes."""
    schema = {"$schema": _DRAFT, "title": PLAN_SCHEMA, **_untitled(Result, "serialization")}
    added: dict[str, Any] = {
        "schema": {"const": PLAN_SCHEMA},
        "tool_version": {"type": "string"},
        "problem_sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "problem": {"type": "object", "description": "The problem file, nothing left out."},
        "assumptions": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in ("field", "value", "source")},
                "required": ["field", "value", "source"],
                "additionalProperties": False,
            },
        },
    }
    schema["properties"] = {**schema["properties"], **added}
    # Results are written whole: what has a default is there too.
    for part in (schema, *schema["$defs"].values()):
        if "properties" in part:
            part["required"] = sorted(part["properties"])
    return schema


def _untitled(model: type[BaseModel], mode: JsonSchemaMode) -> dict[str, Any]:
    schema = model.model_json_schema(mode=mode)
    schema.pop("title", None)
    return schema
