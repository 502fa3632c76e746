"""Damaged dumps give a warning and the worse value; what is no topology is refused with a hint."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.topology.importers.own_samples import MATRIX, matrix, switched
from topology.errors import InputError
from topology.importers import Imported, load_bytes
from topology.units import GB


def read(text: str, gpu: str = "H100") -> Imported:
    return load_bytes(text.encode(), "topo.txt", gpu=gpu)


WHOLE = read(MATRIX)
FIRST = MATRIX.split("\n")[0]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda t: "\n".join("2024-05-01 12:00:01,123 INFO [rank0] " + x for x in t.split("\n")),
        lambda t: "\n".join("(Worker pid=123) " + x for x in t.split("\n")),
        lambda t: t.replace(FIRST, "\x1b[4m" + FIRST + "\x1b[0m"),
        lambda t: t.replace(FIRST, "[4m" + FIRST + "[0m"),
        lambda t: t.replace("\t", " "),
        lambda t: t.replace("\t", " \u00a0 "),
        lambda t: t.replace("GPU4\tGPU5", "GPU4\nGPU5", 1).replace("CPU Aff", "\nCPU Aff", 1),
        lambda t: t.replace("SYS\t16", "SYS16"),
        lambda t: t.replace("SYS\tSYS", "SYSSYS").replace("NV18\tNV18", "NV18NV18"),
        lambda t: t.replace("NV18\tPIX", "NV18\n   PIX"),
        lambda t: "$ nvidia-smi topo -m\n```\n" + t + "```\n",
        lambda t: "\n".join("| " + x.replace("\t", " | ") + " |" for x in t.split("\n")),
        lambda t: t.replace("\n", "\\n").replace("\t", "\\t"),
        lambda t: t.replace("\n", "\r\n"),
        lambda t: t[t.index("GPU0\t X") :],
        lambda t: t + t,
    ],
)
def test_pastes_are_read_like_the_original(spoil: Callable[[str], str]) -> None:
    found = read(spoil(MATRIX))
    assert found.links == WHOLE.links
    assert found.nics == WHOLE.nics
    assert found.nic_affinity == WHOLE.nic_affinity
    assert [gpus for _, gpus in found.numa] == [gpus for _, gpus in WHOLE.numa]


def test_no_affinity() -> None:
    lines = [line.split("\t16-")[0].split("\t0-")[0] for line in MATRIX.split("\n")]
    found = read("\n".join(lines))
    assert found.links == WHOLE.links
    assert found.numa == ()


@pytest.mark.parametrize(
    "other",
    [lambda i, j: (i, j) == (2, 5), lambda i, j: {i, j} == {2, 5}],
    ids=["one side", "both"],
)
def test_a_pair_with_fewer_links(other: Callable[[int, int], bool]) -> None:
    found = read(matrix(8, lambda i, j: "NV17" if other(i, j) else "NV18"))
    assert found.links == {"NV17": 1, "NV18": 27}
    assert found.nvlink_gpu_bytes_per_s == 425 * GB
    assert any("GPU2-GPU5" in text for text in found.warnings)


def test_a_gpu_without_its_nvlinks() -> None:
    found = read(matrix(8, lambda i, j: "SYS" if 3 in (i, j) else "NV18"))
    assert found.links == {"NV18": 21, "SYS": 7}
    assert found.nvlink_domain == 1
    assert any("groups of 1, 7" in text for text in found.warnings)


def test_one_pair_without_nvlink() -> None:
    found = read(matrix(8, lambda i, j: "NODE" if {i, j} == {0, 1} else "NV18"))
    assert found.links == {"NV18": 27, "NODE": 1}
    assert any("a link is down" in text for text in found.warnings)


def test_five_of_eight() -> None:
    found = read(matrix(5, switched(18)))
    assert (found.gpus_per_node, found.nvlink_domain) == (5, 5)
    assert found.links == {"NV18": 10}
    assert any("5 GPUs" in text for text in found.warnings)


def test_rows_that_were_cut_off() -> None:
    found = read("\n".join(MATRIX.split("\n")[:6]))
    assert found.gpus_per_node == 8
    assert found.links == {"NV18": 25}  # three pairs have no cell left
    assert any("no row of GPU5" in text for text in found.warnings)


def test_a_lost_cell_shifts_nothing() -> None:
    found = read(MATRIX.replace("GPU3\tNV18\t", "GPU3\t"))
    assert found.links == {"NV18": 28}
    assert any("GPU3" in text for text in found.warnings)


def test_a_digit_that_belongs_to_the_affinity() -> None:
    text = matrix(4, switched(4)).replace("NV4\t0-15", "NV40-15").replace("NV4\t16-", "NV416-")
    assert read(text).links == {"NV4": 6}


REFUSED = {
    "empty": ("", "is empty"),
    "blank": (" \n\t\n", "is empty"),
    "p2p": ("\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n\n  OK  = Status Ok\n", "topo -m"),
    "p2p down": ("\tGPU0\tGPU1\n GPU0\tX\tCNS\n GPU1\tCNS\tX\n", "topo -m"),
    "nccl graph": ('<graphs version="1"><graph id="0"/></graphs>', "NCCL_TOPO_DUMP_FILE"),
    "nvidia-smi": ("| NVIDIA-SMI 550.54 |\n|  0  NVIDIA H100  |\n", "nvidia-smi topo -m"),
    "lstopo": ('<topology version="2.0"><object type="Machine"/></topology>', "NCCL_TOPO"),
    "nccl log": ("node1:12:12 [0] NCCL INFO Bootstrap : Using eth0\n", "NCCL_TOPO_DUMP_FILE"),
    "prose": ("We have eight nodes of eight GPUs.\n", "nvidia-smi topo -m"),
    "no gpu": ('<system version="1"><cpu numaid="0"/></system>', "node with GPUs"),
    "labels without values": ("allowed:\n  - nvidia.com/gpu.product\n", "kubectl"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_what_to_run_instead(name: str) -> None:
    text, said = REFUSED[name]
    with pytest.raises(InputError, match="SP130") as caught:
        load_bytes(text.encode(), "dump.txt")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "raw",
    [b"\x89PNG\r\n\x1a\n\x00\x00", b"\xff\xd8\xff\xe0\x00\x10JFIF", b"GIF89a\x01", b"%PDF-1.7"],
)
def test_pictures(raw: bytes) -> None:
    with pytest.raises(InputError, match="text"):
        load_bytes(raw, "screenshot.png")


def test_the_model_of_the_file_is_taken() -> None:
    listed = "GPU 0: NVIDIA H200 (UUID: GPU-1)\n" + MATRIX
    assert load_bytes(listed.encode(), "t").gpu == "NVIDIA H200"


def test_a_header_with_leading_zeros_names_the_same_columns() -> None:
    text = "\tGPU0\tGPUGPU01\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n"
    assert load_bytes(text.encode(), "topo", gpu="a100").links == {"NV4": 1}


def test_pcie_switches_are_counted_where_all_hold_as_many() -> None:
    def box(inside: str, across: str) -> str:
        return matrix(4, lambda i, j: inside if i // 2 == j // 2 else across)

    assert load_bytes(box("PXB", "NODE").encode(), "topo", gpu="l40s").pcie_switch_gpus == 2
    assert load_bytes(box("PIX", "SYS").encode(), "topo", gpu="l40s").pcie_switch_gpus == 2
    assert load_bytes(box("PHB", "SYS").encode(), "topo", gpu="l40s").pcie_switch_gpus is None
    assert load_bytes(box("NV12", "PXB").encode(), "topo", gpu="a100").pcie_switch_gpus is None
