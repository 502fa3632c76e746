"""Where the reference figures lie, when they are there."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("SHARDPLAN_SHARED", Path(__file__).parents[3] / "shared"))


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a reference table; skip the test where it is absent."""
    path = ROOT / name
    if not path.is_file():
        pytest.skip(f"no reference figures ({name})")
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
