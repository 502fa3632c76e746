"""Input errors as text and as JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from topology.errors import InputError

from .render import to_json


def errors_json(error: InputError) -> str:
    """Write ``{"errors": [...]}``."""
    found: list[dict[str, Any]] = [dataclasses.asdict(problem) for problem in error.problems]
    return to_json({"errors": found})
