"""The textbook account of one layout, every formula written out."""

from __future__ import annotations

import dataclasses
from typing import Any

from topology.units import show_bytes, show_seconds, show_usd

from ..checklist import Check
from ..cost.ledger import Ledger, Line
from .blocks import Block, Column, Facts, Report, Sheet
from .cells import percent1

LEDGER_SCHEMA = "shardplan.ledger/1"


def ledger_report(ledger: Ledger) -> Report:
    """Report the ledger by section, then the checklist and the red flags."""
    records = tuple(dataclasses.asdict(line) for line in ledger.lines)
    blocks: list[Block] = [_heading(ledger)]
    blocks += [_section(ledger, name) for name in ledger.sections]
    blocks.append(checks_sheet(ledger.checks))
    data = {
        "schema": LEDGER_SCHEMA,
        "inputs": ledger.inputs.model_dump(mode="json"),
        "lines": records,
        "decision_path": dataclasses.asdict(ledger.path),
        "typical": None if ledger.typical is None else dataclasses.asdict(ledger.typical),
        "checks": checks_data(ledger.checks),
    }
    return Report(tuple(blocks), data, records)


def _heading(ledger: Ledger) -> Facts:
    inputs, layout = ledger.inputs, ledger.inputs.layout
    degrees = f"TP {layout.tp} × PP {layout.pp} × DP {layout.dp}"
    shard = "" if layout.shard == layout.dp else f", shard groups of {layout.shard}"
    return Facts(
        (
            ("Account", "textbook: formulas to be checked by hand (docs/textbook.md)"),
            ("Model", f"{inputs.shape.name}, {inputs.shape.parameters:,} parameters"),
            ("Machine", f"{inputs.machine.nodes} × {inputs.machine.gpus_per_node} "
                        f"{inputs.machine.gpu}"),
            ("Layout", f"{degrees}, ZeRO-{layout.zero}{shard}, micro-batch {layout.micro_batch}, "
                       f"recomputation {layout.recompute}"),
        )
    )  # fmt: skip


def _section(ledger: Ledger, name: str) -> Sheet:
    lines = [line for line in ledger.lines if line.section == name]
    rows = tuple(
        {"label": line.label, "formula": line.formula, "value": quantity(line),
         "source": line.source}
        for line in lines
    )  # fmt: skip
    columns = (
        Column("label", "line", align="left"),
        Column("value", "value"),
        Column("formula", "formula", align="left"),
    )
    used = dict.fromkeys(line.source for line in lines)
    return Sheet(columns, rows, f"{name[0].upper()}{name[1:]}  ({'; '.join(used)})")


def quantity(line: Line) -> str:
    """Show the value of a line for people."""
    value = line.value
    if isinstance(value, str):
        return value
    if line.unit == "B":
        return f"{show_bytes(value)} = {show_bytes(value, binary=True)}"
    if line.unit == "FLOP":
        return f"{value:.3g} FLOP"
    return str(measure(value, line.unit))


def checks_data(checks: tuple[Check, ...]) -> list[dict[str, Any]]:
    """Return checklist and red flags for programs."""
    return [dataclasses.asdict(check) for check in checks]


_STYLE = {"pass": "", "advice": "dim", "warn": "yellow", "fail": "bold red"}


def checks_sheet(checks: tuple[Check, ...]) -> Sheet:
    """Show checklist (CL) and red flags (RF)."""
    columns = (
        Column("id", "id", align="left"),
        Column("title", "check", align="left"),
        Column("severity", "verdict", align="left"),
        Column("value", "value", wraps=True),
        Column("limit", "limit", wraps=True),
        Column("advice", "advice", align="left"),
    )
    rows = tuple(
        {
            "id": check.id,
            "title": check.title,
            "severity": check.severity,
            "value": measure(check.value, check.unit),
            "limit": measure(check.limit, check.unit),
            "advice": check.advice,
        }
        for check in checks
    )
    styles = tuple(_STYLE[check.severity] for check in checks)
    return Sheet(columns, rows, "Checklist and red flags", styles)


_PLAIN_FROM = 1000
"""Decimals say nothing from here on."""


def measure(value: float | None, unit: str) -> str | None:
    """Show a value in the unit of a check or a limit."""
    if value is None:
        return None
    if unit in ("B", "bytes"):
        return show_bytes(value)
    if unit in ("share", "ratio"):
        return percent1(value)
    if unit in ("s", "seconds"):
        return show_seconds(value)
    if unit == "USD":
        return show_usd(value)
    whole = float(value).is_integer() or abs(value) >= _PLAIN_FROM
    number = f"{value:,.0f}" if whole else f"{value:,.2f}"
    return f"{number} {unit.removesuffix('s') if value == 1 else unit}".strip()
