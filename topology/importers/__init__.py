"""Read the machine from what an engineer can paste; see docs/topology.md.

One file a format, each with ``matches`` (does a text look like it?) and ``read`` (text to
`Imported`); `register.IMPORTERS` lists them. `load` reads files, `cluster_text` writes the
``cluster:`` mapping of a problem file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .detect import read
from .imported import Imported, Importer
from .merge import merge
from .register import FORMATS, IMPORTERS
from .text import decode, read_dump
from .write import ClusterText, cluster_text

__all__ = [
    "FORMATS",
    "IMPORTERS",
    "ClusterText",
    "Imported",
    "Importer",
    "cluster_text",
    "load",
    "load_bytes",
]


def load(paths: Sequence[str | Path], form: str = "", gpu: str = "") -> Imported:
    """Read one machine from one or several files.

    Parameters
    ----------
    paths
        Files: e.g. one node's matrix and the fabric's file.
    form
        Name of the format of all of them; empty: detected for each.
    gpu
        GPU model, where the files do not tell it: NVLink's bandwidth depends on it.

    Raises
    ------
    InputError
        With every file that cannot be used, and what to run instead.
    """
    return merge([read(read_dump(path, gpu), form) for path in paths])


def load_bytes(raw: bytes, name: str, form: str = "", gpu: str = "") -> Imported:
    """Read one machine from the bytes of one file; as `load`."""
    return read(decode(raw, name, gpu), form)
