"""The event simulation against the closed forms: bubble, step, micro-batches in flight."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.cost.bubble import bubble_fraction
from solver.cost.schedule import chunks_in_flight, pipeline_grains, step_ticks
from solver.cost.simulate import simulate
from solver.cost.ticks import TICK_S


def closed_form(stage_s: list[float], vpp: int, microbatches: int) -> float:
    """Step of stages with these times, through the search's integers, in seconds."""
    times = np.array([stage_s])
    one = np.ones(times.shape, np.int64)
    pace, share = pipeline_grains(times, one, np.array([[vpp]]), np.array([[microbatches]]))
    return float(step_ticks(pace, share, np.zeros_like(pace))[0]) * TICK_S


@pytest.mark.parametrize("pp", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize("microbatches", [1, 2, 5, 16, 64])
def test_uniform_1f1b_is_exact(pp: int, microbatches: int) -> None:
    timeline = simulate([0.1] * pp, [0.2] * pp, 1, microbatches)
    assert timeline.makespan_s == pytest.approx(closed_form([0.3] * pp, 1, microbatches), abs=2e-6)
    idle = 1 - timeline.busy_s(0) / timeline.makespan_s
    bubble = bubble_fraction(np.array([pp]), np.array([1]), np.array([microbatches]))[0]
    assert idle == pytest.approx(bubble)


@pytest.mark.parametrize("pp", [2, 3, 4, 8])
@pytest.mark.parametrize("vpp", [2, 3, 4])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_uniform_interleaving_is_exact(pp: int, vpp: int, groups: int) -> None:
    microbatches = pp * groups
    timeline = simulate([0.1] * pp, [0.2] * pp, vpp, microbatches)
    assert timeline.makespan_s == pytest.approx(
        closed_form([0.3] * pp, vpp, microbatches), abs=2e-6
    )
    idle = 1 - timeline.busy_s(0) / timeline.makespan_s
    bubble = bubble_fraction(np.array([pp]), np.array([vpp]), np.array([microbatches]))[0]
    assert idle == pytest.approx(bubble)


def test_the_bubble_of_the_design_example() -> None:
    """p = 4, m = 16: makespan 57 against 48 ideal, idle 0.15789 = 3/19."""
    timeline = simulate([1.0] * 4, [2.0] * 4, 1, 16)
    assert timeline.makespan_s == pytest.approx(57.0)
    assert pytest.approx(3 / 19) == 1 - 48 / 57


@given(
    st.lists(st.tuples(st.floats(0.25, 1.0), st.floats(1.5, 3.5)), min_size=1, max_size=8),
    st.integers(1, 40),
)
def test_uneven_1f1b_of_real_passes_takes_no_longer_than_the_closed_form(
    stages: list[tuple[float, float]], microbatches: int
) -> None:
    """Stages within a factor of 4, backward 1.5 to 3.5 times forward: 2, or 3 with recomputation.

    Outside of that it can: with forward 10, 1, 0.1, 1, 1, 0.1 and backward 1, 10, 0.01, 0.1, 0.1,
    0.1 and 5 micro-batches by half.
    """
    forward = [f for f, _ in stages]
    backward = [f * ratio for f, ratio in stages]
    simulated = simulate(forward, backward, 1, microbatches).makespan_s
    closed = closed_form([f + b for f, b in stages], 1, microbatches)
    assert simulated <= closed + 1e-9


@pytest.mark.parametrize(
    ("pp", "vpp", "microbatches"),
    [(4, 1, 16), (4, 1, 2), (8, 1, 8), (4, 2, 8), (4, 4, 16), (3, 2, 3)],
)
def test_activations_in_flight(pp: int, vpp: int, microbatches: int) -> None:
    timeline = simulate([1.0] * pp, [2.0] * pp, vpp, microbatches)
    for stage in range(pp):
        law = chunks_in_flight(
            np.array([pp]), np.array([vpp]), np.array([microbatches]), np.array([stage])
        )[0]
        assert timeline.in_flight(stage) == law


def test_nothing_overlaps_and_backward_follows_forward() -> None:
    timeline = simulate([1.0, 2.0, 1.5], [2.0, 3.0, 2.5], 2, 6)
    ends: dict[int, float] = {}
    forwards: dict[tuple[int, int, int], float] = {}
    for event in timeline.events:
        assert event.start_s >= ends.get(event.stage, 0.0)
        ends[event.stage] = event.end_s
        key = (event.stage, event.piece.chunk, event.piece.microbatch)
        if event.piece.backward:
            assert event.start_s >= forwards[key]
        else:
            forwards[key] = event.end_s
    assert len(timeline.events) == 3 * 2 * 6 * 2


def test_interleaving_needs_whole_groups() -> None:
    with pytest.raises(ValueError, match="not a multiple"):
        simulate([1.0] * 4, [1.0] * 4, 2, 6)
