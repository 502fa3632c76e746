"""Measure real PyTorch training steps, without a GPU, and hold the memory model against them.

``python benchmarks/memory_oracle.py CSV [--only WORD] [--missing] [--write]``

Each row of the table is a configuration (columns: benchmarks/oracle/config.py); ``peak_bytes`` is
measured again and compared, or written. Needs the extra ``oracle`` (PyTorch, transformers); one
configuration takes 2 to 30 s and below 2 GB, in a process of its own.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.oracle.config import Config, config_of


def measured(row: dict[str, str]) -> int:
    """Measure one row in a new process: a process group cannot be set up twice.

    Raises
    ------
    RuntimeError
        With what the process printed.
    """
    command = [sys.executable, str(Path(__file__).resolve()), "--row", json.dumps(row)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-2000:])
    return int(done.stdout.split()[-1])


def measure(config: Config) -> int:
    """Measure one configuration in this process."""
    # PyTorch is an optional extra that only this benchmark needs.
    if config.mode == "rank":
        from benchmarks.oracle import rank  # noqa: PLC0415

        return rank.measure(config)
    if config.mode == "single":
        from benchmarks.oracle import single  # noqa: PLC0415

        return single.measure(config)
    from benchmarks.oracle import sharded  # noqa: PLC0415

    return sharded.measure(config)


def save(table: Path, names: list[str], rows: list[dict[str, str]]) -> None:
    """Write the table."""
    with table.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


@click.command()
@click.argument("table", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--only", default="", help="rows of which a column holds this word")
@click.option("--missing", is_flag=True, help="only rows without a peak")
@click.option("--write", is_flag=True, help="write what is measured into the table")
@click.option("--row", hidden=True)
def main(table: Path | None, only: str, missing: bool, write: bool, row: str | None) -> None:
    """Measure a table's rows again."""
    if row is not None:
        click.echo(measure(config_of(json.loads(row))))
        return
    if table is None:
        raise click.UsageError("give the CSV of configurations")
    with table.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        names, rows = list(reader.fieldnames or ()), list(reader)
    same = done = 0
    for entry in rows:
        if (only and only not in entry.values()) or (missing and entry.get("peak_bytes")):
            continue
        peak = measured(entry)
        had = entry.get("peak_bytes") or "0"
        done, same = done + 1, same + (peak == int(had))
        click.echo(
            f"{' '.join(filter(None, entry.values()))}: measured {peak}", err=peak == int(had)
        )
        entry["peak_bytes"] = str(peak)
        if write:
            save(table, names, rows)
    click.echo(f"n={done} same={same}")


if __name__ == "__main__":
    main()
