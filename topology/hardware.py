"""GPUs as data: peaks, memory, links, the node they usually come in, each with its source.

The figures live in ``presets/gpus.yaml``; adding a GPU is adding an entry there.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .packaged import packaged
from .units import GB, MIB, TB, TFLOP

PRECISIONS = ("bf16", "fp16", "fp8", "fp4")
_PRESETS = Path(__file__).parent / "presets"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as a training framework sees it (one rank).

    Attributes
    ----------
    id, name, vendor
        Stable id (``h100-80gb-sxm``), name for people, ``nvidia`` or ``amd``.
    memory_bytes
        Capacity of the data sheet, bytes (decimal GB).
    usable_bytes
        What the driver shows, bytes; the data sheet's capacity where that is not known.
    usable_measured
        False where ``usable_bytes`` is the data sheet's ("spec, assumed").
    peak_flops
        Dense peak by precision (``bf16 fp16 fp8 fp4``), FLOP/s; absent = unsupported.
    hbm_bytes_per_s
        Memory bandwidth, bytes/s.
    nvlink_bytes_per_s
        NVLink or Infinity Fabric, all links of the GPU together, bytes/s per direction; 0 if none.
    pcie_bytes_per_s
        Host link, bytes/s per direction.
    gpus_per_node, nvlink_domain
        Reference node and the GPUs that share one NVLink fabric (1 = no NVLink, 72 = a rack).
    inter_bytes_per_s
        Network share of one GPU in the reference system, bytes/s per direction.
    measured_matmul_flops
        Best sustained matrix product by precision, FLOP/s; may be empty.
    training_measured
        False: no measured training run stands behind this GPU, outputs mark it ``unmeasured``.
    sources
        Field to source, with a note where sources disagree.
    note
        What to know about the entry; may be empty.
    """

    id: str
    name: str
    vendor: str
    memory_bytes: int
    usable_bytes: int
    usable_measured: bool
    peak_flops: Mapping[str, float] = field(hash=False)
    hbm_bytes_per_s: float
    nvlink_bytes_per_s: float
    pcie_bytes_per_s: float
    gpus_per_node: int
    nvlink_domain: int
    inter_bytes_per_s: float
    measured_matmul_flops: Mapping[str, float] = field(hash=False)
    training_measured: bool
    sources: Mapping[str, str] = field(hash=False, compare=False, repr=False)
    note: str = field(default="", compare=False, repr=False)


def load_preset(name: str) -> Any:
    """Return the content of ``presets/<name>.yaml``."""
    return packaged((_PRESETS / f"{name}.yaml").read_text(encoding="utf-8"))


def _gpu(gpu_id: str, entry: Mapping[str, Any], sources: Mapping[str, str]) -> Gpu:
    def cite(key: str) -> str:
        note = entry[key].get("note")
        return sources[entry[key]["source"]] + (f" ({note})" if note else "")

    def value(key: str, unit: float = 1) -> float:
        return float(entry[key]["value"]) * unit

    memory = round(value("memory_gb", GB))
    measured = "usable_mib" in entry
    cited = {key: cite(key) for key in entry if isinstance(entry[key], dict)}
    return Gpu(
        id=gpu_id,
        name=entry["name"],
        vendor=entry["vendor"],
        memory_bytes=memory,
        usable_bytes=round(value("usable_mib", MIB)) if measured else memory,
        usable_measured=measured,
        peak_flops={p: value(k, TFLOP) for p in PRECISIONS if (k := f"{p}_dense_tflops") in entry},
        hbm_bytes_per_s=value("hbm_tb_per_s", TB),
        nvlink_bytes_per_s=value("nvlink_gb_per_s", GB),
        pcie_bytes_per_s=value("pcie_gb_per_s", GB),
        gpus_per_node=round(value("gpus_per_node")),
        nvlink_domain=round(value("nvlink_domain_gpus")),
        inter_bytes_per_s=value("inter_gb_per_s", GB),
        measured_matmul_flops={
            p: value(k, TFLOP) for p in PRECISIONS if (k := f"measured_{p}_tflops") in entry
        },
        training_measured=bool(entry["trained"]),
        sources=_by_field(cited),
        note=entry.get("note", ""),
    )


_FIELD_OF_KEY = {
    "memory_gb": "memory_bytes",
    "usable_mib": "usable_bytes",
    "hbm_tb_per_s": "hbm_bytes_per_s",
    "nvlink_gb_per_s": "nvlink_bytes_per_s",
    "nvlink_domain_gpus": "nvlink_domain",
    "pcie_gb_per_s": "pcie_bytes_per_s",
    "inter_gb_per_s": "inter_bytes_per_s",
    "gpus_per_node": "gpus_per_node",
}


def _by_field(cited: Mapping[str, str]) -> dict[str, str]:
    """Return the sources under the names of `Gpu`, peaks as ``peak_flops.bf16``."""
    named = {}
    for key, source in cited.items():
        if key.endswith("_dense_tflops"):
            named["peak_flops." + key.removesuffix("_dense_tflops")] = source
        elif key.startswith("measured_"):
            precision = key.removeprefix("measured_").removesuffix("_tflops")
            named["measured_matmul_flops." + precision] = source
        else:
            named[_FIELD_OF_KEY[key]] = source
    named.setdefault("usable_bytes", named["memory_bytes"] + " (spec, assumed)")
    return named


@functools.cache
def gpus() -> Mapping[str, Gpu]:
    """Return all known GPUs by id, in the order of the data file."""
    data = load_preset("gpus")
    return {k: _gpu(k, entry, data["sources"]) for k, entry in data["gpus"].items()}


@functools.cache
def aliases() -> Mapping[str, str]:
    """Return every accepted name of a GPU, ids included, with its id."""
    names = {gpu_id: gpu_id for gpu_id in gpus()}
    for gpu_id, entry in load_preset("gpus")["gpus"].items():
        names |= dict.fromkeys(entry["aliases"], gpu_id)
    return names


def find_gpu(name: object) -> Gpu:
    """Return a GPU by id or alias, in any case, blanks and underscores as dashes.

    Raises
    ------
    ValueError
        For an unknown name, with the nearest known one.
    """
    if isinstance(name, str):
        key = "-".join(name.lower().replace("_", " ").replace("-", " ").split())
        key = key.removeprefix("nvidia-").removeprefix("amd-").removeprefix("instinct-")
        if key in aliases():
            return gpus()[aliases()[key]]
        near = difflib.get_close_matches(key[:64], aliases(), n=1, cutoff=0.6)
        guess = f" Did you mean '{near[0]}'?" if near else ""
    else:
        guess = ""
    shown = f"'{name[:40]}'" if isinstance(name, str) else f"a {type(name).__name__}"
    msg = f"{shown} is not a known GPU.{guess} Known: {', '.join(gpus())}."
    raise ValueError(msg)
