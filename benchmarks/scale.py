"""How the error of a predicted step depends on the number of GPUs.

``python benchmarks/scale.py --fit FILE --family FILE [--date D] [--write]``: both files are the
``--json`` of accuracy.py, in sample and with ``--cross-validate family``. ``--write`` rewrites
``solver/cost/profiles/scale.yaml``, which plans quote.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.accuracy import score

FILE = Path(__file__).resolve().parents[1] / "solver/cost/profiles/scale.yaml"
EDGES = (0, 64, 512, 2048)
"""GPUs above which a band begins: a few nodes, a pod, what one fabric holds, and more."""
Rows = list[dict[str, Any]]


def bands(rows: Rows) -> list[tuple[int, int | None, Rows]]:
    """Split rows by GPUs: (first count, last count or None, rows), smallest band first."""
    ends: list[int | None] = [*EDGES[1:], None]
    return [
        (edge + 1, end, [r for r in rows if r["gpus"] > edge and (end is None or r["gpus"] <= end)])
        for edge, end in zip(EDGES, ends, strict=True)
    ]


def _scored(rows: Rows) -> dict[str, float]:
    return score(row["error"] for row in rows)


def scale_table(fit: Rows, family: Rows) -> list[str]:
    """Errors by band of GPUs, in sample and with families left out, as Markdown."""
    lines = [
        "| GPUs | rows | in sample | bias | family left out | bias |",
        "|-|-|-|-|-|-|",
    ]
    for (first, last, seen), (_, _, unseen) in zip(bands(fit), bands(family), strict=True):
        a, b = _scored(seen), _scored(unseen)
        name = f"{first:,} to {last:,}" if last else f"{first:,} and more"
        lines.append(
            f"| {name} | {a['n']} | {a['mape']:.1f} % | {a['bias']:+.1f} % | "
            f"{b['mape']:.1f} % | {b['bias']:+.1f} % |"
        )
    return lines


def largest_runs(rows: Rows) -> dict[str, dict[str, int]]:
    """Return the GPUs of the largest run of each class and GPU family."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for row in rows:
        known = found[row["class"]].get(row["gpu"], 0)
        found[row["class"]][row["gpu"]] = max(known, row["gpus"])
    return {name: dict(sorted(found[name].items())) for name in sorted(found)}


def lines_of_file(rows: Rows, date: str) -> Iterable[str]:
    """Yield the lines of the data file; ``rows`` carry the errors of families left out."""
    yield f"# Written by benchmarks/scale.py ({date}) from {len(rows)} published runs; not by hand."
    yield "# Errors of the step time, predicted / measured - 1, each run with constants fitted"
    yield "# without its family: mean of the sizes, and bias. All stacks and GPUs together; `all`"
    yield "# is the error over all bands. Bands without runs are left out."
    yield "errors:"
    for kind in ("dense", "moe"):
        chosen = [row for row in rows if row["class"].endswith(f" {kind}")]
        yield f"  {kind}:"
        yield f"    all: {_scored(chosen)['mape'] / 100:.3f}"
        yield "    bands:"
        for first, last, part in bands(chosen):
            s, end = _scored(part), "null" if last is None else last
            if part:
                yield (
                    f"      - {{first_gpus: {first}, last_gpus: {end}, runs: {s['n']}, "
                    f"error: {s['mape'] / 100:.3f}, bias: {s['bias'] / 100:.3f}}}"
                )
    yield "# GPUs of the largest run of each stack, dense or with experts, by GPU family."
    yield "largest_run_gpus:"
    for name, families in largest_runs(rows).items():
        inside = ", ".join(f"{family}: {gpus}" for family, gpus in families.items())
        yield f"  {name}: {{{inside}}}"


@click.command()
@click.option("--fit", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True)
@click.option(
    "--family", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True
)
@click.option("--date", default="undated", help="date to write into the file")
@click.option("--write", "put", is_flag=True, help="rewrite the data file")
def main(fit: Path, family: Path, date: str, put: bool) -> None:
    """Print the table; write the data file where asked."""
    seen, unseen = (json.loads(path.read_text("utf-8"))["rows"] for path in (fit, family))
    click.echo("\n".join(scale_table(seen, unseen)))
    if put:
        FILE.write_text("\n".join([*lines_of_file(unseen, date), ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
