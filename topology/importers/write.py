"""From what was imported to the ``cluster:`` mapping of a problem file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import ValidationError

from ..errors import InputError, Problem
from ..hardware import Gpu, aliases, find_gpu
from ..spec import ClusterSpec
from ..units import GB
from .imported import Imported


@dataclass(frozen=True, slots=True)
class ClusterText:
    """A cluster that was imported.

    Attributes
    ----------
    cluster
        The mapping.
    text
        The same as YAML, with a comment that says what each value is from.
    warnings
        What was damaged, doubtful or assumed.
    """

    cluster: dict[str, Any]
    text: str
    warnings: tuple[str, ...]


def known_gpu(name: str) -> Gpu | None:
    """Return the GPU that a file's own words name, e.g. ``NVIDIA-H100-80GB-HBM3``; None if none."""
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    words = re.sub(r"^(?:nvidia|amd|tesla|instinct|geforce)-|-(?:ltd|co|inc)$", "", words)
    words = words.removeprefix("tesla-").removeprefix("instinct-")
    while words:
        if words in aliases():
            return find_gpu(words)
        words = words.rpartition("-")[0]  # h100-80gb-hbm3-x, v100-sxm2-32gb
    return None


def cluster_text(
    imported: Imported, gpu: str = "", nodes: int | None = None, gpus_per_node: int | None = None
) -> ClusterText:
    """Write the cluster.

    Parameters
    ----------
    imported
        What the files say.
    gpu, nodes, gpus_per_node
        What the user says; it goes before the files.

    Raises
    ------
    InputError
        SP102 where the GPU is missing or unknown, SP131 where the values do not fit together.
    """
    model = _model(imported, gpu)
    warnings = list(imported.warnings)
    cluster: dict[str, Any] = {"gpu": model.id}
    notes = {"gpu": "given" if gpu else f"the file says '{imported.gpu}'"}
    _sizes(imported, (nodes, gpus_per_node), cluster, notes, warnings)
    per_node = cluster.get("gpus_per_node", model.gpus_per_node)
    _nvlink(imported, model, per_node, cluster, notes)
    _network(imported, model, per_node, cluster, notes, warnings)
    try:
        ClusterSpec.model_validate(cluster)
    except ValidationError as error:
        reasons = "; ".join(str(e["msg"]).removeprefix("Value error, ") for e in error.errors())
        hint = "Give --nodes or --gpus-per-node, or mend the cluster mapping by hand."
        raise InputError(
            Problem(imported.format, 0, 0, "cluster", "SP131", reasons[:400], hint)
        ) from None
    return ClusterText(cluster, _yaml(imported, cluster, notes), tuple(dict.fromkeys(warnings)))


def _model(imported: Imported, gpu: str) -> Gpu:
    if gpu:
        try:
            return find_gpu(gpu)
        except ValueError as error:
            hint = "See: shardplan hardware list."
            raise InputError(Problem("--gpu", 0, 0, "", "SP102", str(error), hint)) from None
    found = known_gpu(imported.gpu)
    if found is None:
        said = f"names '{imported.gpu[:60]}'" if imported.gpu else "does not name the GPU"
        known = "which is not a known GPU" if imported.gpu else "and links alone do not tell it"
        hint = "Give it: --gpu h100 (see: shardplan hardware list)."
        message = f"the file {said}, {known}."
        raise InputError(Problem(imported.format, 0, 0, "gpu", "SP102", message, hint))
    return found


def _sizes(
    imported: Imported,
    given: tuple[int | None, int | None],
    cluster: dict[str, Any],
    notes: dict[str, str],
    warnings: list[str],
) -> None:
    """Set nodes and GPUs per node."""
    nodes, per_node = given
    cluster["nodes"] = nodes or imported.node_count or 1
    notes["nodes"] = "given" if nodes else "counted" if imported.node_count else "one node is shown"
    if not nodes and not imported.node_count:
        warnings.append("one node is shown: give --nodes N, or the fabric's file beside it")
    if per_node or imported.gpus_per_node:
        cluster["gpus_per_node"] = per_node or imported.gpus_per_node
        notes["gpus_per_node"] = "given" if per_node else "counted"
    else:
        warnings.append("GPUs per node are not in the file: the GPU's reference node is taken")


def _nvlink(
    imported: Imported, gpu: Gpu, per_node: int, cluster: dict[str, Any], notes: dict[str, str]
) -> None:
    """Set NVLink domain and bandwidth; a rack's domain from its blocks where the GPU has racks."""
    domain = imported.nvlink_domain
    racks = gpu.nvlink_domain > gpu.gpus_per_node
    if racks and imported.rack_domains and imported.block_nodes:
        block = min(imported.block_nodes) * per_node
        most = min(block, gpu.nvlink_domain, cluster["nodes"] * per_node)
        cluster["nvlink_domain"] = most // per_node * per_node or per_node
        notes["nvlink_domain"] = "smallest block of the file"
    elif domain is not None and not (racks and domain == per_node):
        fits = domain if per_node % domain == 0 else 1
        cluster["nvlink_domain"] = fits
        notes["nvlink_domain"] = (
            "GPUs that NVLink joins"
            if fits == domain
            else (f"{domain} GPUs do not divide a node of {per_node}: none")
        )
    rate = imported.nvlink_gpu_bytes_per_s
    if cluster.get("nvlink_domain") == 1:
        cluster["intra"] = "none"
        notes["intra"] = "GPUs meet over PCIe"
        if imported.pcie_switch_gpus and per_node % imported.pcie_switch_gpus == 0:
            cluster["pcie_switch_gpus"] = imported.pcie_switch_gpus
            notes["pcie_switch_gpus"] = "pairs of class PIX or PXB"
    elif rate:
        cluster["intra"] = f"{rate / GB:g}GB/s"
        notes["intra"] = "links of the worst GPU, per direction"


def _network(
    imported: Imported,
    gpu: Gpu,
    per_node: int,
    cluster: dict[str, Any],
    notes: dict[str, str],
    warnings: list[str],
) -> None:
    """Set the network; of adapters that GPUs share the rate is assumed to be the usual one."""
    shared = imported.nics is not None and 0 < imported.nics < per_node
    if shared and imported.nics and per_node % imported.nics == 0 and cluster["nodes"] > 1:
        cluster["nics_per_node"] = imported.nics
        notes["nics_per_node"] = "counted"
        share = gpu.inter_bytes_per_s * imported.nics / per_node
        cluster["inter"] = {"per_gpu": f"{share / GB:g}GB/s"}
        notes["inter"] = f"assumed: adapters as of {gpu.name}'s usual node, {imported.nics} of them"
        if not imported.inter_node_bytes_per_s:
            few = f"{imported.nics} adapters for {per_node} GPUs"
            warnings.append(f"{few}: {share / GB:g} GB/s a GPU is assumed, see inter")
    if imported.inter_node_bytes_per_s:
        cluster["inter"] = {"per_node": f"{imported.inter_node_bytes_per_s / GB:g}GB/s"}
        notes["inter"] = "adapters of the worst node, per direction"
    ratio = imported.oversubscription
    if ratio is not None:
        cluster["oversubscription"] = round(min(max(ratio, 1.0), 100.0), 3)
        notes["oversubscription"] = "links down over links up of the worst leaf"
    if imported.leaf_nodes and cluster["nodes"] > 1:
        leaf = min(imported.leaf_nodes)
        if leaf <= cluster["nodes"]:
            cluster["leaf_nodes"] = leaf
            notes["leaf_nodes"] = "nodes below the smallest leaf switch"


def _yaml(imported: Imported, cluster: dict[str, Any], notes: dict[str, str]) -> str:
    lines = [f"# Imported by shardplan: {imported.format}.", "cluster:"]
    for key, value in cluster.items():
        shown = yaml.safe_dump(value, default_flow_style=True, width=1000).strip()
        shown = shown.removesuffix("...").strip()
        # A file's own words stand in a comment: no line end may get out of it.
        note = re.sub(r"[^\x20-\x7e]+", " ", notes[key])[:120]
        lines.append(f"  {key}: {shown}  # {note}")
    return "\n".join([*lines, ""])
