"""Systems of the catalogue and their prices."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from solver.job.read import parse_problem
from tests.topology.shared import rows
from topology.catalogue import find_system, listed_price, prices, systems
from topology.cluster import NodeGroup
from topology.errors import InputError
from topology.hardware import find_gpu
from topology.spec import ClusterSpec
from topology.units import GB


def group(value: object) -> NodeGroup:
    return ClusterSpec.model_validate(value).build().group


def test_shorthand() -> None:
    built = group("aws-p5:8")
    assert (built.gpu.id, built.nodes, built.gpus_per_node) == ("h100-80gb-sxm", 8, 8)
    assert built.inter_bytes_per_s == 50 * GB
    assert group("p5.48xlarge:2").nodes == 2
    assert group("GCP-A3-highgpu").inter_bytes_per_s == 12.5 * GB


def test_what_the_system_gives_is_listed_with_its_source() -> None:
    taken = {name: source for name, _, source in group("gcp-a3-highgpu:4").assumptions}
    for name in ("gpus_per_node", "nvlink_domain", "intra", "inter"):
        assert "GCP a3-highgpu-8g" in taken[name]


def test_what_is_written_goes_before_the_system() -> None:
    built = group({"system": "aws-p5", "nodes": 4, "inter": "25GB/s", "gpus_per_node": 4})
    assert (built.inter_bytes_per_s, built.gpus_per_node) == (25 * GB, 4)
    assert "inter" not in {name for name, _, _ in built.assumptions}


def test_racks_hold_what_fits() -> None:
    assert group("gcp-a4x-highgpu:36").nvlink_domain == 72
    assert group("gcp-a4x-highgpu:4").nvlink_domain == 16


@pytest.mark.parametrize("name", systems())
def test_every_system_builds(name: str) -> None:
    system = systems()[name]
    built = group(f"{name}:2")
    assert built.gpu.id == system.gpu
    assert built.price_usd_per_gpu_hour is None
    assert find_system(system.sku).sku == system.sku


def test_a_price_is_only_taken_when_asked_for() -> None:
    asked = group({"system": "oci-h200", "nodes": 2, "price": "catalogue"})
    assert asked.price_usd_per_gpu_hour == 10
    assert "skypilot-catalog" in asked.price_source
    assert "05887511" in asked.price_date
    spot = group({"system": "nebius-h100", "nodes": 2, "price": "catalogue spot"})
    assert spot.price_usd_per_gpu_hour == 1.25


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("aws-p7:8", "Did you mean 'aws-p5'"),
        ({"system": 3, "nodes": 1}, "not a system"),
        ({"system": "aws-p5", "nodes": 1, "gpu": "a100"}, "leave gpu out"),
        ({"system": "aws-p5", "nodes": 1, "price": "catalogue"}, "differ: 12.29"),
        ({"system": "nvidia-dgx2", "nodes": 1, "price": "catalogue"}, "none at all"),
        ({"system": "oci-h200", "nodes": 1, "price": "catalogue spot"}, "only on-demand"),
        ({"gpu": "h100", "nodes": 1, "price": "catalogue"}, "goes with system"),
        ("aws-p5:0", "out of range"),
    ],
)
def test_refusals(value: object, said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        group(value)


def test_in_a_problem_file_and_by_flags() -> None:
    overrides = {
        "model": "llama3-8b",
        "cluster": {"system": "oci-h100", "nodes": 1, "price": "catalogue"},
        "training": {"seq_len": 4096, "global_batch": "64seq", "tokens": "1B"},
    }
    problem = parse_problem("", overrides=overrides)
    assert problem.cluster.group.price_usd_per_gpu_hour == 10
    with pytest.raises(InputError, match="aws-p5"):
        parse_problem("", overrides={**overrides, "cluster": "aws-p7:3"})


def test_every_price_has_a_date_and_a_source() -> None:
    for price in prices():
        assert price["date"]
        assert price["source"]
        assert price["usd_per_gpu_hour"] > 0
        if "system" in price:
            assert price["system"] in systems()
            listed = {row["kind"] for row in prices() if row.get("system") == price["system"]}
            assert price["kind"] in listed


def test_prices_of_a_system_are_of_its_gpu() -> None:
    for price in prices():
        if "system" in price:
            assert find_gpu(price["gpu"]).id == systems()[price["system"]].gpu


def test_a_single_price_is_returned_whole() -> None:
    price = listed_price(find_system("oci-b200"))
    assert price["usd_per_gpu_hour"] == 14
    assert price["kind"] == "on-demand"


def test_against_the_reference_table() -> None:
    by_sku = {row["sku"]: row for row in rows("topology/catalog.csv")}
    same = 0
    for system in systems().values():
        row = by_sku.get(system.sku)
        if row is None:
            continue
        same += 1
        assert system.gpus_per_node == int(row["gpus_per_node"])
        if re.fullmatch(r"[\d.]+", row["internode_GBps_per_gpu"]):
            assert system.inter_bytes_per_s is not None
            given = float(row["internode_GBps_per_gpu"]) * GB
            assert system.inter_bytes_per_s == pytest.approx(given, rel=0.01)
    assert same > 40
