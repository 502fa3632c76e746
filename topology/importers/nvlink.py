"""NVLink by GPU model, and what a matrix of link classes says about a node."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ..units import GB
from .imported import few

Pairs = Mapping[tuple[int, int], str]

# Nearest first; the meaning is nvidia-smi's legend. SOC is the old name of SYS.
CLASSES = ("PIX", "PXB", "PHB", "NODE", "SYS")
_SAME = {"SOC": "SYS"}

# (GPU model, bytes/s of one link and direction, links of one GPU). Rates: NVLink1 20, 2 to 4 25, 5
# 50 GB/s (network table of stas00/ml-engineering). The small chips with NVLink3 bridges run 14.0625
# GB/s a link (4 links are 56.25 GB/s, 112.5 both ways: RTX A6000 data sheet). Counts: the same
# table, and the sums of measured matrices (H800 8, H20 18). A model is matched in this order.
_MODELS: tuple[tuple[str, float, int], ...] = (
    (r"\bgb[23]00|\bb[123]00", 50 * GB, 18),
    (r"\bgh?200|\bh[12]00|\bh20\b", 25 * GB, 18),
    (r"\bh800", 25 * GB, 8),
    (r"\ba800", 25 * GB, 8),
    (r"\ba100", 25 * GB, 12),
    (r"\ba30\b", 25 * GB, 4),
    (r"\ba(?:40|4500|5000|5500|6000)\b|\brtx a[456]|\b3090", 14.0625 * GB, 4),
    (r"\bv100|\bgv100|\btitan v\b", 25 * GB, 6),
    (r"\b2080 ?ti|\btitan rtx|\bquadro rtx [68]000", 25 * GB, 2),
    (r"\bquadro rtx 5000|\b2080\b", 25 * GB, 1),
    (r"\bp100", 20 * GB, 4),
)
MOST_LINKS = 18
"""Links of the largest GPU known; a pair cannot have more of its own."""


def _model(gpu: str) -> tuple[str, float, int] | None:
    name = re.sub(r"[-_]+", " ", gpu.lower())[:200]
    return next((row for row in _MODELS if re.search(row[0], name)), None)


def link_bytes_per_s(gpu: str) -> float | None:
    """Return the rate of one NVLink of a GPU model, bytes/s per direction; None if not known."""
    row = _model(gpu)
    return None if row is None else row[1]


def link_count(gpu: str) -> int:
    """Return the NVLinks of a GPU model, the largest known where the model is not."""
    row = _model(gpu)
    return MOST_LINKS if row is None else row[2]


def canonical(cell: str) -> str:
    """Return the class of a matrix cell under its present name."""
    return _SAME.get(cell, cell)


def rank(kind: str) -> tuple[int, int]:
    """Order link classes from best to worst."""
    if kind.startswith("NV"):
        return (0, -int(kind[2:]))
    if kind == "XGMI":
        return (0, 0)
    return (1 + CLASSES.index(kind), 0) if kind in CLASSES else (1 + len(CLASSES), 0)


def worse(one: str, other: str) -> str:
    """Return the slower of two classes."""
    return max(one, other, key=rank)


@dataclass(frozen=True, slots=True)
class Fabric:
    """NVLink of one node.

    Attributes
    ----------
    domain
        GPUs that the plan may take as one NVLink domain.
    gpu_bytes_per_s
        All links of the worst GPU, per direction; None where the model is not known.
    pair_bytes_per_s
        By class, per direction.
    warnings
        Lost links and other damage.
    """

    domain: int
    gpu_bytes_per_s: float | None
    pair_bytes_per_s: Mapping[str, float]
    warnings: tuple[str, ...]


def fabric(pairs: Pairs, gpus: int, gpu: str) -> Fabric:
    """Judge the NVLink fabric of a node from the classes of its GPU pairs."""
    links = {pair: int(kind[2:]) for pair, kind in pairs.items() if kind.startswith("NV")}
    if not links:
        return Fabric(1, None, {}, ())
    warnings: list[str] = []
    rate = link_bytes_per_s(gpu)
    if rate is None:
        named = f"'{gpu[:40]}' is not a GPU whose NVLink is known" if gpu else "no GPU model"
        warnings.append(f"{named}: NVLink bandwidth is left open; name the GPU (--gpu)")
    sizes = _components(links, gpus)
    # Switched: every pair shows all links of the GPU. More than a GPU has cannot be one pair's own.
    most, sums = max(links.values()), _sums(links, gpus)
    switched = max(sums) > link_count(gpu)
    per_gpu = min(links.values()) if switched else min(n for n in sums if n)
    if switched or sizes[0] != sizes[-1]:
        warnings += _damage(pairs, links, sizes)
    if most > MOST_LINKS:
        warnings.append(f"NV{most} is more than the {MOST_LINKS} links of any known GPU")
    return Fabric(
        domain=min(sizes),
        gpu_bytes_per_s=None if rate is None else per_gpu * rate,
        pair_bytes_per_s={} if rate is None else {f"NV{n}": n * rate for n in links.values()},
        warnings=tuple(warnings),
    )


def _sums(links: Mapping[tuple[int, int], int], gpus: int) -> list[int]:
    """Return for each GPU the links of its row."""
    sums = [0] * gpus
    for (i, j), n in links.items():
        sums[i] += n
        sums[j] += n
    return sums


def _components(links: Mapping[tuple[int, int], int], gpus: int) -> list[int]:
    """Return the sizes of the groups that NVLink connects."""
    parent = list(range(gpus))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = i = parent[parent[i]]
        return i

    for i, j in links:
        parent[root(i)] = root(j)
    return sorted(Counter(map(root, range(gpus))).values())


def switch_gpus(pairs: Pairs, gpus: int) -> int | None:
    """Return the GPUs behind one PCIe switch; None where NVLink joins any, or switches differ.

    PIX and PXB paths stay below the host; every other class goes through it.
    """
    if any(kind.startswith("NV") or kind == "XGMI" for kind in pairs.values()):
        return None
    sizes = _components({p: 1 for p, kind in pairs.items() if kind in ("PIX", "PXB")}, gpus)
    return sizes[0] if sizes and sizes[0] == sizes[-1] > 1 else None


def _damage(pairs: Pairs, links: Mapping[tuple[int, int], int], sizes: list[int]) -> list[str]:
    """Name the lost links of a fabric whose pairs ought to be alike."""
    found = []
    if sizes[0] != sizes[-1]:
        found.append(
            f"NVLink joins groups of {', '.join(map(str, sizes))} GPUs: the smallest is taken as "
            "the domain; leave the odd GPUs out to plan with the larger one"
        )
        return found
    most = max(links.values())
    weak = [f"GPU{i}-GPU{j} NV{n}" for (i, j), n in links.items() if n < most]
    if weak:
        found.append(f"{few(weak)} where others have NV{most}: the fewer links are taken")
    lost = [f"GPU{i}-GPU{j} {kind}" for (i, j), kind in pairs.items() if (i, j) not in links]
    if lost:
        found.append(f"{few(lost)} where others have NV{most}: a link is down")
    return found
