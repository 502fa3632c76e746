"""Hold the collective model against measured collectives that it does not see.

    python benchmarks/collectives.py --collectives CSV [--holdout quarter|fabric] [--json FILE]

``quarter``: every fourth point of each set is held back in turn and read from the other points of
the set; the ends of the measured range are never held back. ``fabric``: all sets of a fabric are
held back and read from the other fabrics; inside a domain a fabric is every GPU with NVLinks of one
rate. The table has a line a fabric; then the share of the shorter part that hierarchical
all-reduces hide, fitted without each fabric, and what that makes of 4 x 8 B200; last
``holdout= sets= n= median= p90= median_from_1mib= extrapolated= refused=``, errors of the time in
percent.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._collectives import Set, read_sets
from topology.collectives import ALL_REDUCE, NETWORK_PAYLOAD, hierarchical_all_reduce_seconds
from topology.group_times import Measured, group_time
from topology.units import GIB, MIB

Errors = list[tuple[float, float, bool]]
"""Message bytes, relative error of the time, whether extrapolated."""
QUARTERS = 4
FEWEST_POINTS = 5
"""Points of a set from which a quarter can be held back inside its range."""
LARGE = GIB
"""Messages from which start-up does not count in the overlap."""
EXAMPLE = (32, 4, 4 * GIB)
"""Ranks, domains and bytes of the all-reduce that is shown by itself."""


def quarter(sets: list[Set]) -> Iterator[tuple[Set, Errors]]:
    """Read each inner point of a set from the three quarters that it is not in."""
    for one in sets:
        sizes = np.array(one.curve.message_bytes)
        seconds = np.array(one.curve.seconds)
        errors: Errors = []
        for part in range(QUARTERS):
            kept = np.arange(len(sizes)) % QUARTERS != part
            kept[[0, -1]] = True
            if kept.all():
                continue
            rest = replace(
                one.curve, message_bytes=tuple(sizes[kept]), seconds=tuple(seconds[kept])
            )
            errors += compare(one.curve, [rest], ~kept)
        yield one, errors


def fabric(sets: list[Set]) -> Iterator[tuple[Set, Errors]]:
    """Read each set from the sets of other fabrics."""
    known = [one for one in sets if one.transfers]
    for one in known:
        others = [other.curve for other in known if other.fabric != one.fabric]
        yield one, compare(one.curve, others, np.ones(len(one.curve.seconds), bool))


def compare(curve: Measured, others: list[Measured], held: Any) -> Errors:
    """Return the errors of the points of a curve that are held back."""
    sizes, seconds = np.array(curve.message_bytes)[held], np.array(curve.seconds)[held]
    found = group_time(curve.kind, sizes, curve.spread, others)
    wrong = found.seconds / seconds - 1
    return list(zip(sizes.tolist(), wrong.tolist(), found.extrapolated.tolist(), strict=True))


# -- the overlap of a hierarchy ------------------------------------------------------------------


def inside_rate(one: Set, sets: list[Set], size: float) -> float:
    """Return the bus bandwidth of an all-reduce in one domain on links like a set's, bytes/s."""
    spread = replace(one.curve.spread, ranks=round(one.curve.spread.together), domains=1)
    link = spread.inner_bytes_per_s
    alike = [o.curve for o in sets if o.transfers and o.curve.spread.inner_bytes_per_s == link]
    seconds = group_time(ALL_REDUCE, size, spread, alike).seconds[0]
    return float(2 * (spread.ranks - 1) / spread.ranks * size / seconds)


def overlaps(one: Set, sets: list[Set]) -> list[float]:
    """Return the overlap that each large message of a hierarchical all-reduce shows."""
    spread, found = one.curve.spread, []
    for size, seconds in zip(one.curve.message_bytes, one.curve.seconds, strict=True):
        if size >= LARGE:
            serial, full = (hierarchy(one, sets, size, overlap) for overlap in (0.0, 1.0))
            if serial > full:
                found.append((serial - seconds) / (serial - full))
    return found if spread.domains > 1 else []


def hierarchy(one: Set, sets: list[Set], size: float, overlap: float) -> float:
    """Return the closed form of a hierarchical all-reduce, seconds."""
    spread = one.curve.spread
    return float(
        hierarchical_all_reduce_seconds(
            size, spread.together, spread.domains, inside_rate(one, sets, size),
            spread.outer_bytes_per_s * NETWORK_PAYLOAD, overlap=overlap,
        )
    )  # fmt: skip


def show_overlap(sets: list[Set]) -> dict[str, float]:
    """Print the overlap fitted without each fabric, and the example with it."""
    groups = [o for o in sets if o.transfers and o.curve.kind == ALL_REDUCE]
    groups = [o for o in groups if o.curve.spread.domains > 1]
    seen: dict[str, list[float]] = defaultdict(list)
    for one in groups:
        seen[one.fabric] += overlaps(one, sets)
    medians = {name: float(np.median(found)) for name, found in seen.items() if found}
    if len(medians) < 2:
        return {}
    print(f"overlap, median of {len(medians)} fabrics: {np.median(list(medians.values())):.2f}")
    shown = {}
    for one in groups:
        ranks, domains, size = EXAMPLE
        curve = one.curve
        if (curve.spread.ranks, curve.spread.domains) != (ranks, domains):
            continue
        if size not in curve.message_bytes:
            continue
        elsewhere = float(np.median([v for name, v in medians.items() if name != one.fabric]))
        want = curve.seconds[curve.message_bytes.index(size)]
        have = hierarchy(one, sets, size, elsewhere)
        print(
            f"{one.name}, 4 GiB: {1e3 * have:.2f} ms with the overlap of the others "
            f"({elsewhere:.2f}), {1e3 * want:.2f} ms measured, {have / want - 1:+.1%}"
        )
        shown["example_pct"] = round(100 * (have / want - 1), 1)
    return shown


# -- the table -----------------------------------------------------------------------------------


def summary(errors: Errors) -> dict[str, float]:
    """Return count, median and 90th percentile of the errors in percent."""
    wrong = 100 * np.abs([error for _, error, _ in errors])
    large = 100 * np.abs([error for size, error, _ in errors if size >= MIB])
    return {
        "n": len(errors),
        "median": round(float(np.median(wrong)), 2) if len(wrong) else 0.0,
        "p90": round(float(np.quantile(wrong, 0.9)), 2) if len(wrong) else 0.0,
        "median_from_1mib": round(float(np.median(large)), 2) if len(large) else 0.0,
        "extrapolated": sum(outside for *_, outside in errors),
    }


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--collectives", type=Path, required=True, help="table of measurements")
    parser.add_argument("--holdout", choices=("quarter", "fabric"), default="quarter")
    parser.add_argument("--json", type=Path, help="write the table here")
    given = parser.parse_args()
    sets, refused = read_sets(given.collectives)
    usable = [
        one for one in sets if len(one.curve.seconds) >= FEWEST_POINTS or not _by_quarter(given)
    ]
    found = list((quarter if _by_quarter(given) else fabric)(usable))
    left = sum(len(one.curve.seconds) for one in sets) - sum(
        len(one.curve.seconds) for one, _ in found
    )
    refused["fewer than 5 points" if _by_quarter(given) else "links of unknown rate"] += left
    by_fabric: dict[str, Errors] = defaultdict(list)
    for one, errors in found:
        by_fabric[one.fabric] += errors
    rows = {name: summary(errors) for name, errors in sorted(by_fabric.items())}
    for name, row in rows.items():
        print(f"{name[:40]:40} " + " ".join(f"{key} {value:>7}" for key, value in row.items()))
    for reason, count in sorted(refused.items()):
        print(f"refused: {count} rows, {reason}")
    last: dict[str, Any] = {"holdout": given.holdout, "sets": len(found)}
    last |= summary([error for errors in by_fabric.values() for error in errors])
    last |= {} if _by_quarter(given) else show_overlap(sets)
    last["refused"] = sum(refused.values())
    if given.json:
        text = json.dumps({"fabrics": rows, "summary": last}, indent=1)
        given.json.write_text(text + "\n", encoding="utf-8")
    print(" ".join(f"{key}={value}" for key, value in last.items()))
    return 0


def _by_quarter(given: argparse.Namespace) -> bool:
    return bool(given.holdout == "quarter")


if __name__ == "__main__":
    sys.exit(main())
