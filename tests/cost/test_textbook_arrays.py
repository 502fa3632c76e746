"""Arrays and scalars take the same path; large counts do not wrap; the forms agree at the edges."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.cost import textbook

DEGREES = st.integers(1, 1024)
STAGES = st.integers(0, 3)


@given(st.lists(st.tuples(DEGREES, STAGES, DEGREES), min_size=1, max_size=20))
def test_state_of_an_array_is_the_state_of_its_entries(rows: list[tuple[int, int, int]]) -> None:
    psi, zero, shard = (np.array(column) for column in zip(*rows, strict=True))
    together = textbook.state_bytes(psi, zero, shard)
    alone = [float(textbook.state_bytes(*row)) for row in rows]
    assert together.tolist() == alone


@given(psi=st.integers(1, 10**13), shard=DEGREES)
def test_each_zero_stage_needs_no_more_than_the_one_before(psi: int, shard: int) -> None:
    need = [float(textbook.state_bytes(psi, zero, shard)) for zero in range(4)]
    for more, less in itertools.pairwise(need):
        assert less <= more * (1 + 1e-12)
    if shard == 1:
        assert need == pytest.approx([16.0 * psi] * 4)


@pytest.mark.parametrize("zero", [-1, 4, [0, 5]])
def test_an_unknown_zero_stage_is_refused(zero: int | list[int]) -> None:
    with pytest.raises(ValueError, match="0, 1, 2 or 3"):
        textbook.state_bytes(1e9, zero, 8)


def test_int64_arrays_do_not_wrap() -> None:
    parameters, tokens = np.array([405_000_000_000]), np.array([15_000_000_000_000])
    assert textbook.flops(parameters, tokens).tolist() == [6.0 * 405e9 * 15e12]


@given(tp=st.integers(1, 64), full=st.booleans(), sp=st.booleans())
def test_activations_broadcast(tp: int, full: bool, sp: bool) -> None:
    widths = np.array([1, tp])
    both = textbook.activation_bytes(4096, 1, 8192, 80, widths, sp, full)
    alone = [float(textbook.activation_bytes(4096, 1, 8192, 80, t, sp, full)) for t in (1, tp)]
    assert both.tolist() == alone
    assert both[1] <= both[0]


def test_one_gpu_sends_nothing() -> None:
    assert float(textbook.fsdp_traffic_bytes(70e9, 1)) == 0.0
    assert float(textbook.gradient_traffic_bytes(70e9, 1)) == 0.0
    assert float(textbook.tp_traffic_bytes(4096, 8192, 80, 1)) == 0.0
    assert float(textbook.pp_traffic_bytes(4096, 1, 8192, 16, 1)) == 0.0


def test_pipeline_traffic_is_an_activation_each_way_shared_by_the_tp_ranks() -> None:
    one = 4096 * 8192 * 2
    assert float(textbook.pp_traffic_bytes(4096, 1, 8192, 16, 2)) == 2 * 16 * one
    assert float(textbook.pp_traffic_bytes(4096, 1, 8192, 16, 2, tp=4)) == 2 * 16 * one / 4


def test_hsdp_adds_the_replicas_gradients_to_the_shard_groups_traffic() -> None:
    whole = textbook.data_traffic_bytes(70e9, 3, 16, 4)
    assert float(whole) == pytest.approx(3 * 15 / 16 * 140e9 + 2 * 3 / 4 * 140e9 / 16)
    assert float(textbook.data_traffic_bytes(70e9, 3, 64)) == float(
        textbook.fsdp_traffic_bytes(70e9, 64)
    )
    assert float(textbook.data_traffic_bytes(70e9, 1, 64)) == float(
        textbook.gradient_traffic_bytes(70e9, 64)
    )


def test_group_bandwidth_leaves_the_domain_above_its_size() -> None:
    rates = textbook.group_bytes_per_s(np.array([1, 8, 9, 64]), 8, 450e9, 50e9)
    assert rates.tolist() == [450e9, 450e9, 50e9, 50e9]


def test_step_grows_with_the_bubble_and_what_nothing_hides() -> None:
    assert float(textbook.step_seconds(10.0, 0.0)) == 10.0
    assert float(textbook.step_seconds(10.0, 0.2, 1.0)) == 13.5


def test_realised_mfu_is_the_assumed_one_without_bubble_or_exposed_communication() -> None:
    seconds = textbook.compute_seconds(1e18, 64, 989e12, 0.40)
    assert float(textbook.realised_mfu(1e18, seconds, 64, 989e12)) == pytest.approx(0.40)
