"""From imported facts to the cluster mapping, through the command line too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.cli.running import run
from tests.topology.importers.own_samples import BLOCKS, IBNETDISCOVER, MATRIX, SAMPLES, TREE
from topology.errors import InputError
from topology.importers import cluster_text, load
from topology.importers.imported import Imported
from topology.importers.write import known_gpu
from topology.spec import ClusterSpec


def save(folder: Path, **texts: str) -> list[str]:
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [str(folder / name) for name in texts]


def test_a_node_and_its_fabric_together(tmp_path: Path) -> None:
    found = load(save(tmp_path, matrix=MATRIX, tree=TREE), gpu="h100")
    cluster = cluster_text(found, "h100").cluster
    assert cluster == {
        "gpu": "h100-80gb-sxm",
        "nodes": 8,
        "gpus_per_node": 8,
        "nvlink_domain": 8,
        "intra": "450GB/s",
        "nics_per_node": 4,
        "inter": {"per_gpu": "25GB/s"},
        "leaf_nodes": 4,
    }


def test_files_that_differ_give_the_smaller_value_and_a_warning(tmp_path: Path) -> None:
    found = load(save(tmp_path, tree=TREE, fabric=IBNETDISCOVER))
    assert found.node_count == 4
    assert any("differ in node_count" in text for text in found.warnings)


def test_racks_are_domains_only_for_gpus_that_have_racks(tmp_path: Path) -> None:
    found = load(save(tmp_path, blocks=BLOCKS))
    assert cluster_text(found, "gb200").cluster["nvlink_domain"] == 72
    assert "nvlink_domain" not in cluster_text(found, "h100").cluster


def test_the_yaml_is_a_problem_files_cluster(tmp_path: Path) -> None:
    for name, (_, text) in SAMPLES.items():
        found = cluster_text(load(save(tmp_path, dump=text), gpu="h100"), "h100")
        assert yaml.safe_load(found.text)["cluster"] == found.cluster, name
        ClusterSpec.model_validate(found.cluster).build()


@pytest.mark.parametrize(
    ("said", "gpu"),
    [
        ("NVIDIA-H100-80GB-HBM3", "h100-80gb-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-80gb-sxm"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb-sxm"),
        ("Tesla V100-SXM2-32GB", "v100-32gb-sxm"),
        ("NVIDIA-GB200", "gb200-186gb"),
        ("h100", "h100-80gb-sxm"),
        ("AMD Instinct MI300X", "mi300x-192gb"),
    ],
)
def test_names_of_gpus(said: str, gpu: str) -> None:
    found = known_gpu(said)
    assert found is not None
    assert found.id == gpu


@pytest.mark.parametrize("said", ["", "NVIDIA RTX A6000", "-", "x" * 500])
def test_names_that_are_not_known(said: str) -> None:
    assert known_gpu(said) is None


def test_the_command(tmp_path: Path) -> None:
    (matrix, tree) = save(tmp_path, matrix=MATRIX, tree=TREE)
    result = run("topology", "import", matrix, "--gpu", "h100", "--nodes", "16")
    assert result.exit_code == 0, result.output
    assert yaml.safe_load(result.stdout)["cluster"]["nodes"] == 16
    alone = run("topology", "import", matrix, "--gpu", "h100")
    assert "warning: one node is shown" in alone.stderr
    assert "warning" not in run("topology", "import", matrix, "--gpu", "h100", "-q").stderr
    assert run("topology", "import", matrix, tree, "--gpu", "h100").exit_code == 0


def test_the_imported_file_can_be_shown(tmp_path: Path) -> None:
    (matrix,) = save(tmp_path, matrix=MATRIX)
    (cluster,) = save(
        tmp_path, **{"c.yaml": run("topology", "import", matrix, "--gpu=h100").stdout}
    )
    assert "NVLink domain of 8 GPUs" in run("topology", "show", cluster).stdout


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "--gpu h100"),
        (("--gpu", "h1000"), "Did you mean"),
        (("--gpu", "h100", "--format", "tarot"), "Known: "),
        (("--gpu", "h100", "--format", "sinfo"), "sinfo -N"),
        (("--gpu", "h100", "--nodes", "999999"), "out of range"),
    ],
)
def test_refusals_exit_with_2_and_a_hint(flags: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (matrix,) = save(tmp_path, matrix=MATRIX)
    result = run("topology", "import", matrix, *flags)
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert result.stdout == ""


def test_missing_files(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(InputError, match="SP100"):
            load([path])


def test_adapters_that_gpus_share_are_counted_and_their_rate_is_assumed() -> None:
    imported = Imported("nvidia-smi", gpu="H100", gpus_per_node=8, nics=4)
    found = cluster_text(imported, "h100", nodes=2)
    assert found.cluster["nics_per_node"] == 4
    assert found.cluster["inter"] == {"per_gpu": "25GB/s"}
    assert "assumed: adapters as of" in found.text
    assert found.warnings == ("4 adapters for 8 GPUs: 25 GB/s a GPU is assumed, see inter",)
    assert "nics_per_node" not in cluster_text(imported, "h100", nodes=1).cluster
    known = cluster_text(replace(imported, inter_node_bytes_per_s=100e9), "h100", nodes=2)
    assert known.cluster["inter"] == {"per_node": "100GB/s"}
