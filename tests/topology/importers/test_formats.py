"""Every format, read from small dumps of our own."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from solver.report.graphs import to_graphml
from tests.topology.importers.own_samples import NCCL_WITHOUT_GPU, SAMPLES
from topology.errors import InputError
from topology.importers import FORMATS, Imported, cluster_text, load, load_bytes
from topology.spec import ClusterSpec
from topology.units import GB


def read(name: str, gpu: str = "") -> Imported:
    return load_bytes(SAMPLES[name][1].encode(), name, gpu=gpu)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_format_is_detected(name: str) -> None:
    assert read(name).format == SAMPLES[name][0]


def test_every_format_has_a_sample() -> None:
    assert {form for form, _ in SAMPLES.values()} == set(FORMATS)


def test_matrix() -> None:
    found = read("matrix", "NVIDIA H100 80GB HBM3")
    assert found.gpus_per_node == 8
    assert found.links == {"NV18": 28}
    assert found.nvlink_bytes_per_s == {"NV18": 450 * GB}
    assert (found.nvlink_domain, found.nvlink_gpu_bytes_per_s) == (8, 450 * GB)
    assert found.numa == (("0-15 0 N/A", (0, 1, 2, 3)), ("16-31 1 N/A", (4, 5, 6, 7)))
    assert found.nics == 4
    assert found.nic_affinity == (*[("PIX", 1)] * 4, *[("SYS", 4)] * 4)
    assert found.warnings == ()


def test_the_model_sets_the_rate_of_a_link() -> None:
    assert read("matrix", "B200").nvlink_bytes_per_s == {"NV18": 900 * GB}
    assert read("bridges", "RTX A6000").nvlink_bytes_per_s == {"NV4": 56.25 * GB}
    unknown = read("matrix")
    assert unknown.nvlink_bytes_per_s == {}
    assert any("--gpu" in text for text in unknown.warnings)


def test_bridges_join_pairs() -> None:
    found = read("bridges", "RTX A6000")
    assert found.links == {"NV4": 2, "SYS": 4}
    assert found.nvlink_domain == 2


def test_rocm() -> None:
    found = read("rocm")
    assert found.links == {"XGMI": 1}
    assert (found.gpus_per_node, found.nvlink_domain) == (2, 2)
    assert found.numa == (("0", (0,)), ("1", (1,)))


def test_nccl() -> None:
    found = read("nccl")
    assert found.gpu == "H100-SXM5-80GB"
    assert found.nvlink_links == (18,)
    assert found.nvlink_gpu_bytes_per_s == 450 * GB
    assert found.inter_node_bytes_per_s == 100 * GB
    assert found.nic_affinity == (("PIX", 1), ("PIX", 1))
    assert found.numa == (("0", (0,)), ("1", (1,)))


def test_nccl_without_gpu_elements() -> None:
    found = read("nccl without gpu")
    assert (found.gpus_per_node, found.nics) == (2, 1)
    assert found.nic_affinity == (("PHB", 1), ("PHB", 1))


def test_nccl_that_breaks_off_is_read_up_to_there() -> None:
    cut = NCCL_WITHOUT_GPU[: NCCL_WITHOUT_GPU.index('  <pci busid="0101')]
    found = load_bytes(cut.encode(), "cut.xml")
    assert found.gpus_per_node == 2
    assert "breaks off" in found.warnings[0]


def test_slurm_tree_and_blocks() -> None:
    tree, blocks = read("tree"), read("blocks")
    assert (tree.switches, tree.node_count, tree.leaf_nodes) == (3, 8, (4, 4))
    assert tree.nodes[0] == "gpu01"
    assert (blocks.blocks, blocks.node_count, blocks.block_nodes) == (2, 36, (18, 18))


def test_slurm_yaml_takes_the_default_topology() -> None:
    found = read("topology.yaml")
    assert (found.switches, found.node_count) == (3, 8)
    assert found.counts["kinds"] == ["tree", "block"]


def test_node_lists() -> None:
    rows, records = read("sinfo"), read("scontrol")
    assert (rows.gpu, rows.gpus_per_node, rows.node_count) == ("h100", 8, 4)
    assert any("gpu04" in text for text in rows.warnings)
    assert (records.gpu, records.gpus_per_node, records.node_count) == ("h100", 8, 2)
    assert any("gpu02" in text for text in records.warnings)


def test_ibnetdiscover() -> None:
    found = read("ibnetdiscover")
    assert (found.node_count, found.switches, found.leaf_nodes) == (4, 3, (2, 2))
    assert found.oversubscription == 2.0
    # gpu04 reports HDR at one end of its link: 25 GB/s, and it is the slowest node.
    assert found.inter_node_bytes_per_s == 25 * GB
    assert any("different speeds" in text for text in found.warnings)


def test_kubernetes() -> None:
    found, table = read("labels"), read("show-labels")
    assert (found.gpu, found.gpus_per_node, found.node_count) == ("NVIDIA-GB200", 4, 2)
    assert (found.block_nodes, found.leaf_nodes) == ((2,), (2,))
    assert (table.gpus_per_node, table.nodes) == (8, ("n1", "n2"))


@pytest.mark.parametrize(
    ("line", "gpu", "count"),
    [
        ("accelerators: A100-80GB:8", "A100-80GB", 8),
        ("accelerators: H100", "H100", 1),
        ('accelerators: "H200:4"  # four', "H200", 4),
        ("accelerators:\n    B200: 8\nnum_nodes: 4", "B200", 8),
        ("accelerators:\n  - H100:8\n  - A100:8", "H100", 8),
        ("accelerators: [L40S:8, H100:8]", "L40S", 8),
    ],
)
def test_skypilot(line: str, gpu: str, count: int) -> None:
    found = load_bytes(f"num_nodes: 4\nresources:\n  {line}\n".encode(), "task.yaml")
    assert (found.gpu, found.gpus_per_node, found.node_count) == (gpu, count, 4)
    assert found.gpus == 4 * count


def test_topograph_domains_are_racks() -> None:
    found = read("topograph")
    assert (found.switches, found.node_count, found.block_nodes) == (3, 4, (2, 2))


def test_node_link_graph() -> None:
    found = read("node-link")
    assert (found.gpu, found.gpus_per_node, found.nvlink_domain) == ("H100", 2, 2)
    assert found.nvlink_gpu_bytes_per_s == 450 * GB
    assert found.inter_node_bytes_per_s == 50 * GB


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"nodes": [{"id": 1, "kind": "gpu"}], "links": [{"source": 1, "target": 9}]}', "'9'"),
        ('{"nodes": [{"id": 1, "kind": "gpu"}, {"id": 2}], "links": []}', "2 components"),
    ],
)
def test_broken_graphs(text: str, said: str) -> None:
    with pytest.raises(InputError, match="SP111") as caught:
        load_bytes(text.encode(), "graph.json")
    assert said in str(caught.value)


def test_what_topology_show_writes_is_read_back(tmp_path: Path) -> None:
    given = {"gpu": "h100", "nodes": 8, "oversubscription": 2.0, "leaf_nodes": 4}
    cluster = ClusterSpec.model_validate(given).build()
    file = tmp_path / "cluster.graphml"
    file.write_text(to_graphml(cluster))
    text = cluster_text(load([file]), "h100").cluster
    again = ClusterSpec.model_validate(text).build().group
    for name in ("nodes", "gpus_per_node", "nvlink_domain", "nvlink_bytes_per_s",
                 "inter_bytes_per_s", "oversubscription", "leaf_nodes"):  # fmt: skip
        assert getattr(again, name) == getattr(cluster.group, name), name


def test_the_reference_samples_when_they_are_there() -> None:
    from tests.topology.shared import ROOT  # noqa: PLC0415

    folder = ROOT / "topology" / "samples"
    if not (folder / "index.csv").is_file():
        pytest.skip("no reference samples")
    path = Path(__file__).parents[3] / "benchmarks" / "topology_samples.py"
    spec = importlib.util.spec_from_file_location("topology_samples", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = module.index(folder)
    wrong = [row["file"] for row in rows if module.judge(folder, row)[0] == "wrong"]
    assert rows
    assert wrong == []
