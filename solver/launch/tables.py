"""The frameworks' own names, read from data files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from topology.packaged import packaged


@cache
def table(name: str) -> Mapping[str, Any]:
    """Return the data file of a framework."""
    text = resources.files(__package__).joinpath("data", f"{name}.yaml").read_text("utf-8")
    data: dict[str, Any] = packaged(text)
    return data
