"""What a planner would have said of configurations that people reported.

``python benchmarks/field_cases.py --cases CSV [--runs CSV] [--json FILE]``

Verdicts on cases of completeness A and B, peaks, speeds, and pairs of which one was faster.
``--runs``, the published peaks, adds the confusion matrix of both together.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._cases import failed, row_of
from benchmarks._memory_rows import memory_run
from benchmarks._verdicts import Judged, judge, percent, rates, show, show_together
from solver.calibration.rows import RefusedError, Row, read_rows
from solver.calibration.runs import predict, run_of

JUDGED = ("A", "B")
"""Completeness of the cases whose verdict counts; C is anecdotal."""
PRICING_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class Case:
    """One case with what the product says of it; None where it cannot."""

    id: str
    judged: Judged | None
    peak_error: float | None
    tokens_per_s: float | None
    """Predicted, a GPU."""
    speed_error: float | None
    beats: tuple[str, ...]
    refused: str
    """Why there is no verdict."""


def case_of(values: Mapping[str, Any]) -> Case:
    """Price one case."""
    row = Row(values)
    name = row.text("id", default="?")
    beats = tuple(row.text("beats").split())
    judged, peak_error, refused = None, None, ""
    try:
        judged, peak_error = _verdict(row)
    except RefusedError as why:
        refused = str(why)
    except PRICING_ERRORS as why:
        refused = f"not priced: {type(why).__name__} {why}"[:160]
    speed = _speed(row)
    error = None
    try:
        measured = row.number("tokens_per_s_per_gpu", default=0)
        error = speed / measured - 1 if speed and measured else None
    except RefusedError:
        pass
    return Case(name, judged, peak_error, speed, error, beats, refused)


def _verdict(row: Row) -> tuple[Judged | None, float | None]:
    outcome = row.text("outcome")
    if outcome not in ("fits", "oom", "slow"):
        raise RefusedError("no outcome of memory is given")
    translated = row_of(row.values)
    ran = "" if failed(row) else "1"
    run = memory_run({**translated, "step_s": translated["step_s"] or ran})
    measured = run.measured_bytes if outcome != "oom" else None
    judged = judge(run)
    shown = run.predicted_bytes(run.metric)
    error = shown / measured - 1 if measured else None
    return judged if row.text("completeness") in JUDGED else None, error


def _speed(row: Row) -> float | None:
    """Predicted tokens a second and GPU; None where the case cannot be timed."""
    try:
        run = run_of({**row_of(row.values), "oom": "", "step_s": "1"})
        return run.job.step_tokens / predict(run) / int(run.shapes.gpus[0])
    except (RefusedError, *PRICING_ERRORS):
        return None


def pairs_of(cases: list[Case]) -> list[tuple[str, str, bool | None]]:
    """Return the pairs (faster, slower, agreed); None where one of them has no estimate."""
    speed = {case.id: case.tokens_per_s for case in cases}
    pairs: list[tuple[str, str, bool | None]] = []
    for case in cases:
        for other in case.beats:
            fast, slow = case.tokens_per_s, speed.get(other)
            agreed = fast > slow if fast is not None and slow is not None else None
            pairs.append((case.id, other, agreed))
    return pairs


def published(path: Path) -> list[Judged]:
    """Judge the published rows; those that cannot be are listed by benchmarks/memory.py."""
    found = []
    for values in read_rows(path):
        try:
            found.append(judge(memory_run(values)))
        except (RefusedError, *PRICING_ERRORS):
            continue
    return found


def report(cases: list[Case], others: list[Judged]) -> dict[str, Any]:
    """Print the confusion matrix, the misses and the summary line; return them as data."""
    judged = [case.judged for case in cases if case.judged is not None]
    together = show_together([*others, *judged]) if others else {}
    matrix = show(judged)
    for name, values in (
        ("peak", [c.peak_error for c in cases if c.peak_error is not None]),
        ("speed", [c.speed_error for c in cases if c.speed_error is not None]),
    ):
        errors = 100 * np.abs(values) if values else np.zeros(1)
        click.echo(
            f"{name}: n={len(values)} MAPE {errors.mean():.1f} % median {np.median(errors):.1f} %"
        )
    pairs = pairs_of(cases)
    for fast, slow, agreed in pairs:
        if agreed is not True:
            what = "cannot be timed" if agreed is None else "predicted the other way round"
            click.echo(f"  pair {fast} > {slow} {what}")
    anecdotal = sum(c.judged is None and not c.refused for c in cases)
    click.echo(f"priced but not judged (completeness C): {anecdotal}")
    refused = [c for c in cases if c.refused]
    for reason, count in sorted(Counter(c.refused for c in refused).items(), key=lambda x: -x[1]):
        click.echo(f"refused {count}: {reason}")
    found = rates(judged)
    timed = [agreed for _, _, agreed in pairs if agreed is not None]
    right = sum(j.right for j in judged)
    click.echo(
        f"verdicts={len(judged)} right={right} oom_recall={found['oom_recall']:.1f} "
        f"false_oom={found['false_oom']:.1f} pairs={len(timed)} right_pairs={sum(timed)} "
        f"refused={len(refused)}"
    )
    return {
        "overall": {
            "verdicts": len(judged), "right": right, **found, "pairs": len(timed),
            "right_pairs": sum(timed), "right_pairs_pct": percent(sum(timed), len(timed)),
            "refused": len(refused),
        },
        "confusion": matrix, "together": together,
        "pairs": [{"faster": f, "slower": s, "agreed": a} for f, s, a in pairs],
        "cases": [
            {
                "id": c.id, "peak_error": c.peak_error, "speed_error": c.speed_error,
                "tokens_per_s_per_gpu": c.tokens_per_s, "refused": c.refused,
                "verdict": c.judged.verdict if c.judged else None,
                "truth": c.judged.truth if c.judged else None,
            }
            for c in cases
        ],
    }  # fmt: skip


@click.command()
@click.option(
    "--cases", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True
)
@click.option("--runs", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path))
def main(cases: Path, runs: Path | None, json_file: Path | None) -> None:
    """Judge every case and compare."""
    others = published(runs) if runs else []
    result = report([case_of(values) for values in read_rows(cases)], others)
    if json_file:
        json_file.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
