"""Read every sample of a folder and compare what was read with its index.

    python benchmarks/topology_samples.py --samples DIR

DIR/index.csv names the samples and what each holds; a cell that is empty is not compared. The last
line is ``n= ok= wrong= refused_right=``: samples, right ones, wrong ones (read otherwise than the
index says, read though to be refused, refused though to be read), and rightly refused ones. Exit 1
where any is wrong.
"""

from __future__ import annotations

import argparse
import ast
import csv
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from topology.errors import InputError
from topology.importers import Imported, load
from topology.units import GB

Row = dict[str, str]
READ = ("parse", "optional")
"""What a sample is expected to be; everything else is to be refused."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--samples", type=Path, required=True, help="folder with index.csv")
    parser.add_argument("-v", "--verbose", action="store_true", help="one line a sample")
    given = parser.parse_args()
    rows = index(given.samples)
    counts = Counter[str]()
    for row in rows:
        started = time.perf_counter()
        verdict, details = judge(given.samples, row)
        counts[verdict] += 1
        if given.verbose or verdict == "wrong":
            spent = time.perf_counter() - started
            print(f"{verdict:13} {row['file']} {spent:.2f} s {'; '.join(details)}".rstrip())
    ok, wrong, refused = counts["ok"], counts["wrong"], counts["refused_right"]
    print(f"n={len(rows)} ok={ok} wrong={wrong} refused_right={refused}")
    return 1 if wrong else 0


def index(folder: Path) -> list[Row]:
    """Return the rows of the index, cells without blanks around them."""
    with (folder / "index.csv").open(encoding="utf-8-sig", newline="") as stream:
        rows = [
            {k: (v or "").strip() for k, v in row.items() if k} for row in csv.DictReader(stream)
        ]
    return [row for row in rows if row.get("file")]


def judge(folder: Path, row: Row) -> tuple[str, list[str]]:
    """Return the verdict on one sample and what differs."""
    expect = row.get("expect", "").lower() or "parse"
    model = row.get("gpu_model", "")
    gpu = "" if model.lower() in {"", "unknown"} else model
    try:
        found = load([folder / row["file"]], gpu=gpu)
    except InputError as error:
        shown = [str(error).splitlines()[0][:300]]
        if not expect.startswith(READ):
            return "refused_right", shown
        return ("ok" if expect.startswith("optional") else "wrong"), shown
    except Exception as error:  # a bug in an importer is a wrong sample, not the end of the run
        return "wrong", [f"{type(error).__name__}: {error}"]
    if not expect.startswith(READ):
        return "wrong", [f"read as {found.format}, but is to be refused"]
    wrong = list(differences(row, found))
    return ("wrong" if wrong else "ok"), wrong or list(found.warnings)


def differences(row: Row, found: Imported) -> Iterator[str]:
    for column, compare in COLUMNS.items():
        want = row.get(column, "")
        if want:
            try:
                have = compare(want, found)
            except (ValueError, SyntaxError, KeyError) as error:
                have = f"cell not understood ({error})"
            if have is not None:
                yield f"{column}: index {want[:120]}, read {have}"


def _gpu_count(want: str, found: Imported) -> Any:
    return None if int(float(want)) == found.gpus else found.gpus


def _classes(text: str) -> dict[str, int]:
    return {k: int(v) for k, v in (part.split(":") for part in text.split(";"))}


def _link_types(want: str, found: Imported) -> Any:
    """Compare ``NV4:2;SYS:4``, or what a fabric's file counts."""
    if re.fullmatch(r"\w+:\d+(;\w+:\d+)*", want):
        return None if _classes(want) == dict(found.links) else dict(found.links)
    for pattern, have in _FABRIC:
        match = re.search(pattern, want)
        if match is not None:
            differs = have(match, found)
            if differs:
                return differs
            want = want.replace(match[0], "", 1)
    rest = re.sub(r"[;,\s]", "", want)
    return None if not rest else f"cell not understood: {rest}"


def _number(name: str) -> Callable[[re.Match[str], Imported], str]:
    def check(match: re.Match[str], found: Imported) -> str:
        have = {
            "switches": found.switches or 0,
            "blocks": found.blocks or 0,
            "nodes": found.node_count or 0,
            "CAs": found.counts.get("CAs", 0),
            "topologies": found.counts.get("topologies", 0),
            # The index counts every line below the header, also wrapped and foreign ones.
            "rows": found.counts.get("lines below the header", 0),
        }[name]
        return "" if int(match[1]) == have else f"{name} {have}"

    return check


def _literal(name: str) -> Callable[[re.Match[str], Imported], str]:
    def check(match: re.Match[str], found: Imported) -> str:
        have = found.counts.get(name)
        return "" if ast.literal_eval(match[1]) == have else f"{name} {have}"

    return check


_FABRIC = (
    (r"switches (\d+)", _number("switches")),
    (r"blocks (\d+)", _number("blocks")),
    (r"nodes (\d+)", _number("nodes")),
    (r"CAs (\d+)", _number("CAs")),
    (r"topologies (\d+)", _number("topologies")),
    (r"(\d+) rows", _number("rows")),
    (r"kinds (\[[^\]]*\])", _literal("kinds")),
    (r"(\{[^}]*\})", _literal("links")),
    (r"net speeds (\[[^\]]*\])", _literal("net speeds")),
    (r"pci link_speed (\[[^\]]*\])", _literal("pci link_speed")),
)


def _links(want: str, found: Imported) -> Any:
    have = found.nvlink_links
    return None if tuple(sorted(int(float(n)) for n in want.split(";"))) == have else have


def _rates(want: str, found: Imported) -> Any:
    have = {kind: rate / GB for kind, rate in found.nvlink_bytes_per_s.items()}
    cells = dict(part.split("=") for part in want.split(";"))
    same = have.keys() == cells.keys() and all(
        abs(have[kind] - float(rate)) <= 0.005 * float(rate) for kind, rate in cells.items()
    )
    return None if same else have


def _nvlink_pairs(want: str, found: Imported) -> Any:
    have = sum(n for kind, n in found.links.items() if kind.startswith("NV"))
    return None if int(float(want)) == have else have


def _numa(want: str, found: Imported) -> Any:
    """Compare which GPUs share an affinity, and the affinity where the index spells it out."""
    have = {frozenset(members): label for label, members in found.numa}
    if want.startswith("{"):
        cells = {frozenset(v): str(k) for k, v in ast.literal_eval(want).items()}
        return None if cells == have else found.numa
    if want.startswith("["):
        parts = re.findall(r"\[([^\[\]]*)\] GPUs (\[[^\[\]]*\])", want)
        groups = {
            frozenset(ast.literal_eval(gpus)): "".join(label.split()) for label, gpus in parts
        }
        groups = {gpus: label for gpus, label in groups.items() if label}
        return None if groups == {k: "".join(v.split()) for k, v in have.items()} else found.numa
    counts = sorted((label, len(members)) for label, members in found.numa)
    cells_ = [re.fullmatch(r"(-?\w+):(\d+)gpu", part) for part in want.split(";")]
    return None if sorted((c[1], int(c[2])) for c in cells_ if c) == counts else counts


def _nics(want: str, found: Imported) -> Any:
    return None if int(float(want)) == (found.nics or 0) else found.nics


def _nearest(want: str, found: Imported) -> Any:
    have = [f"{kind}x{n}" for kind, n in found.nic_affinity]
    return None if [part.partition(":")[2] for part in want.split(";")] == have else have


COLUMNS: dict[str, Callable[[str, Imported], Any]] = {
    "gpu_count": _gpu_count,
    "link_types": _link_types,
    "nvlink_links": _links,
    "nvlink_gbps_unidir_per_pair": _rates,
    "nvlink_pairs": _nvlink_pairs,
    "numa_groups": _numa,
    "nic_count": _nics,
    "closest_nics_per_gpu": _nearest,
}

if __name__ == "__main__":
    sys.exit(main())
