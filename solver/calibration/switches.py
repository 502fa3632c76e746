"""The switches of the software that a row states, or that follow where it is silent."""

from __future__ import annotations

import re

from topology.cluster import NodeGroup

from ..cost.software import CudaGraphs, Schedule, Software
from ..job.job import Job
from .rows import Row

FULL_GRAPHS_FROM = 2026.4
"""Release from which Megatron-class stacks capture whole iterations in low precision on Blackwell,
where a row doesn't say (assumed: recipes of these releases name it)."""
DEDUPLICATED_FROM = 2025.8
"""Release from which Megatron-class stacks dispatch by HybridEP on NVLink racks, where a row
doesn't say (assumed: its first release in the recipes)."""

MLPERF_ROUNDS = {"3.0": 2023.5, "3.1": 2023.85, "4.0": 2024.45, "4.1": 2024.85, "5.0": 2025.4}
"""When the results of a round of MLPerf Training were published (mlcommons.org)."""

_OFF = re.compile(
    r"all overlap disabled|tp[- _]comm[- _]overlap[ =]*(off|false)|tp overlap off", re.I
)
_SCHEDULES: dict[str, Schedule] = {"ZB-H1": "zb-h1", "ZB-1p": "zb-1p", "ZB-2p": "zb-2p"}
_ASYNC = re.compile(r"async ?tp", re.I)
_GRAPHS: dict[str, CudaGraphs] = {
    "none": "none",
    "full_iteration": "full",
    "unknown": "none",
    "yes": "partial",
}


def software_of(row: Row, group: NodeGroup, job: Job) -> Software:
    """Read the switches of the software from the row."""
    year = released(row.text("n_stack_version"))
    overlap = row.text("overlap")
    graphs = row.text("n_cuda_graph", default="none")
    low = job.recipe.precision in ("mxfp8", "nvfp4")
    captured: CudaGraphs = "partial" if graphs.startswith("te") else _GRAPHS.get(graphs, "none")
    moe = job.transformer.moe is not None
    if graphs == "unknown" and low and moe and year is not None and year >= FULL_GRAPHS_FROM:
        captured = "full"
    recipe = row.text("n_fp8_recipe")
    modules = row.text("n_recompute_modules") or (
        "operators" if row.text("n_stack") == "torchtitan" else "core_attn"
    )
    return Software(
        released=year,
        sequence_parallel=row.number("n_sp", default=1) > 0,
        tp_overlap=False if _OFF.search(overlap) else True if _ASYNC.search(overlap) else None,
        dp_overlap="not overlapped" not in overlap and "all overlap disabled" not in overlap,
        ep_overlap=bool(re.search("a2a overlap|EP overlap on", overlap)),
        deduplicated=_deduplicated(row, group, job, year),
        static_routing=row.number("n_token_drop", default=0) > 0,
        cuda_graphs=captured,
        fp8_scaling="row" if "row" in recipe else "block" if "block" in recipe else "tensor",
        recompute_modules=tuple(modules.split(",")),
        schedule=_SCHEDULES.get(row.text("n_schedule"), "1f1b"),
        offloaded_optimizer="optimizer" in row.text("n_offload"),
    )


def released(version: str) -> float | None:
    """Year of a release: NVIDIA's containers are named by year and month, MLPerf's by round."""
    container = re.fullmatch(r"(2[2-9])\.(\d\d)(\..*)?", version)
    if container:
        return 2000 + int(container[1]) + (int(container[2]) - 1) / 12
    return MLPERF_ROUNDS.get(version.removeprefix("v"))


def _deduplicated(row: Row, group: NodeGroup, job: Job, year: float | None) -> bool:
    """Whether dispatch sends a token once to a rank; where unknown, by release and hardware.

    HybridEP on NVLink racks from its first release on, DeepEP for latent-attention models (whose
    recipes it came with), plain all-to-all else.
    """
    stated = row.text("n_moe_dispatcher")
    if stated and stated != "unknown":
        return stated in ("hybridep", "deepep")
    rack = group.gpu.nvlink_domain > group.gpu.gpus_per_node
    late = year is None or year >= DEDUPLICATED_FROM
    dropless = row.number("n_token_drop", default=0) <= 0
    return dropless and ((rack and late) or job.transformer.mla is not None)
