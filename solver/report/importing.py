"""A cluster imported from files, as the ``cluster:`` mapping of a problem file."""

from __future__ import annotations

from collections.abc import Sequence

from topology.importers import cluster_text, load

from .blocks import Plain, Report


def import_topology(
    files: Sequence[str],
    source: str | None = None,
    gpu: str | None = None,
    nodes: int | None = None,
    gpus_per_node: int | None = None,
) -> Report:
    """Write the cluster that one or several files of one machine describe."""
    imported = load(files, source or "", gpu or "")
    found = cluster_text(imported, gpu or "", nodes, gpus_per_node)
    notes = tuple(f"warning: {text}" for text in found.warnings)
    data = {"cluster": found.cluster}
    texts = {"yaml": lambda: found.text}
    return Report((Plain(found.text),), data, (found.cluster,), texts, notes)
