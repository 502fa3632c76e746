"""A sweep as a table, JSON, CSV, JSON lines or Parquet."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from topology.errors import InputError, Problem
from topology.faults import installing
from topology.units import DAY

from ..report.blocks import Block, Column, Facts, Report, Sheet
from ..report.cells import count, figures, percent1, things, usd
from ..report.files import write_whole
from ..report.plan_rows import of_one_step
from ..report.render import render
from ..report.resolved import tool_version
from .aims import aims_text
from .points import SweepSpec
from .sweep import SweepResult

SWEEP_SCHEMA = "shardplan.sweep/1"
SHOWN = 60
"""Rows of a table for people; csv and json have all."""

EXPORTS = ("csv", "jsonl", "parquet")


def sweep_report(result: SweepResult) -> Report:
    """Show the points of a sweep; only what the store holds, so that reruns print the same."""
    spec, rows = result.spec, result.rows
    statuses = Counter(row["status"] for row in rows)
    counted = " · ".join(f"{n:,} {status}" for status, n in sorted(statuses.items()))
    heads = (("Sweep", " × ".join(_axis(spec, c) for c in spec.columns)),
             ("Objective", aims_text(spec)),
             ("Points", f"{len(rows):,}: {counted}"))  # fmt: skip
    blocks: tuple[Block, ...] = (
        Facts(heads),
        Sheet(_columns(spec, rows), tuple(map(_cells, rows[:SHOWN]))),
    )
    notes = []
    if len(rows) > SHOWN:
        notes.append(f"{SHOWN} of {len(rows):,} points shown; --format csv or --export has all")
    failed = [row for row in rows if row["status"] == "error"]
    if failed:
        first = failed[0]
        notes.append(
            f"{things(len(failed), 'point')} failed; first {_labels(first)}: {first['reason']}"
        )
    data = {
        "schema": SWEEP_SCHEMA,
        "tool_version": tool_version(),
        "axes": {axis.field: list(axis.values) for axis in spec.axes},
        "scenarios": {name: dict(fields) for name, fields in spec.scenarios.items()},
        "statuses": dict(sorted(statuses.items())),
        "points": [dict(row) for row in rows],
    }
    return Report(blocks, data, tuple(flat(row) for row in _alike(rows)), notes=tuple(notes))


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a point as one flat row: labels, status, then the plan."""
    plan = {k: v for k, v in row["plan"].items() if k not in row["labels"]}
    return {**row["labels"], "status": row["status"], "reason": row["reason"], **plan}


def export(result: SweepResult, path: str) -> None:
    """Write every point to a .csv, .jsonl or .parquet file.

    Raises
    ------
    InputError
        For another ending, an extra that is not installed, or a file that cannot be written.
    """
    form = export_form(path)
    report = sweep_report(result)
    if form != "parquet":
        write_whole(path, render(report, form))
        return
    import pyarrow  # noqa: PLC0415 - an extra
    import pyarrow.parquet  # noqa: PLC0415

    rows = [{k: _plain(v) for k, v in record.items()} for record in report.records]
    try:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    except OSError as error:
        reason = f"cannot be written: {error.strerror or error}."
        raise InputError(Problem(path, 0, 0, "", "SP100", reason, "Name another file.")) from None


def export_form(path: str) -> str:
    """Return the form of an export by its ending, before any work is done.

    Raises
    ------
    InputError
        Where it is none, or needs an extra that is not installed.
    """
    form = Path(path).suffix.lstrip(".").lower()
    if form not in EXPORTS:
        hint = f"End the name in .{', .'.join(EXPORTS)}."
        raise InputError(Problem("--export", 0, 0, "", "SP112", f"{path!r}: unknown form.", hint))
    if form == "parquet":
        try:
            import pyarrow  # noqa: F401, PLC0415 - an extra
        except ImportError:
            hint = installing("parquet")
            message = "pyarrow is not installed."
            raise InputError(Problem("--export", 0, 0, "", "SP119", message, hint)) from None
    return form


def _alike(rows: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    """Give every row the columns of the plans, empty where there is no plan."""
    names = sorted({name for row in rows for name in row["plan"]})
    return [{**row, "plan": {name: row["plan"].get(name) for name in names}} for row in rows]


def _plain(value: Any) -> Any:
    """Return labels that are lists or mappings as text: a column has one type."""
    return value if value is None or isinstance(value, str | int | float) else json.dumps(value)


def _axis(spec: SweepSpec, column: str) -> str:
    sizes = {axis.field: len(axis.values) for axis in spec.axes}
    return f"{column} ({sizes.get(column, len(spec.scenarios))})"


def _labels(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in row["labels"].items())


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    plan = row["plan"]
    wall = plan.get("wall_clock_s")
    return {**{f"label {k}": str(v) for k, v in row["labels"].items()}, **plan,
            "status": row["status"], "days": None if wall is None else wall / DAY}  # fmt: skip


def _columns(spec: SweepSpec, rows: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Return the columns; days where runs have a length."""
    plans = [row["plan"] for row in rows if row["plan"]]
    step = bool(plans) and all(map(of_one_step, plans))
    labels = [Column(f"label {name}", name.rpartition(".")[2]) for name in spec.columns]
    return (
        *labels,
        Column("status", "status", align="left"),
        Column("gpus", "GPUs", count),
        Column("layout", "plan", align="left"),
        Column("step_s", "step s", figures),
        Column("mfu", "MFU", percent1),
        *(() if step else (Column("days", "days", figures),)),
        Column("usd", "$ a step" if step else "cost $", usd),
    )
