"""``rocm-smi --showtopo``: weights, hops and link types between AMD GPUs, and their NUMA nodes."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations

from .imported import Dump, Imported, few

NAME = "rocm-smi"
COMMAND = "rocm-smi --showtopo"

MOST_GPUS = 256
_SECTIONS = re.compile(r"(Weight|Hops|Link Type|Link accessibility)s? between two", re.IGNORECASE)
_ROW = re.compile(r"GPU(\d{1,3})((?:\s+(?:XGMI|PCIE|PCIe|N/A|True|False|\d{1,6}))+)")
_NUMA = re.compile(r"GPU\[(\d{1,3})\]\s{0,20}:\s{0,20}\(Topology\) Numa Node:\s{0,5}(-?\d{1,4})")
_MODEL = re.compile(r"Card [Ss]eries:\s*([^\n]{2,60})|\b(MI\d{2,3}[AX]?)\b")
_SAME_BOARD = 15  # weight of one Infinity Fabric hop


def matches(text: str) -> bool:
    """Tell whether the text is this command's."""
    return bool(_SECTIONS.search(text)) or "ROCm System Management" in text


def read(dump: Dump) -> Imported:
    """Read the sections that are there; ``--showtopotype`` alone is enough.

    Raises
    ------
    InputError
        SP130 where there is no matrix.
    """
    tables = _tables(dump.text)
    if not tables:
        raise dump.refuse("holds no matrix between GPUs.", f"Run: {COMMAND}.")
    warnings = list(dump.notes)
    gpus = sorted({gpu for rows in tables.values() for gpu in rows})
    count = max(len(gpus), *(len(row) for rows in tables.values() for row in rows.values()))
    kinds = _kinds(tables.get("link type", {}), gpus, warnings)
    _even(tables.get("weight", {}), kinds, warnings)
    if not kinds and count > 1:
        warnings.append("no section of link types: run rocm-smi --showtopo for them")
    numa: dict[str, list[int]] = {}
    for gpu, node in dict(_NUMA.findall(dump.text)).items():
        numa.setdefault(node, []).append(int(gpu))
    joined = bool(kinds) and set(kinds.values()) == {"XGMI"}
    found = _MODEL.search(dump.text)
    return Imported(
        format=NAME,
        gpu=dump.gpu or (next(filter(None, found.groups())).strip() if found else ""),
        gpus_per_node=count,
        links=dict(Counter(kinds.values())),
        nvlink_domain=count if joined or count == 1 else 1 if kinds else None,
        numa=tuple((node, tuple(members)) for node, members in sorted(numa.items())),
        warnings=tuple(warnings),
    )


def _tables(text: str) -> dict[str, dict[int, list[str]]]:
    """Return the rows of each section."""
    tables: dict[str, dict[int, list[str]]] = {}
    section = ""
    for line in text.split("\n"):
        title = _SECTIONS.search(line)
        if title:
            section = title[1].lower()
            continue
        row = _ROW.search(line)
        if row and section:
            tables.setdefault(section, {}).setdefault(int(row[1]), row[2].split()[:MOST_GPUS])
    return tables


def _kinds(
    rows: dict[int, list[str]], gpus: list[int], warnings: list[str]
) -> dict[tuple[int, int], str]:
    """Return the link type of each pair; PCIe where the two directions differ."""
    kinds, odd = {}, []

    def cell(row: int, column: int) -> str | None:
        cells = rows.get(row, [])
        found = cells[column].upper() if column < len(cells) else ""
        return found if found in ("XGMI", "PCIE") else None

    for (i, one), (j, other) in combinations(enumerate(gpus), 2):
        both = [kind for kind in (cell(one, j), cell(other, i)) if kind]
        if both:
            kinds[i, j] = min(both)  # PCIE sorts before XGMI
        if rows and len(set(both)) != 1:
            odd.append(f"GPU{one}-GPU{other}")
    if odd:
        warnings.append(f"cells missing or asymmetric, the worse value is taken: {few(odd)}")
    return kinds


def _even(
    rows: dict[int, list[str]], kinds: dict[tuple[int, int], str], warnings: list[str]
) -> None:
    """Warn where GPUs are not equally far from each other."""
    weights = {
        int(cell)
        for i, row in rows.items()
        for j, cell in enumerate(row)
        if i != j and cell.isdigit()
    }
    if len(weights) > 1 and "XGMI" in kinds.values():
        far = [str(weight) for weight in sorted(weights) if weight > _SAME_BOARD]
        warnings.append(
            f"weights {', '.join(map(str, sorted(weights)))} differ: pairs of weight {few(far)} go "
            "over several links, so some pairs have less than the GPU's full bandwidth"
        )
