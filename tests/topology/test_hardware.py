from __future__ import annotations

import pickle
import re

import pytest

from topology import find_gpu, gpus
from topology.hardware import aliases
from topology.units import MIB

from .shared import rows

ID_OF_ROW = {
    "V100-SXM3-32GB": "v100-32gb-sxm",
    "A100-SXM-40GB": "a100-40gb-sxm",
    "A100-SXM-80GB": "a100-80gb-sxm",
    "A100-PCIe-80GB": "a100-80gb-pcie",
    "H100-SXM-80GB": "h100-80gb-sxm",
    "H100-PCIe-80GB": "h100-80gb-pcie",
    "H100-NVL-94GB": "h100-94gb-nvl",
    "H200-SXM-141GB": "h200-141gb-sxm",
    "B200-SXM-180GB": "b200-180gb-sxm",
    "GB200-186GB": "gb200-186gb",
    "B300-SXM-288GB": "b300-288gb-sxm",
    "GB300-288GB": "gb300-288gb",
    "L40S-48GB": "l40s-48gb",
    "MI250X": "mi250x-64gb-gcd",
    "MI300X": "mi300x-192gb",
    "MI325X": "mi325x-256gb",
}


def figures(cell: str) -> list[float]:
    """Return the numbers of a cell, ranges as both ends."""
    return [float(n) for n in re.findall(r"\d+(?:\.\d+)?", cell)]


def test_every_reference_gpu_is_known_and_agrees() -> None:
    table = rows("topology/hardware.csv")
    assert {row["gpu"] for row in table} <= set(ID_OF_ROW)
    for row in table:
        gpu = gpus()[ID_OF_ROW[row["gpu"]]]
        card = 2 if row["gpu"] == "MI250X" else 1  # the row is a card of two GCDs
        assert gpu.memory_bytes * card == figures(row["mem_gb_spec"])[0] * 1e9
        usable = figures(row["usable_mib_nvidia_smi"])
        assert gpu.usable_measured == bool(usable)
        assert gpu.usable_bytes == (usable[0] * MIB if usable else gpu.memory_bytes)
        assert gpu.hbm_bytes_per_s * card == pytest.approx(figures(row["hbm_bw_tb_s"])[0] * 1e12)
        assert gpu.nvlink_bytes_per_s == figures(row["nvlink_per_dir_gb_s"])[0] * 1e9
        for precision in ("bf16", "fp16", "fp8", "fp4"):
            known = figures(row[f"{precision}_dense_tflops"])
            assert (precision in gpu.peak_flops) == bool(known)
            if known:
                peak = gpu.peak_flops[precision] * card / 1e12
                # A hundredth: two sources of one peak may be rounded differently.
                assert min(known) * 0.99 <= peak <= max(known) * 1.01


def test_gpus_with_measured_training_are_those_of_the_published_runs() -> None:
    named = {row["n_gpu"] for row in rows("truth/published_runs.csv")}
    named -= {"H100-96GB-500W"}  # a custom card, not sold
    assert {find_gpu(name).id for name in named} == {
        gpu.id for gpu in gpus().values() if gpu.training_measured
    }


def test_key_figures() -> None:
    h100 = find_gpu("h100")
    assert h100.usable_bytes == 81559 * MIB
    assert h100.memory_bytes == 80 * 10**9
    assert h100.peak_flops["bf16"] == 989e12
    assert h100.nvlink_bytes_per_s == 450e9
    assert h100.inter_bytes_per_s == 50e9
    assert find_gpu("gb200").peak_flops["bf16"] == 2450e12
    assert find_gpu("gb200").nvlink_domain == 72
    assert find_gpu("gb300").peak_flops["fp4"] == 15000e12
    assert find_gpu("l40s").nvlink_domain == 1


@pytest.mark.parametrize("gpu", list(gpus().values()), ids=list(gpus()))
def test_every_figure_has_a_source(gpu: object) -> None:
    known = gpus()[gpu.id]  # type: ignore[attr-defined]
    fields = {
        "memory_bytes",
        "usable_bytes",
        "hbm_bytes_per_s",
        "nvlink_bytes_per_s",
        "nvlink_domain",
        "pcie_bytes_per_s",
        "gpus_per_node",
        "inter_bytes_per_s",
    }
    fields |= {f"peak_flops.{p}" for p in known.peak_flops}
    fields |= {f"measured_matmul_flops.{p}" for p in known.measured_matmul_flops}
    assert set(known.sources) == fields
    assert all(known.sources.values())
    assert all(
        known.measured_matmul_flops[p] < known.peak_flops[p] for p in known.measured_matmul_flops
    )
    assert ("spec, assumed" in known.sources["usable_bytes"]) is not known.usable_measured


def test_aliases_are_unique_and_found_in_any_spelling() -> None:
    assert len(aliases()) == len(set(aliases()))
    for name in ("H100", "h100-sxm", "NVIDIA H100 80GB HBM3", "h100_80gb_sxm"):
        assert find_gpu(name).id == "h100-80gb-sxm"


@pytest.mark.parametrize("name", ["h1000", "", "x" * 10_000, None, 3, ["h100"], "8xh100"])
def test_unknown_gpus_are_refused(name: object) -> None:
    with pytest.raises(ValueError, match="is not a known GPU") as caught:
        find_gpu(name)
    assert len(str(caught.value)) < 600


def test_near_misses_are_suggested() -> None:
    with pytest.raises(ValueError, match="Did you mean 'h100'"):
        find_gpu("h1000")


def test_a_gpu_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(find_gpu("h100"))) == find_gpu("h100")
