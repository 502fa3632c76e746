from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import (
    bus_bandwidth,
    collective_seconds,
    find_gpu,
    gpus,
    hierarchical_all_reduce_seconds,
    ring_bytes_per_s,
)
from topology.collectives import (
    HIERARCHICAL_OVERLAP,
    KINDS,
    NETWORK_PAYLOAD,
    bus_factor,
)
from topology.curves import curve_source, network_curves

from .shared import rows

SIZES = st.floats(1, 1e12)
RANKS = st.integers(2, 4096)


def test_curves_follow_every_measured_point() -> None:
    errors = defaultdict(list)
    for row in rows("kernels/nccl_intranode_half.csv"):
        kind = row["op_name"].replace("alltoall", "all_to_all")
        size, ranks = float(row["message_bytes"]), int(row["num_gpus"])
        measured = bus_factor(kind, ranks) * size / (float(row["median_ms"]) / 1e3)
        predicted = bus_bandwidth(row["gpu"], kind, size, ranks)
        errors[row["gpu"]].append(abs(float(predicted / measured) - 1))
    assert len(errors) == 5
    for gpu, found in errors.items():
        assert np.median(found) < 0.03, gpu
        assert np.quantile(found, 0.95) < 0.15, gpu


def test_key_points() -> None:
    rate = bus_bandwidth("h100", "all_reduce", 512 * 2**20, 8)
    assert float(rate) == pytest.approx(427e9, rel=0.01)
    assert float(bus_bandwidth("h100", "all_gather", 512 * 2**20, 8)) == pytest.approx(
        333e9, rel=0.02
    )
    assert float(bus_bandwidth("gb200", "all_reduce", 2**33, 72)) == pytest.approx(835e9, rel=0.01)


def test_shapes_broadcast_and_one_rank_moves_nothing() -> None:
    rate = bus_bandwidth("h100", "all_gather", [[1e6], [1e9]], [1, 2, 8])
    assert rate.shape == (2, 3)
    assert np.isinf(rate[:, 0]).all()
    assert np.isfinite(rate[:, 1:]).all()


@pytest.mark.parametrize("kind", KINDS)
@given(size=SIZES, ranks=RANKS)
def test_bandwidth_stays_below_the_link_and_time_never_falls_below_start_up(
    kind: str, size: float, ranks: int
) -> None:
    for gpu in ("h100-80gb-sxm", "a100-40gb-sxm", "mi300x-192gb"):
        rate = float(bus_bandwidth(gpu, kind, size, ranks))
        assert 0 < rate <= find_gpu(gpu).nvlink_bytes_per_s
        smaller = float(bus_bandwidth(gpu, kind, size / 2, ranks))
        # Halving a message never makes it slower.
        assert size / 2 / smaller <= size / rate * 1.05


def test_below_the_smallest_point_time_is_constant() -> None:
    rates = bus_bandwidth("h100", "all_reduce", [1024, 2048, 4096], 8)
    assert rates[1] / rates[0] == pytest.approx(2)
    assert rates[2] / rates[0] == pytest.approx(4)


def test_gpus_without_curves() -> None:
    ratio = bus_bandwidth("h100-pcie", "all_gather", 1e9, 2) / bus_bandwidth(
        "h100", "all_gather", 1e9, 2
    )
    assert float(ratio) == pytest.approx(300 / 450)
    assert curve_source("l40s") == ""
    with pytest.raises(ValueError, match="no collective was measured on l40s"):
        bus_bandwidth("l40s", "all_reduce", 1e6, 4)
    with pytest.raises(ValueError, match="choose one of"):
        bus_bandwidth("h100", "gossip", 1e6, 4)
    assert {gpu for gpu in gpus() if not curve_source(gpu)} == {"l40s-48gb"}


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        ("all_reduce", 14e-6 + 2 * 7 / 8 * 1e9 / 400e9),
        ("all_gather", 7e-6 + 7 / 8 * 1e9 / 400e9),
        ("reduce_scatter", 7e-6 + 7 / 8 * 1e9 / 400e9),
        ("all_to_all", 7e-6 + 7 / 8 * 1e9 / 400e9),
        ("send", 1e-6 + 1e9 / 400e9),
    ],
)
def test_ring_closed_forms(kind: str, seconds: float) -> None:
    assert float(collective_seconds(kind, 1e9, 8, 400e9, 1e-6)) == pytest.approx(seconds)
    assert float(collective_seconds(kind, 1e9, 1, 400e9, 1e-6)) == 0


@given(SIZES, RANKS, st.floats(1e6, 1e13), st.floats(0, 1e-3))
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(
    size: float, ranks: int, rate: float, latency: float
) -> None:
    whole = collective_seconds("all_reduce", size, ranks, rate, latency)
    parts = collective_seconds("reduce_scatter", size, ranks, rate, latency)
    parts = parts + collective_seconds("all_gather", size, ranks, rate, latency)
    assert float(whole) == pytest.approx(float(parts))


def test_hierarchical_all_reduce_brackets_the_measurement() -> None:
    # 4 x 8 B200, 4 GiB, 50 GB/s per network share: 22.05 ms measured, 740 GB/s inside. The default
    # overlap is of other fabrics.
    serial, full, default = (
        float(hierarchical_all_reduce_seconds(2**32, 8, 4, 740e9, 50e9, overlap=o))
        for o in (0.0, 1.0, HIERARCHICAL_OVERLAP)
    )
    assert serial == pytest.approx(26.25e-3, rel=0.002)
    assert full == pytest.approx(16.1e-3, rel=0.002)
    assert full < default < 22.05e-3 < serial
    payload = 50e9 * NETWORK_PAYLOAD
    close = float(hierarchical_all_reduce_seconds(2**32, 8, 4, 740e9, payload))
    assert close == pytest.approx(22.05e-3, rel=0.2)
    assert float(hierarchical_all_reduce_seconds(1e9, 8, 1, 400e9, 50e9)) == pytest.approx(
        float(collective_seconds("all_reduce", 1e9, 8, 400e9))
    )


def test_rings_over_nodes_reach_what_was_measured() -> None:
    checked = 0
    for curve in network_curves():
        # Two nodes let an all-reduce beat the ring, and 1,440 GPUs lose to start-up.
        if (curve.collective, curve.nodes) in {("all_gather", 2), ("all_reduce", 12)}:
            bound = float(ring_bytes_per_s(8, 450e9, curve.inter_bytes_per_s))
            assert 0.9 * bound < curve.bus_bytes_per_s[-1] <= bound
            checked += 1
    assert checked == 2
    assert float(ring_bytes_per_s(8, 300e9, 50e9)) == 300e9
