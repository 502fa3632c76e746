"""``nvidia-smi topo -m``: the matrix of links between GPUs and adapters.

Pastes lose tabs, glue cells, wrap lines and gain prefixes, so rows are read as sequences of known
tokens, as many as the header has devices, never by blanks or columns.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations

from .imported import Dump, Imported, few
from .nvlink import canonical, fabric, rank, switch_gpus, worse

NAME = "nvidia-smi"
COMMAND = "nvidia-smi topo -m"

MOST_GPUS = 256
_CELL = r"(?:NV\d{1,2}|SYS|SOC|NODE|PHB|PXB|PIX|X(?![A-WYZa-z]))"
_GAP = r"[\s|`*]{0,40}"
_ROW = re.compile(rf"GPU(\d{{1,4}}){_GAP}(?={_CELL})")
_NEXT = re.compile(rf"{_GAP}({_CELL})")
_CONTINUED = re.compile(rf"(?:^|[\s|]){_CELL}(?!\s*=)")
_LABEL = re.compile(r"GPU\d|NIC\d|\bmlx|\bibp?\d|\brdma|\bbond|\befa|\broce|\bhfi")
_HEADER_WORDS = {"cpu", "numa", "gpu", "affinity", "id"}
_DEVICE = re.compile(r"[A-Za-z][\w.-]*\d[\w.-]*")
_OTHER_ROW = re.compile(r"(?:\s|^)(?:[A-Za-z][\w.-]*\d[\w.-]*)\s+(?:X|SYS|NODE|PHB|PXB|PIX)\b")
# Cells of topo -p2p: okay, chipset, GPU, topology not supported, disabled by registry, unknown.
_P2P = re.compile(r"\s*(?:OK|CNS|GNS|TNS|NS|DR|U)\b")
_P2P_ROW = re.compile(r"GPU\d{1,4}[ \t|]{1,40}(?:X[ \t|]{1,40})?(?:OK|CNS|GNS|TNS|NS|DR|U)\b")
_MODEL = re.compile(
    r"GPU \d{1,3}: ([^(\n]{3,60}?) \(UUID"
    r"|\|\s{1,5}\d{1,3}\s{1,3}((?:NVIDIA|Tesla) [^|\n]{2,40}?)\s{2,}"
)


def matches(text: str) -> bool:
    """Tell whether the text holds a topology matrix, or the p2p matrix that is refused."""
    return bool(_ROW.search(text) or _P2P_ROW.search(text))


@dataclass(slots=True)
class _Row:
    gpu: int
    cells: list[str | None]
    rest: str


@dataclass(slots=True)
class _Matrix:
    """Rows and columns as far as they could be read."""

    gpus: list[int] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    rows: dict[int, _Row] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def nics(self) -> int:
        return sum(not column.startswith("GPU") for column in self.columns)


def read(dump: Dump) -> Imported:
    """Read the matrix.

    Raises
    ------
    InputError
        SP130 for a ``topo -p2p`` matrix, and where no row can be read.
    """
    text = dump.text
    matrix = _matrix(text)
    if not matrix.rows:
        if _P2P_ROW.search(text):
            message = "is the matrix of nvidia-smi topo -p2p: it says which pairs may, not how."
            raise dump.refuse(message, f"Run: {COMMAND}.")
        raise dump.refuse("holds no row of a topology matrix.", f"Run: {COMMAND}.")
    found = _MODEL.search(text)
    gpu = dump.gpu or (next(filter(None, found.groups())) if found else "")
    return _facts(matrix, gpu, dump.notes)


def _matrix(text: str) -> _Matrix:
    """Read header and rows of the first matrix of the text."""
    matrix, last = _Matrix(), None
    header: list[str] = []
    for line in text.split("\n"):
        starts = list(_ROW.finditer(line))
        if not starts:
            if not matrix.rows:
                header = _header(header, line)
            elif last is not None and _continues(line, last, len(header)):
                _extend(last, line, len(header))
            elif line.strip():
                last = None if "=" in line or _OTHER_ROW.search(line) else last
            continue
        ends = [match.start() for match in starts[1:]] + [len(line)]
        for match, stop in zip(starts, ends, strict=True):
            row = _row(int(match[1]), line[match.end() : stop], len(header))
            if row is None:
                continue
            if row.gpu in matrix.rows:
                matrix.warnings.append("holds the matrix more than once: the first one is read")
                return _aligned(matrix, header)
            matrix.rows[row.gpu] = last = row
    return _aligned(matrix, header)


def _header(header: list[str], line: str) -> list[str]:
    """Return the device columns once this line, which is no row, has been looked at."""
    at = _LABEL.search(line)
    if at is None:
        return header
    start = line.find("GPU", 0)
    text = re.sub(r"(?<=[^\s|])(?=(?:GPU|NIC)\d)", " ", line[at.start() if start < 0 else start :])
    tokens = [token for token in re.split(r"[\s|`*]+", text) if token]
    devices = [token for token in tokens if _DEVICE.fullmatch(token)]
    words = {token.lower() for token in tokens} - {token.lower() for token in devices}
    if not devices or not words <= _HEADER_WORDS:
        return header
    # A wrapped header goes on; a new one starts with GPU0 again.
    return devices if devices[0] in header else header + devices


def _row(gpu: int, text: str, columns: int) -> _Row | None:
    cells: list[str | None] = []
    at = 0
    most = columns or 2 * MOST_GPUS
    while len(cells) < most and (match := _NEXT.match(text, at)):
        cells.append(match[1])
        at = match.end()
    rest = text[at:]
    if _P2P.match(rest) or gpu >= MOST_GPUS:
        return None
    return _Row(gpu, *_unglued(cells, rest))


def _unglued(cells: list[str | None], rest: str) -> tuple[list[str | None], str]:
    """Give a digit back to the affinity where ``NV4`` and ``0-23`` were read as ``NV40-23``."""
    last = cells[-1] if cells else None
    if last and last.startswith("NV") and len(last) > len("NV1") and rest[:1] in {"-", ","}:
        cells[-1], rest = last[:-1], last[-1] + rest
    return cells, rest


def _continues(line: str, row: _Row, columns: int) -> bool:
    if len(row.cells) >= columns or _OTHER_ROW.search(line):
        return False
    return bool(_CONTINUED.search(line)) and "=" not in line


def _extend(row: _Row, line: str, columns: int) -> None:
    at = re.search(_CELL, line)
    assert at is not None  # _continues has seen one
    more = _row(row.gpu, line[at.start() :], columns - len(row.cells))
    if more is not None:
        row.cells += more.cells
        row.rest += " " + more.rest


def _aligned(matrix: _Matrix, header: list[str]) -> _Matrix:
    """Settle which column is which, and bring every row to it."""
    header = [re.sub(r"^GPU0+(?=\d)", "GPU", name) for name in header]
    listed = [int(name[3:]) for name in header if re.fullmatch(r"GPU\d{1,4}", name)]
    listed = [gpu for gpu in dict.fromkeys(listed) if gpu < MOST_GPUS]
    matrix.gpus = listed + [gpu for gpu in matrix.rows if gpu not in listed]
    matrix.columns = list(header)
    if matrix.gpus != listed:
        others = [name for name in header if not name.startswith("GPU")]
        matrix.columns = [f"GPU{gpu}" for gpu in matrix.gpus] + others
        matrix.warnings.append("the header lacks columns: their order is taken from the rows")
    if matrix.rows and not header:
        extra = max(len(row.cells) for row in matrix.rows.values()) - len(matrix.gpus)
        matrix.columns += [f"NIC{n}" for n in range(extra)]
    absent = [f"GPU{gpu}" for gpu in matrix.gpus if gpu not in matrix.rows]
    if absent and matrix.rows:
        matrix.warnings.append(f"no row of {few(absent)}: the other rows say what is known")
    for row in matrix.rows.values():
        _align(matrix, row)
    return matrix


def _align(matrix: _Matrix, row: _Row) -> None:
    """Shift a row whose X is not on the diagonal; fill it up to the columns."""
    want = matrix.columns.index(f"GPU{row.gpu}")
    have = row.cells.index("X") if "X" in row.cells else None
    if have is not None and have != want:
        matrix.warnings.append(f"row GPU{row.gpu} has its X in column {have}: shifted to {want}")
        lost: list[str | None] = [None] * max(0, want - have)
        row.cells = lost + row.cells[max(0, have - want) :]
    missing = len(matrix.columns) - len(row.cells)
    if missing > 0:
        matrix.warnings.append(f"row GPU{row.gpu} lacks {missing} of {len(matrix.columns)} cells")
        row.cells += [None] * missing


def _facts(matrix: _Matrix, gpu: str, notes: tuple[str, ...]) -> Imported:
    pairs, warnings = _pairs(matrix)
    kinds, count = Counter(pairs.values()), len(matrix.gpus)
    nvlink = fabric(pairs, count, gpu)
    odd = () if count & (count - 1) == 0 else (f"{count} GPUs: some may be hidden or lost",)
    return Imported(
        format=NAME,
        gpu=gpu,
        gpus_per_node=count,
        links=dict(sorted(kinds.items(), key=lambda item: rank(item[0]))),
        nvlink_bytes_per_s=nvlink.pair_bytes_per_s,
        nvlink_links=tuple(sorted({int(kind[2:]) for kind in kinds if kind.startswith("NV")})),
        nvlink_domain=nvlink.domain,
        nvlink_gpu_bytes_per_s=nvlink.gpu_bytes_per_s,
        pcie_switch_gpus=switch_gpus(pairs, count),
        numa=_affinities(matrix),
        nics=matrix.nics,
        nic_affinity=_nearest(matrix),
        warnings=(*notes, *odd, *matrix.warnings, *warnings, *nvlink.warnings),
    )


def _pairs(matrix: _Matrix) -> tuple[dict[tuple[int, int], str], list[str]]:
    """Return the class of each GPU pair, the worse one where both directions differ."""
    at = {gpu: matrix.columns.index(f"GPU{gpu}") for gpu in matrix.gpus}

    def cell(row: int, column: int) -> str | None:
        found = matrix.rows[row].cells[at[column]] if row in matrix.rows else None
        return None if found in (None, "X") else canonical(str(found))

    pairs, odd, unknown = {}, [], []
    for (i, one), (j, other) in combinations(enumerate(matrix.gpus), 2):
        both = [kind for kind in (cell(one, other), cell(other, one)) if kind]
        if not both:
            unknown.append(f"GPU{one}-GPU{other}")
            continue
        pairs[i, j] = worse(both[0], both[-1])
        if both[0] != both[-1]:
            odd.append(f"GPU{one}-GPU{other} {both[0]}/{both[-1]}")
    warnings = []
    if odd:
        warnings.append(f"asymmetric cells, the worse value is taken: {few(odd)}")
    if unknown:
        warnings.append(f"no cell for {few(unknown)}: those pairs are not counted")
    return pairs, warnings


def _affinities(matrix: _Matrix) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Group the GPUs by what follows their cells: CPU affinity, NUMA affinity, NUMA id."""
    groups: dict[str, tuple[str, list[int]]] = {}
    for i, gpu in enumerate(matrix.gpus):
        if gpu not in matrix.rows:
            continue
        words = matrix.rows[gpu].rest.replace("|", " ").replace("`", " ").split()
        if words:
            groups.setdefault("".join(words), (" ".join(words)[:200], []))[1].append(i)
    return tuple((label, tuple(members)) for label, members in groups.values())


def _nearest(matrix: _Matrix) -> tuple[tuple[str, int], ...]:
    """Return for each GPU the class of its nearest adapters and their number."""
    nics = [n for n, column in enumerate(matrix.columns) if not column.startswith("GPU")]
    found = []
    for gpu in matrix.gpus if nics else ():
        cells = matrix.rows[gpu].cells if gpu in matrix.rows else []
        near = Counter(canonical(str(cells[n])) for n in nics if n < len(cells) and cells[n])
        near.pop("X", None)
        if near:
            best = min(near, key=rank)
            found.append((best, near[best]))
        else:
            found.append(("SYS", 0))
    return tuple(found)
