"""Which format a text has; and what to run instead where it has none."""

from __future__ import annotations

import re

from ..errors import InputError, Problem
from .imported import Dump, Imported, Importer
from .register import FORMATS, IMPORTERS

# What people paste in place of a topology, and the command that gives one.
_INSTEAD: tuple[tuple[str, str, str], ...] = (
    (r"NVIDIA-SMI|nvidia-smi|GPU \d+: NVIDIA", "output of nvidia-smi, but no matrix",
     "nvidia-smi topo -m"),
    (r"Link \d+: .*GB/s", "a list of NVLinks (nvidia-smi nvlink)", "nvidia-smi topo -m"),
    (r"<topology|<object type=\"Machine\"|^Machine \(", "output of lstopo",
     "NCCL_TOPO_DUMP_FILE=topo.xml with any NCCL job"),
    (r"CA '\w+'|Port \d+:\s*\n\s*State:", "the state of adapters (ibstat)", "ibnetdiscover"),
    (r"NCCL INFO|nccl-tests", "a log of NCCL", "NCCL_TOPO_DUMP_FILE=topo.xml with the same job"),
    (r"rocm-smi|amd-smi|GPU\[\d+\]", "output of rocm-smi without a matrix", "rocm-smi --showtopo"),
    (r"^\s*<!DOCTYPE html|<html", "a web page", "the command itself, and save its text"),
)  # fmt: skip
_LOOKED_AT = 500_000  # a format shows itself within its first lines


def detect(dump: Dump) -> Importer:
    """Return the importer of a text.

    Raises
    ------
    InputError
        SP130 with the command to run where no format fits.
    """
    head = dump.text[:_LOOKED_AT]
    for importer in IMPORTERS:
        if importer.matches(head):
            return importer
    for pattern, what, command in _INSTEAD:
        if re.search(pattern, head, re.MULTILINE):
            raise dump.refuse(f"is {what}.", f"Run: {command}.")
    hint = "Name the format (--format), or give one of: " + "; ".join(i.command for i in IMPORTERS)
    raise dump.refuse("has no format that is known.", hint + ".")


def read(dump: Dump, form: str = "") -> Imported:
    """Read a text in its own format, or in the one that is named.

    Raises
    ------
    InputError
        SP130 where it cannot be used.
    """
    importer = named(form) if form else detect(dump)
    if len(dump.text) > importer.most_bytes:
        message = f"is larger than {importer.most_bytes // 1_000_000} MB."
        raise dump.refuse(message, f"Give the output of one command: {importer.command}.")
    return importer.read(dump)


def named(form: str) -> Importer:
    """Return the importer of a format by name.

    Raises
    ------
    InputError
        SP102 for an unknown name.
    """
    for importer in IMPORTERS:
        if importer.name == form:
            return importer
    hint = f"Known: {', '.join(FORMATS)}."
    raise InputError(Problem("--format", 0, 0, "", "SP102", f"'{form[:40]}' is not known.", hint))
