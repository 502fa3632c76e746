"""Times of collectives from measured groups that are like the one asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import collectives as benchmark
from benchmarks._collectives import read_sets
from topology import ClusterSpec, levels
from topology.collectives import KINDS, NETWORK_PAYLOAD, SEND
from topology.curves import collective_time, measured_groups
from topology.group_times import Measured, Spread, group_time, ideal_seconds

from .shared import ROOT, rows

NODE = Spread(8, 1, 400e9, 0.0)
NODES = Spread(32, 4, 400e9, 50e9)
CURVE = Measured("all_gather", NODE, "here", (1e6, 1e7, 1e8), (20e-6, 60e-6, 400e-6))


def test_measured_points_come_back() -> None:
    for curve in measured_groups():
        found = group_time(curve.kind, curve.message_bytes, curve.spread, [curve])
        assert found.seconds == pytest.approx(curve.seconds)
        assert not found.extrapolated.any()
        assert found.families == (curve.family,)


def test_between_points_times_are_straight_in_logarithms() -> None:
    found = group_time("all_gather", 10**6.5, NODE, [CURVE])
    assert found.seconds[0] == pytest.approx((20e-6 * 60e-6) ** 0.5)


def test_outside_of_the_points_start_up_and_bandwidth_stay_and_it_is_said() -> None:
    found = group_time("all_gather", [1e3, 1e6, 1e8, 1e9], NODE, [CURVE])
    start = 20e-6 - 7 / 8 * 1e6 / 400e9
    assert found.seconds[0] == pytest.approx(start + 7 / 8 * 1e3 / 400e9)
    assert found.seconds[3] == pytest.approx(10 * 400e-6)
    assert found.extrapolated.tolist() == [True, False, False, True]


def test_a_faster_link_shortens_what_the_link_takes() -> None:
    fast = replace(NODE, inner_bytes_per_s=800e9)
    # As much ideal time, as much time: twice the bytes on twice the link.
    found = group_time("all_gather", [2e6, 2e8], fast, [CURVE])
    assert found.seconds == pytest.approx([20e-6, 400e-6])


def test_between_rank_counts_times_are_between_theirs() -> None:
    wide = replace(CURVE, spread=replace(NODE, ranks=16), seconds=(40e-6, 90e-6, 500e-6))
    four = replace(CURVE, spread=replace(NODE, ranks=4), seconds=(10e-6, 50e-6, 390e-6))
    found = [
        float(group_time("all_gather", 1e7, replace(NODE, ranks=n), [four, wide]).seconds[0])
        for n in (4, 6, 8, 12, 16)
    ]
    assert found == sorted(found)
    outside = group_time("all_gather", 1e7, replace(NODE, ranks=64), [four, wide])
    assert outside.extrapolated.all()


def test_the_same_transport_and_the_nearest_group_are_preferred() -> None:
    def network(ranks: int, transport: str, seconds: float) -> Measured:
        spread = Spread(ranks, ranks // 8, 400e9, 50e9, transport)
        return Measured("all_reduce", spread, f"{ranks} {transport}", (1.0, 1e9), (seconds, 1.0))

    known = [network(16, "efa", 9e-5), network(16, "rdma", 4e-5), network(96, "rdma", 8e-5)]
    near = group_time("all_reduce", 1e6, Spread(16, 2, 400e9, 50e9, "rdma"), known)
    assert near.families == ("16 rdma",)
    assert group_time("all_reduce", 1e6, replace(NODES, transport="efa"), known).families == (
        "16 efa",
    )
    unknown = group_time("all_reduce", 1e6, replace(NODES, ranks=16, transport="tcp"), known)
    assert unknown.families == ("16 efa", "16 rdma")


def test_reduce_scatter_stands_in_for_all_gather_but_no_other_kind_does() -> None:
    assert group_time("reduce_scatter", 1e7, NODE, [CURVE]).seconds[0] == pytest.approx(60e-6)
    closed = group_time("all_to_all", 1e7, NODE, [CURVE])
    assert closed.families == ()
    assert closed.extrapolated.all()
    assert closed.seconds[0] == pytest.approx(20e-6 + 7 / 8 * 1e7 / 400e9)


# -- what the links alone take ----------------------------------------


def test_eight_groups_each_on_its_rail_take_what_the_network_part_of_one_takes() -> None:
    # 32 ranks reduce 1 GB: between nodes each of the 8 ranks of a node reduces its eighth.
    rail = Spread(4, 4, 400e9, 50e9)
    across = float(ideal_seconds("all_reduce", 1e9 / 8, rail))
    assert across == pytest.approx(2 * 3 / 4 * 1e9 / 8 / (50e9 * NETWORK_PAYLOAD))
    whole = float(ideal_seconds("all_reduce", 1e9, NODES))
    inside = 2 * 7 / 8 * 1e9 / 400e9
    assert max(across, inside) < whole < across + inside


def test_gpus_that_share_an_adapter_take_twice_as_long() -> None:
    shared = replace(NODES, outer_bytes_per_s=25e9)
    for kind in ("all_gather", "all_to_all"):
        once, twice = (float(ideal_seconds(kind, 1e9, s)) for s in (NODES, shared))
        assert twice == pytest.approx(2 * once), kind


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        ("all_gather", 31 / 32 * 1e9 / (8 * 50e9 * 0.94)),
        ("reduce_scatter", 31 / 32 * 1e9 / (8 * 50e9 * 0.94)),
        ("all_to_all", 24 / 32 * 1e9 / (50e9 * 0.94)),
        (SEND, 1e9 / (50e9 * 0.94)),
    ],
)
def test_network_closed_forms(kind: str, seconds: float) -> None:
    assert float(ideal_seconds(kind, 1e9, NODES)) == pytest.approx(seconds)


# -- clusters ----------------------------------------


@pytest.mark.parametrize("spec", ["8x8xH100", "2x8xL40S", "36x4xGB200", "4x8xMI300X", "2x4xV100"])
@pytest.mark.parametrize("kind", KINDS)
def test_any_cluster_has_a_time_at_each_level(spec: str, kind: str) -> None:
    group = ClusterSpec.model_validate(spec).build().group
    for level in range(len(levels(group))):
        found = collective_time(group, level, kind, [2**10, 2**20, 2**30])
        assert np.isfinite(found.seconds).all()
        # Measured start-ups differ by some percent from size to size.
        assert (np.diff(found.seconds) > -0.1 * found.seconds[:-1]).all()


def test_in_switch_reduction_is_in_the_curves_of_its_gpus() -> None:
    # Eight H100 reduce faster than a ring on their links could: 427 of at most 450 GB/s, against
    # 370 of a ring (NVIDIA/nccl-tests issue 212).
    group = ClusterSpec.model_validate("1x8xH100").build().group
    seconds = collective_time(group, 0, "all_reduce", 2**29).seconds[0]
    assert 2 * 7 / 8 * 2**29 / seconds > 400e9


@given(st.floats(1, 1e12), st.sampled_from(KINDS), st.integers(1, 3000), st.integers(1, 8))
def test_any_group_has_a_positive_time(size: float, kind: str, domains: int, inner: int) -> None:
    spread = Spread(domains * inner, domains, 450e9, 50e9)
    if spread.ranks == 1:
        return
    found = group_time(kind, size, spread, measured_groups())
    assert 0 < found.seconds[0] < np.inf


# -- held-out measurements ----------------------------------------


def errors(holdout: Any) -> np.ndarray[Any, Any]:
    rows("topology/collectives.csv")
    sets, _ = read_sets(ROOT / "topology/collectives.csv")
    enough = [one for one in sets if len(one.curve.seconds) >= benchmark.FEWEST_POINTS]
    return np.abs([error for _, found in holdout(enough) for _, error, _ in found])


def test_held_back_quarters_are_within_five_percent() -> None:
    found = errors(benchmark.quarter)
    assert len(found) > 2000
    assert np.median(found) < 0.05


def test_fabrics_left_out_are_within_twenty_percent() -> None:
    found = errors(benchmark.fabric)
    assert len(found) > 1800
    assert np.median(found) < 0.20


def test_the_hierarchy_of_four_nodes_follows_from_the_overlap_of_others() -> None:
    rows("topology/collectives.csv")
    sets, _ = read_sets(ROOT / "topology/collectives.csv")
    assert abs(benchmark.show_overlap(sets)["example_pct"]) < 20
