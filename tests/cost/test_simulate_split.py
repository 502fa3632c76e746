"""ZB-H1, event by event, against its closed forms: bubble, step, micro-batches in flight."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.cost.schedule import (
    chunks_in_flight,
    pipeline_grains,
    spared_seconds,
    split_in_flight,
    step_ticks,
)
from solver.cost.simulate import Timeline, simulate
from solver.cost.simulate_split import simulate_split, split_order
from solver.cost.ticks import TICK_S

RATIOS = ((1, 1, 1), (1, 1.3, 0.8), (1, 2, 0.9), (1, 3.2, 1), (1, 1, 1.4), (1, 2, 1.6), (2, 1, 1.5))
"""F : B : W as products, attention, recomputation and short products make them, and others."""

fewer = settings(max_examples=settings().max_examples // 3)
"""Each example is a whole step."""


def closed_form(passes: list[tuple[float, float, float]], microbatches: int) -> float:
    """Step of stages with these (F, B, W), through the search's integers, in seconds."""
    times = np.array(passes)
    pp, count = np.array([len(passes)]), np.ones((1, len(passes)), np.int64)
    spared = spared_seconds(pp, np.array([microbatches]), times[:, 2], times.min(axis=1))
    pace, share = pipeline_grains(
        times.sum(axis=1)[None], count, np.array([[1]]), np.array([[microbatches]]), spared[None]
    )
    return float(step_ticks(pace, share, np.zeros_like(pace))[0]) * TICK_S


def run(passes: list[tuple[float, float, float]], microbatches: int) -> Timeline:
    forward, inputs, weights = zip(*passes, strict=True)
    return simulate_split(forward, inputs, weights, microbatches)


def holds(ratio: tuple[float, float, float], pp: int, microbatches: int) -> None:
    each = (ratio[0] / 10, ratio[1] / 10, ratio[2] / 10)
    stepped = run([each] * pp, microbatches).makespan_s
    assert stepped == pytest.approx(closed_form([each] * pp, microbatches), abs=2e-6)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("pp", [2, 3, 4, 8, 16])
def test_uniform_stages_take_exactly_the_closed_form(
    ratio: tuple[float, float, float], pp: int
) -> None:
    for microbatches in (1, 2, pp - 1, pp, pp + 1, 33):
        holds(ratio, pp, microbatches)


@pytest.mark.nightly
@pytest.mark.parametrize("pp", range(2, 17))
def test_uniform_stages_do_for_every_count(pp: int) -> None:
    for ratio in RATIOS:
        for microbatches in range(1, 65):
            holds(ratio, pp, microbatches)


@pytest.mark.parametrize("ratio", [r for r in RATIOS if r[2] <= min(r[:2])])
@pytest.mark.parametrize("pp", [2, 4, 8])
def test_the_bubble_of_the_paper(ratio: tuple[float, float, float], pp: int) -> None:
    """(p - 1)(T_F + T_B - T_W) idle on every stage: table 2, with p micro-batches or more."""
    forward, inputs, weights = ratio
    for microbatches in (pp, pp + 3, 40):
        timeline = run([ratio] * pp, microbatches)
        for stage in range(pp):
            idle = timeline.makespan_s - timeline.busy_s(stage)
            assert idle == pytest.approx((pp - 1) * (forward + inputs - weights))


def test_a_third_of_the_bubble_of_1f1b_where_all_take_the_same() -> None:
    split = run([(1, 1, 1)] * 4, 8).makespan_s - 8 * 3
    plain = simulate([1.0] * 4, [2.0] * 4, 1, 8).makespan_s - 8 * 3
    assert split == pytest.approx(plain / 3)


@fewer
@given(
    st.lists(st.floats(0.25, 1.0), min_size=2, max_size=8),
    st.floats(1.0, 3.5),
    st.floats(0.3, 1.5),
    st.integers(1, 40),
)
def test_uneven_stages_take_no_longer_than_the_closed_form(
    forward: list[float], inputs: float, weights: float, microbatches: int
) -> None:
    """Stages within a factor of 4 that part their time alike."""
    passes = [(f, inputs * f, weights * f) for f in forward]
    assert run(passes, microbatches).makespan_s <= closed_form(passes, microbatches) + 1e-9


@fewer
@given(
    st.integers(2, 16), st.integers(1, 8), st.floats(0.0, 2.0), st.floats(1.0, 2.2),
    st.floats(0.5, 1.0), st.integers(1, 64),
)  # fmt: skip
def test_a_head_on_top_of_the_last_stage(
    pp: int, layers: int, head: float, inputs: float, weights: float, microbatches: int
) -> None:
    """Its product parts its time in three equal parts, other than the layers do."""
    layer = (layers * 1.0, layers * inputs, layers * weights)
    last = (layer[0] + head, layer[1] + head, layer[2] + head)
    passes = [layer] * (pp - 1) + [last]
    assert run(passes, microbatches).makespan_s <= closed_form(passes, microbatches) + 1e-9


@pytest.mark.parametrize(("keeps", "owes"), [(34, 32), (34, 2), (2, 32)])
@pytest.mark.parametrize("pp", [2, 3, 4, 8])
def test_what_a_stage_holds(keeps: int, owes: int, pp: int) -> None:
    """Bytes kept for input gradients and for weight gradients, each of any size."""
    for microbatches in (*range(1, pp + 2), 20):
        timeline = run([(1, 1, 1)] * pp, microbatches)
        for stage in range(pp):
            held = most = 0
            for event in timeline.events:
                if event.stage == stage:
                    piece = event.piece
                    held += -owes if piece.weight else owes - keeps if piece.backward else keeps
                    most = max(most, held)
            law = split_in_flight(np.array([pp]), np.array([microbatches]), np.array([stage]))
            assert most == max(int(w[0]) * keeps + int(o[0]) * owes for w, o in law)
            assert timeline.in_flight(stage) == min(microbatches, pp)


def test_no_more_waits_for_its_input_gradient_than_in_1f1b() -> None:
    one = np.array([1])
    for pp, microbatches, stage in ((4, 9, 0), (4, 9, 3), (8, 3, 2)):
        (waiting, _), _ = split_in_flight(pp * one, microbatches * one, stage * one)
        law = chunks_in_flight(pp * one, one, microbatches * one, stage * one, "zb-h1")
        assert waiting == law


def test_every_piece_runs_once_and_in_order() -> None:
    for stage in range(4):
        pieces = split_order(stage, 4, 6)
        assert len(set(pieces)) == len(pieces) == 3 * 6
        for microbatch in range(6):
            mine = [p for p in pieces if p.microbatch == microbatch]
            assert [(p.backward, p.weight) for p in mine] == [
                (False, False), (True, False), (True, True),
            ]  # fmt: skip


def test_one_stage_splits_nothing() -> None:
    assert run([(1, 2, 1)], 5).makespan_s == pytest.approx(closed_form([(1, 2, 1)], 5), abs=2e-6)
