"""The bound of a pipeline whose stages choose for themselves, against every combination."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.cost.stage_options import StageOptions
from solver.cost.ticks import GRAINS
from solver.search import fill
from solver.search.fill import narrowed
from solver.search.instance import LONGEST_STEP

Row = tuple[int, int, int, int, int]
"""Layers, kind, and pace, share and tail in thousands of grains."""

ROWS = st.lists(
    st.tuples(
        st.integers(1, 4), st.integers(0, 1), st.integers(0, 60), st.integers(0, 40),
        st.integers(0, 30),
    ),
    min_size=1, max_size=5,
)  # fmt: skip
PIPELINES = st.lists(ROWS, min_size=1, max_size=4)


def stage(rows: list[Row]) -> StageOptions:
    columns = np.array(rows, np.int64).T
    layers, kind, pace, share, tail = columns
    nothing = np.zeros_like(layers)
    source: Any = None
    return StageOptions(
        layers, nothing, kind, pace * 1000, share * 1000, tail * 1000, nothing, nothing, nothing,
        nothing, source, 0, 0,
    )  # fmt: skip


def every_step(pipeline: list[list[Row]], layers: int) -> dict[tuple[int, ...], int]:
    """Return the ticks of every legal combination of alternatives."""
    found = {}
    for choice in itertools.product(*(range(len(rows)) for rows in pipeline)):
        taken = [rows[c] for rows, c in zip(pipeline, choice, strict=True)]
        if sum(row[0] for row in taken) != layers or len({row[1] for row in taken}) > 1:
            continue
        grains = max(row[2] for row in taken) + sum(row[3] for row in taken)
        grains = 1000 * (grains + max(row[4] for row in taken))
        found[choice] = -(-grains // GRAINS)
    return found


@given(PIPELINES, st.integers(1, 12), st.integers(0, 20))
def test_the_bound_is_the_least_step_of_all_combinations(
    pipeline: list[list[Row]], layers: int, at_most: int
) -> None:
    steps = every_step(pipeline, layers)
    found = narrowed([stage(rows) for rows in pipeline], layers, max(at_most, *steps.values(), 0))
    assert found.bound == min(steps.values(), default=LONGEST_STEP + 1)


@given(PIPELINES, st.integers(1, 12), st.integers(0, 20), st.sampled_from([(1, 2), (8, 32)]))
def test_no_alternative_of_a_good_enough_plan_is_left_out(
    pipeline: list[list[Row]], layers: int, at_most: int, levels: tuple[int, int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fill, "LEVELS", levels)
        found = narrowed([stage(rows) for rows in pipeline], layers, at_most)
    steps = every_step(pipeline, layers)
    assert found.bound <= min(steps.values(), default=LONGEST_STEP + 1)
    for choice, step in steps.items():
        if step <= at_most:
            assert all(able[c] for able, c in zip(found.able, choice, strict=True)), choice


def test_deep_models_are_bounded_in_a_small_table() -> None:
    rows = [(n, 0, 7 * n, n, 3) for n in range(1, 40)]
    found = narrowed([stage(rows)] * 40, 1000, 10**6)
    assert found.bound == -(-1000 * (7 * 25 + 1000 + 3) // GRAINS)
