"""A user's own profile from measured runs, and how well it predicts them."""

from __future__ import annotations

import numpy as np

from topology.units import show_seconds

from ..calibration.multipliers import Calibration, calibrate
from ..calibration.table import Measured, read_runs
from ..cost.own_profile import KINDS
from .blocks import Column, Facts, Plain, Report, Sheet
from .cells import percent1
from .files import write_whole


def calibrate_report(runs: str, stack: str | None = None, output: str | None = None) -> Report:
    """Fit a profile to the runs of a file and write it; it is the shipped one unless that helps."""
    measured = read_runs(runs, stack)
    found = calibrate([one.run for one in measured])
    text = _profile_text(measured, found)
    rows = _rows(measured, found)
    if output is not None:
        write_whole(output, text)
    before, after, left_out = (
        float(np.abs(part).mean()) for part in (found.before, found.after, found.left_out)
    )
    verdict = (
        "The shipped profile is kept: a fit to these runs does not predict the ones left out "
        "enough better."
        if found.kept
        else "The fitted profile predicts runs that it has not seen better than the shipped one."
    )
    facts = Facts(
        (
            ("mean error, shipped profile", percent1(before)),
            ("mean error, each run left out in turn", percent1(left_out)),
            ("mean error, profile written", percent1(after)),
            *((f"times of {kind}", f"x {v:g}") for kind, v in zip(KINDS, found.times, strict=True)),
        )
    )
    data = {
        "kept": found.kept,
        "stack": measured[0].run.stack,
        "times": dict(zip(KINDS, found.times, strict=True)),
        "error_shipped": before,
        "error_left_out": left_out,
        "error_profile": after,
        "runs": [dict(row) for row in rows],
    }
    columns = (
        Column("line", "line"),
        Column("id", "run", align="left"),
        Column("measured_s", "measured", show_seconds),
        Column("shipped", "shipped", percent1),
        Column("left_out", "left out", percent1),
        Column("fitted", "written", percent1),
    )
    blocks = (Sheet(columns, rows), facts, verdict, Plain(text, "profile"))
    return Report(blocks, data, rows, {"yaml": lambda: text})


def _rows(measured: tuple[Measured, ...], found: Calibration) -> tuple[dict[str, object], ...]:
    return tuple(
        {
            "line": one.line,
            "id": one.run.id,
            "measured_s": one.run.measured_s,
            "shipped": float(found.before[i]),
            "left_out": float(found.left_out[i]),
            "fitted": float(found.after[i]),
        }
        for i, one in enumerate(measured)
    )


def _profile_text(measured: tuple[Measured, ...], found: Calibration) -> str:
    error = np.abs(found.before if found.kept else found.left_out).mean()
    lines = [
        "# Written by shardplan calibrate; times over those of the shipped profile.",
        f"stack: {measured[0].run.stack}",
        *(f"{kind}: {value:g}" for kind, value in zip(KINDS, found.times, strict=True)),
        f"expected_error: {min(float(error), 1.0):.4f}",
        f"runs: {len(measured)}",
    ]
    return "\n".join(lines) + "\n"
