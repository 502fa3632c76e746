from __future__ import annotations

import itertools
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import (
    ClusterSpec,
    NodeGroup,
    find_gpu,
    levels,
    members_per_domain,
    spanned_level,
)
from topology.graph import (
    GPU,
    KINDS,
    build_graph,
    cut_bytes_per_s,
    pair_bytes_per_s,
    unit_graph,
    within,
)


def group_of(spec: object) -> NodeGroup:
    return ClusterSpec.model_validate(spec).build().group


CASES = [
    ("8x8xH100", [("nvlink", 8, 450e9), ("leaf", 64, 50e9)]),
    (
        {"gpu": "h100", "nodes": 128, "leaf_nodes": 32, "oversubscription": 2},
        [("nvlink", 8, 450e9), ("leaf", 256, 50e9), ("spine", 1024, 25e9)],
    ),
    (
        {"gpu": "h100", "nodes": 4, "oversubscription": 2},
        [("nvlink", 8, 450e9), ("spine", 32, 25e9)],
    ),
    ("18x4xgb200", [("nvlink", 72, 900e9)]),
    ("128x4xgb200", [("nvlink", 64, 900e9), ("leaf", 512, 50e9)]),
    ("19x4xgb200", [("nvlink", 72, 900e9), ("leaf", 76, 50e9)]),
    (
        {"gpu": "gb300", "nodes": 72, "leaf_nodes": 36, "oversubscription": 4},
        [("nvlink", 72, 900e9), ("leaf", 144, 100e9), ("spine", 288, 25e9)],
    ),
    ("2x4xl40s", [("pcie", 4, 31e9), ("leaf", 8, 25e9)]),
    ("2x4xa100-pcie", [("nvlink", 2, 300e9), ("pcie", 4, 31e9), ("leaf", 8, 25e9)]),
    ("1x8xh100", [("nvlink", 8, 450e9)]),
    ("2x1xh100", [("leaf", 2, 50e9)]),
    ("1x1xh100", [("pcie", 1, 63e9)]),
    # The host link caps what a GPU gets of the network: PCIe 4 carries 31 GB/s.
    ({"gpu": "l40s", "nodes": 2, "inter": "50GB/s"}, [("pcie", 4, 31e9), ("leaf", 8, 31e9)]),
]


@pytest.mark.parametrize(("spec", "expected"), CASES, ids=[str(c[0]) for c in CASES])
def test_levels_of_regular_fabrics(spec: object, expected: list[tuple[str, int, float]]) -> None:
    found = [(level.name, level.gpus, level.bytes_per_s) for level in levels(group_of(spec))]
    assert [level[:2] for level in found] == [level[:2] for level in expected]
    assert [level[2] for level in found] == pytest.approx([level[2] for level in expected])


def test_latency_grows_outwards_and_sources_are_named() -> None:
    found = levels(group_of({"gpu": "h100", "nodes": 8, "leaf_nodes": 2}))
    assert [level.latency_s for level in found] == pytest.approx([1e-6, 5e-6, 6e-6])
    assert "MLCommons" in found[0].source
    given = levels(group_of({"gpu": "h100", "nodes": 8, "inter": "40GB/s"}))
    assert (given[-1].source, given[-1].bytes_per_s) == ("given", 40e9)


SPECS = st.fixed_dictionaries(
    {
        "gpu": st.sampled_from(["h100", "a100-pcie", "l40s", "gb200", "mi300x"]),
        "nodes": st.integers(1, 300),
        "gpus_per_node": st.sampled_from([1, 2, 4, 8]),
        "oversubscription": st.floats(1, 8),
    }
)


@given(SPECS, st.integers(1, 300))
def test_levels_widen_and_thin_out(spec: dict[str, object], leaf: int) -> None:
    group = group_of(spec | {"leaf_nodes": min(leaf, int(str(spec["nodes"])))})
    found = levels(group)
    assert found[-1].gpus == group.gpus
    for inner, outer in itertools.pairwise(found):
        assert inner.gpus < outer.gpus
        assert inner.bytes_per_s >= outer.bytes_per_s * (1 - 1e-9)
    assert sum(v[0] == GPU for v in unit_graph(group)) <= 16


def test_levels_are_quick_and_cached_by_content() -> None:
    levels(group_of("2x8xh100"))  # networkx is imported here
    fresh: list[float] = []
    again: list[float] = []
    for nodes in (12345, 23456, 34567):  # the best of three: the machine may be busy
        spec = {"gpu": "h200", "nodes": nodes, "inter": f"{nodes}MB/s"}
        for seconds in (fresh, again):
            group = group_of(spec)
            start = time.perf_counter()
            levels(group)
            seconds.append(time.perf_counter() - start)
    assert min(fresh) < 0.1
    assert min(again) < 1e-3


def test_whole_graph() -> None:
    start = time.perf_counter()
    graph = build_graph(ClusterSpec.model_validate("2048x8xh100").build())
    assert time.perf_counter() - start < 5
    assert sum(data["kind"] == GPU for _, data in graph.nodes(data=True)) == 16_384
    assert all(data["bandwidth_bytes_per_s"] > 0 for _, _, data in graph.edges(data=True))


def test_widest_paths_of_a_pair() -> None:
    graph = build_graph(ClusterSpec.model_validate("2x8xh100").build())
    assert pair_bytes_per_s(graph, 0, 7) == 450e9
    assert pair_bytes_per_s(graph, 0, 8) == 50e9


def test_groups_meet_at_the_spine() -> None:
    spec = {"groups": [{"gpu": "h100", "nodes": 2}, {"gpu": "a100", "nodes": 2}]}
    graph = build_graph(ClusterSpec.model_validate(spec).build())
    assert ("spine", 0, 0) in graph
    assert sum(v[0] == GPU for v in graph) == 32


def positions(ranks: int, stride: int, total: int) -> list[list[int]]:
    """Return every communication group of this form in a cluster of ``total`` GPUs."""
    return [
        [base + offset + i * stride for i in range(ranks)]
        for base in range(0, total, ranks * stride)
        for offset in range(stride)
    ]


SHAPES = [
    (ranks, stride)
    for ranks in (1, 2, 3, 4, 6, 8, 16, 24, 32, 64)
    for stride in (1, 2, 3, 4, 6, 8, 16, 32)
    if 192 % (ranks * stride) == 0
]


@pytest.mark.parametrize(
    "spec",
    [
        {"gpu": "h100", "nodes": 24, "leaf_nodes": 4},
        {"gpu": "a100-pcie", "nodes": 48, "leaf_nodes": 12},
        {"gpu": "gb200", "nodes": 48, "nvlink_domain": 48},
    ],
    ids=lambda spec: str(spec["gpu"]),
)
def test_spanned_level_equals_enumeration(spec: dict[str, object]) -> None:
    group = group_of(spec)
    ranks, stride = np.array(SHAPES).T
    found = spanned_level(group, ranks, stride)
    for (n, s), level in zip(SHAPES, found, strict=True):
        expected = next(
            index
            for index, held in enumerate(levels(group))
            if all(len({p // held.gpus for p in ps}) == 1 for ps in positions(n, s, group.gpus))
        )
        assert level == expected, (n, s)


@pytest.mark.parametrize("domain", [1, 2, 4, 8, 12, 24, 64, 72])
def test_members_per_domain_equals_enumeration(domain: int) -> None:
    shapes = [(n, s) for n in (1, 2, 3, 4, 6, 8, 12, 16) for s in (1, 2, 4, 8, 16, 64, 72)]
    ranks, stride = np.array(shapes).T
    found = members_per_domain(ranks, stride, domain)
    for (n, s), members in zip(shapes, found, strict=True):
        fewest = min(
            count
            for ps in positions(n, s, int(np.lcm(n * s, domain)) * 2)
            for count in np.unique([p // domain for p in ps], return_counts=True)[1]
        )
        if domain % s == 0 or s % domain == 0:
            assert members == fewest, (n, s)
        else:
            assert members <= fewest, (n, s)


def test_spans_broadcast() -> None:
    group = group_of("8x8xh100")
    assert spanned_level(group, [[2], [8]], [1, 8]).tolist() == [[0, 1], [0, 1]]
    assert int(spanned_level(group, 8, 1)) == 0
    assert members_per_domain([8, 16], 1, 8).tolist() == [8, 8]


def test_importing_topology_leaves_networkx_alone() -> None:
    code = "import sys, topology; print('networkx' in sys.modules, 'ortools' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


# -- regular fabrics, vertex by vertex, against closed forms ----------------


def cut_between(spec: dict[str, object], left: range, right: range) -> float:
    """Min cut of two sets of GPUs on the whole graph, nothing compressed."""
    return cut_bytes_per_s(build_graph(ClusterSpec.model_validate(spec).build()), left, right)


RAILS = {"gpu": "h100", "nodes": 32, "rails": 8}


def test_rail_optimised_unit_of_32_nodes() -> None:
    # Each of 8 leaves takes one adapter of each node; there is nothing above them.
    graph = build_graph(ClusterSpec.model_validate(RAILS).build())
    kinds = [vertex[0] for vertex in graph]
    assert (kinds.count("leaf"), kinds.count("spine"), kinds.count("nic")) == (8, 0, 256)
    assert all(graph.degree(v) == 32 for v in graph if v[0] == "leaf")
    # A pair on one rail, and a pair on two: the sender's host reaches the other's rail.
    assert pair_bytes_per_s(graph, 0, 8) == pair_bytes_per_s(graph, 0, 9) == 50e9
    one, half = range(8), range(128)
    assert cut_bytes_per_s(graph, one, range(8, 16)) == pytest.approx(8 * 50e9)
    assert cut_bytes_per_s(graph, half, range(128, 256)) == pytest.approx(128 * 50e9)
    # Inside a node: NVLink, and the host links beside it.
    assert cut_bytes_per_s(graph, range(4), range(4, 8)) == pytest.approx(4 * (450e9 + 63e9))


@pytest.mark.parametrize("rails", [1, 2, 8])
def test_two_to_one_oversubscribed_leaves(rails: int) -> None:
    spec = {"gpu": "h100", "nodes": 16, "leaf_nodes": 4, "oversubscription": 2, "rails": rails}
    # Below a leaf every adapter at its rate; across leaves half of that, from one leaf or from two.
    assert cut_between(spec, range(8), range(8, 16)) == pytest.approx(8 * 50e9)
    assert cut_between(spec, range(32), range(32, 64)) == pytest.approx(32 * 25e9)
    assert cut_between(spec, range(64), range(64, 128)) == pytest.approx(64 * 25e9)
    # One node alone has the up-links of its whole leaf: more than its adapters.
    assert cut_between(spec, range(8), range(32, 40)) == pytest.approx(8 * 50e9)
    found = [(level.name, level.gpus, level.bytes_per_s) for level in levels(group_of(spec))]
    assert found == [("nvlink", 8, 450e9), ("leaf", 32, 50e9), ("spine", 128, 25e9)]


def test_nvl72_racks() -> None:
    spec = {"gpu": "gb200", "nodes": 36, "leaf_nodes": 18, "oversubscription": 3}
    racks = range(72), range(72, 144)
    assert cut_between(spec, *racks) == pytest.approx(72 * 50e9 / 3)
    # Inside a rack trays meet over NVLink; their adapters carry the rest.
    gpu = find_gpu("gb200")
    alone = 4 * (gpu.nvlink_bytes_per_s + min(50e9, gpu.pcie_bytes_per_s))
    assert cut_between(spec, range(4), range(4, 8)) == pytest.approx(alone)
    graph = build_graph(ClusterSpec.model_validate(spec).build())
    assert pair_bytes_per_s(graph, 0, 71) == 900e9
    assert pair_bytes_per_s(graph, 0, 72) == 50e9


def test_four_adapters_for_eight_gpus() -> None:
    spec = {"gpu": "a100", "nodes": 2, "inter": "12.5GB/s", "nics_per_node": 4}
    graph = build_graph(ClusterSpec.model_validate(spec).build())
    assert sum(vertex[0] == "nic" for vertex in graph) == 8
    # A pair alone has a whole adapter; all together share four.
    assert pair_bytes_per_s(graph, 0, 8) == 25e9
    assert cut_bytes_per_s(graph, range(8), range(8, 16)) == pytest.approx(4 * 25e9)
    assert levels(group_of(spec))[-1].bytes_per_s == pytest.approx(12.5e9)


def test_bridged_pairs_meet_over_host_links() -> None:
    graph = build_graph(ClusterSpec.model_validate("1x4xa100-pcie").build())
    assert pair_bytes_per_s(graph, 0, 1) == 300e9
    assert pair_bytes_per_s(graph, 1, 2) == 31e9


SWITCHED = {"gpu": "l40s", "nodes": 4, "gpus_per_node": 8, "pcie_switch_gpus": 4}


def test_gpus_behind_one_pcie_switch_share_its_up_link() -> None:
    graph = build_graph(ClusterSpec.model_validate(SWITCHED).build())
    # PIX and PXB pairs have the link to themselves, pairs through the host too while alone.
    assert pair_bytes_per_s(graph, 0, 1) == pair_bytes_per_s(graph, 0, 4) == 31e9
    assert cut_bytes_per_s(graph, range(2), range(2, 4)) == pytest.approx(2 * 31e9)
    host = within(graph, *SCOPES["pcie"])
    assert cut_bytes_per_s(host, range(4), range(4, 8)) == pytest.approx(31e9)
    # An adapter a GPU, behind the switch: the network does not take the up-link.
    assert cut_bytes_per_s(graph, range(8), range(8, 16)) == pytest.approx(8 * 25e9)
    found = [(level.name, level.gpus, level.bytes_per_s) for level in levels(group_of(SWITCHED))]
    assert found == [("switch", 4, 31e9), ("pcie", 8, 31e9 / 4), ("leaf", 32, 25e9)]
    # One adapter at the host: traffic to it shares the up-links.
    one = levels(group_of(SWITCHED | {"nics_per_node": 1}))
    assert one[-1].bytes_per_s == pytest.approx(2 * 31e9 / 8)


SCOPES = {
    "nvlink": (GPU, "nvswitch"),
    "switch": (GPU, "nvswitch", "pcie"),
    "pcie": (GPU, "nvswitch", "pcie", "host"),
    "leaf": (GPU, "nvswitch", "pcie", "host", "nic", "leaf"),
    "spine": KINDS,
}
"""Vertices up to the switches of a level."""


@given(
    st.fixed_dictionaries(
        {
            "gpu": st.sampled_from(["l40s", "a100-pcie", "h100", "b200"]),
            "gpus_per_node": st.sampled_from([4, 8]),
            "nodes": st.sampled_from([2, 4, 6]),
            "pcie_switch_gpus": st.sampled_from([1, 2, 4]),
            "nics_per_node": st.sampled_from([None, 1, 2, 4, 8]),
            "leaf_nodes": st.sampled_from([1, 2]),
            "oversubscription": st.sampled_from([1, 3]),
        }
    )
)
def test_levels_of_the_unit_are_cuts_of_the_whole(spec: dict[str, object]) -> None:
    group = group_of(spec)
    graph = build_graph(ClusterSpec.model_validate(spec).build())
    size = 1
    for level in levels(group):
        if 2 * size <= level.gpus:
            inside = within(graph, *SCOPES[level.name])
            cut = cut_bytes_per_s(inside, range(size), range(size, 2 * size))
            assert level.bytes_per_s == pytest.approx(cut / size), (level.name, spec)
        size = level.gpus


@given(st.sampled_from([1, 2, 4, 8, 16, 32]), st.sampled_from([1, 2, 4]), st.integers(1, 6))
def test_adapters_and_rails_leave_the_levels_alone(nics: int, rails: int, leaf: int) -> None:
    spec = {"gpu": "h100", "nodes": 6, "leaf_nodes": leaf, "oversubscription": 3}
    plain = levels(group_of(spec))
    shared = levels(group_of(spec | {"nics_per_node": nics, "rails": min(rails, nics)}))
    assert [level.gpus for level in shared] == [level.gpus for level in plain]
    rates = [level.bytes_per_s for level in plain]
    assert [level.bytes_per_s for level in shared] == pytest.approx(rates)


def test_sixteen_thousand_gpus_are_built_in_seconds_and_their_levels_in_one() -> None:
    start = time.perf_counter()
    spec = {"gpu": "h100", "nodes": 2048, "leaf_nodes": 32, "oversubscription": 2, "rails": 8}
    built = ClusterSpec.model_validate(spec | {"inter": "49GB/s"}).build()
    graph = build_graph(built)
    assert time.perf_counter() - start < 5
    assert sum(vertex[0] == "leaf" for vertex in graph) == 512
    start = time.perf_counter()
    assert levels(built.group)[-1].bytes_per_s == pytest.approx(24.5e9)
    assert time.perf_counter() - start < 1


def test_used_gpus_that_fit_into_a_level_stay_in_it() -> None:
    group = group_of("36x4xgb200")
    # 64 of 72 GPUs do not tile racks, but one group of them is inside the first rack.
    assert int(spanned_level(group, 64, 1)) == 1
    assert int(spanned_level(group, 64, 1, 64)) == 0
    assert spanned_level(group, 16, [1, 4], [[64], [72], [76]]).tolist() == [[0, 0], [0, 0], [1, 1]]
    assert int(members_per_domain(64, 1, 72)) == 8
    assert int(members_per_domain(64, 1, 72, 64)) == 64
