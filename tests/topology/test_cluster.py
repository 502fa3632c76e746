from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from topology import Cluster, ClusterSpec, NodeGroup, UnsupportedError, find_gpu


def build(spec: object) -> NodeGroup:
    return ClusterSpec.model_validate(spec).build().group


def test_the_problem_file_of_the_reference() -> None:
    spec = {
        "nodes": 8,
        "gpus_per_node": 8,
        "gpu": "h100-80gb-sxm",
        "intra": "nvlink4",
        "inter": {"per_gpu": "50GB/s"},
        "price": "2.50 $/gpu-h",
    }
    group = build(spec)
    assert (group.gpus, group.nvlink_domain) == (64, 8)
    assert (group.nvlink_bytes_per_s, group.inter_bytes_per_s) == (450e9, 50e9)
    assert group.price_usd_per_gpu_hour == 2.5
    assert {field for field, _, _ in group.assumptions} == {
        "nvlink_domain",
        "usable_memory",
        "oversubscription",
    }


@pytest.mark.parametrize(
    ("text", "nodes", "per_node", "gpu"),
    [
        ("8x8xH100", 8, 8, "h100-80gb-sxm"),
        ("8xh100-80gb-sxm", 1, 8, "h100-80gb-sxm"),
        ("2 x 4 x A100-40GB", 2, 4, "a100-40gb-sxm"),
        ("18x4xgb200", 18, 4, "gb200-186gb"),
        ("4×8×mi300x", 4, 8, "mi300x-192gb"),
    ],
)
def test_shorthand(text: str, nodes: int, per_node: int, gpu: str) -> None:
    group = build(text)
    assert (group.nodes, group.gpus_per_node, group.gpu.id) == (nodes, per_node, gpu)


def test_every_default_is_recorded_with_its_source() -> None:
    group = build({"gpu": "h100", "nodes": 2})
    fields = [field for field, _, _ in group.assumptions]
    assert fields == [
        "gpus_per_node",
        "nvlink_domain",
        "intra",
        "inter",
        "usable_memory",
        "oversubscription",
    ]
    assert all(value and source for _, value, source in group.assumptions)
    assert group.price_usd_per_gpu_hour is None


def test_nothing_is_assumed_where_all_is_given() -> None:
    spec = {
        "gpu": "h100",
        "nodes": 4,
        "gpus_per_node": 8,
        "intra": "450GB/s",
        "inter": "ndr400",
        "nvlink_domain": 8,
        "oversubscription": 2,
        "leaf_nodes": 2,
        "usable_memory": "79GiB",
        "price": {
            "usd_per_gpu_hour": 2.5,
            "kind": "spot",
            "date": "2025-11-01",
            "source": "offer",
        },
    }
    group = build(spec)
    assert group.assumptions == ()
    assert group.gpu.usable_bytes == 79 * 2**30
    assert (group.price_kind, group.price_source) == ("spot", "offer")
    assert group.price_date == "2025-11-01"


@pytest.mark.parametrize(
    ("inter", "expected"),
    [
        ("50GB/s", 50e9),
        ({"per_gpu": "400Gb/s"}, 50e9),
        ({"per_node": "400GB/s"}, 50e9),
        ("NDR400", 50e9),
        ("xdr-800", 100e9),
        (25e9, 25e9),
    ],
)
def test_inter_forms(inter: object, expected: float) -> None:
    assert build({"gpu": "h100", "nodes": 2, "inter": inter}).inter_bytes_per_s == expected


@pytest.mark.parametrize(
    ("spec", "domain"),
    [
        ({"gpu": "gb200", "nodes": 18}, 72),
        ({"gpu": "gb200", "nodes": 2}, 8),
        ({"gpu": "gb200", "nodes": 36}, 72),
        ({"gpu": "gb200", "nodes": 128}, 64),
        ({"gpu": "gb200", "nodes": 19}, 72),
        ({"gpu": "h100", "nodes": 2, "gpus_per_node": 4}, 4),
        ({"gpu": "h100", "nodes": 2, "gpus_per_node": 16}, 8),
        ({"gpu": "a100-pcie", "nodes": 2}, 2),
        ({"gpu": "l40s", "nodes": 2}, 1),
        ({"gpu": "h100", "nodes": 2, "intra": "none"}, 1),
        ({"gpu": "h100", "nodes": 2, "gpus_per_node": 1}, 1),
    ],
)
def test_default_nvlink_domains(spec: object, domain: int) -> None:
    group = build(spec)
    assert group.nvlink_domain == domain
    assert (group.nvlink_bytes_per_s > 0) == (domain > 1)


def test_gpus_in_place_of_nodes() -> None:
    assert build({"gpu": "h100", "gpus": 64}).nodes == 8


def test_oversubscription_without_leaves_counts_from_the_node() -> None:
    group = build({"gpu": "h100", "nodes": 4, "oversubscription": 2})
    assert group.leaf_nodes == 1
    assert "leaf_nodes" in {field for field, _, _ in group.assumptions}


def test_several_groups_are_described_but_not_planned() -> None:
    cluster = ClusterSpec.model_validate(
        {"name": "mixed", "groups": [{"gpu": "h100", "nodes": 2}, {"gpu": "a100", "nodes": 1}]}
    ).build()
    assert (cluster.name, cluster.gpus, cluster.nodes) == ("mixed", 24, 3)
    with pytest.raises(UnsupportedError, match="one kind of node only"):
        _ = cluster.group


BAD = [
    ({"gpu": "h100", "gpus": 60}, "Use 56 or 64"),
    ({"gpu": "h100", "gpus": 4}, "Use 8"),
    ({"gpu": "h100", "gpus": 64, "nodes": 2}, "write one of the two"),
    ({"gpu": "h100"}, "neither nodes nor gpus"),
    ({"nodes": 2}, "gpu is missing"),
    ({"gpu": "h1000", "nodes": 2}, "Did you mean 'h100'"),
    ({"gpu": "h100", "nodes": True}, "not a whole number"),
    ({"gpu": "h100", "nodes": 0}, "out of range"),
    ({"gpu": "h100", "nodes": -1}, "out of range"),
    ({"gpu": "h100", "nodes": 8.0}, "not a whole number"),
    ({"gpu": "h100", "nodes": "8"}, "not a whole number"),
    ({"gpu": "h100", "nodes": 10**400}, "about 10\\^400"),
    ({"gpu": "h100", "nodes": 10**5000}, "out of range"),
    ({"gpu": "h100", "nodes": 200_000, "gpus_per_node": 1024}, "exceed 1,000,000 GPUs"),
    ({"gpu": "h100", "nodes": 2, "intra": float("nan")}, "not a finite number"),
    ({"gpu": "h100", "nodes": 2, "intra": "nvlink9"}, "Did you mean 'nvlink"),
    ({"gpu": "h100", "nodes": 2, "inter": {}}, "per_gpu or per_node"),
    ({"gpu": "h100", "nodes": 2, "inter": {"per_rack": 1}}, "per_gpu or per_node"),
    ({"gpu": "h100", "nodes": 2, "inter": "50"}, "write 50GB/s"),
    ({"gpu": "h100", "nodes": 2, "inter": "1e20 B/s"}, "out of range"),
    ({"gpu": "h100", "nodes": 2, "oversubscription": 0.5}, "out of range"),
    ({"gpu": "h100", "nodes": 2, "oversubscription": float("inf")}, "finite"),
    ({"gpu": "h100", "nodes": 2, "leaf_nodes": 3}, "exceeds the 2 nodes"),
    ({"gpu": "h100", "nodes": 2, "nvlink_domain": 3}, "neither divides"),
    ({"gpu": "h100", "nodes": 2, "nvlink_domain": 32}, "exceeds the cluster's 16"),
    ({"gpu": "h100", "nodes": 2, "usable_memory": 80}, "80 has no unit"),
    ({"gpu": "h100", "nodes": 2, "usable_memory": "81559GiB"}, "does not fit"),
    ({"gpu": "h100", "nodes": 2, "price": "free"}, "price per GPU-hour"),
    ({"gpu": "h100", "nodes": 2, "price": {"usd": 2}}, "Field required"),
    ({"gpu": "h100", "nodes": 2, "groups": [{"gpu": "h100", "nodes": 1}]}, "both given"),
    ({"groups": []}, "groups is empty"),
    ({"groups": 5}, "valid tuple"),
    ({"gpu": "h100", "nodes": 2, "nods": 3}, "Extra inputs"),
    ("8x8", "not understood"),
    ("0x8xh100", "out of range"),
    (None, "not a cluster"),
    (5, "not a cluster"),
    ([], "not a cluster"),
]


@pytest.mark.parametrize(("spec", "says"), BAD, ids=range(len(BAD)))
def test_bad_specs(spec: object, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        ClusterSpec.model_validate(spec)


def test_all_faults_are_found_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        ClusterSpec.model_validate({"gpu": "x", "nodes": 0, "intra": "fast", "price": -1})
    assert {error["loc"][0] for error in caught.value.errors()} == {
        "gpu",
        "nodes",
        "intra",
        "price",
    }


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)
FIELDS = [*ClusterSpec.model_fields, "other"]


@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6))
def test_any_mapping_builds_or_is_refused(spec: dict[str, object]) -> None:
    try:
        cluster = ClusterSpec.model_validate({"gpu": "h100", "nodes": 2} | spec).build()
    except ValidationError:
        return
    assert isinstance(cluster, Cluster)
    assert 1 <= cluster.gpus <= 1_000_000


def test_usable_memory_does_not_change_the_catalogue() -> None:
    build({"gpu": "h100", "nodes": 1, "usable_memory": "70GiB"})
    assert find_gpu("h100").usable_bytes == 81559 * 2**20
