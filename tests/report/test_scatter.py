from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.report.scatter import HEIGHT, scatter

POSITIVE = st.floats(1e-6, 1e12)


def test_corners() -> None:
    lines = scatter([(1, 100), (10, 1)], "GPUs", "s").splitlines()
    assert lines[1].endswith("│1")
    assert lines[HEIGHT].rstrip().endswith("2")


def test_a_crowd() -> None:
    assert "*" in scatter([(1, 1), (1, 1)], "x", "y")


def test_nothing() -> None:
    assert scatter([], "x", "y") == ""


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=60))
def test_any_points(points: list[tuple[float, float]]) -> None:
    text = scatter(points, "x", "y")
    assert len(text.splitlines()) == HEIGHT + 4


@pytest.mark.parametrize("value", [0.0])
def test_zero_does_not_break_the_axis(value: float) -> None:
    assert scatter([(value, 1.0), (2.0, 3.0)], "x", "y")
