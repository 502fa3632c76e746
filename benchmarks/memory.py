"""Predicted against measured peak memory: published runs, or the oracle of real PyTorch models.

``python benchmarks/memory.py (--runs CSV | --oracle CSV) [--cross-validate family|model]
[--json FILE]``

Peaks are compared by the metric that a row states (allocated, reserved, the device's). Verdicts
compare the need (allocated peak on the worst rank times the allocator's overhead, context and
communication buffers) with the card's memory.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._memory_rows import memory_run
from benchmarks._oracle import oracle_run, predicted_bytes
from benchmarks._verdicts import Judged, judge, rates, show
from solver.calibration.rows import RefusedError, read_rows
from topology.units import GIB

WORST = 12
WITHIN = 0.015
"""Error that the oracle's rows should keep."""
T = TypeVar("T")


def each(
    path: Path, translate: Callable[[Mapping[str, Any]], T]
) -> tuple[list[T], list[dict[str, str]]]:
    """Translate and price every row; rows that cannot be are refused with the reason."""
    done: list[T] = []
    refused: list[dict[str, str]] = []
    for number, values in enumerate(read_rows(path), start=2):
        name = str(values.get("id") or values.get("model") or "?")[:40]
        try:
            done.append(translate(values))
        except RefusedError as why:
            refused.append({"row": str(number), "id": name, "reason": str(why)})
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as why:
            reason = f"not priced: {type(why).__name__} {why}"[:160]
            refused.append({"row": str(number), "id": name, "reason": reason})
    return done, refused


def priced(values: Mapping[str, Any]) -> dict[str, Any]:
    """Price one published row."""
    run = memory_run(values)
    need = run.predicted_bytes("device")
    shown = run.predicted_bytes(run.metric)
    if not np.isfinite(need) or need <= 0:
        raise RefusedError("no finite estimate")
    verdict = judge(run)
    measured = run.measured_bytes if run.outcome == "ran" else None
    return {
        "id": run.id,
        "stack": run.stack,
        "metric": run.metric,
        "measured_gib": None if measured is None else measured / GIB,
        "predicted_gib": shown / GIB,
        "error": None if measured is None else shown / measured - 1,
        "judged": verdict,
        "run": run,
    }


def priced_oracle(values: Mapping[str, Any]) -> dict[str, Any]:
    """Price one row of the oracle."""
    run = oracle_run(values)
    predicted, phase = predicted_bytes(run)
    return {
        "id": run.label,
        "stack": "layer" if run.per_layer else "model",
        "metric": "allocated",
        "measured_gib": run.measured_bytes / GIB,
        "predicted_gib": predicted / GIB,
        "error": predicted / run.measured_bytes - 1,
        "phase": phase,
    }


def tabulate(rows: list[dict[str, Any]], key: str) -> dict[str, dict[str, float]]:
    """Print and return errors by group."""
    groups: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row["error"] is not None:
            groups[str(row[key])].append(100 * row["error"])
    click.echo(f"{key:<40}{'n':>5}{'MAPE %':>9}{'median':>8}{'bias %':>8}")
    table = {}
    for name, errors in sorted(groups.items()):
        size = np.abs(errors)
        table[name] = {
            "n": len(errors), "mape": float(size.mean()), "median": float(np.median(size)),
            "bias": float(np.mean(errors)),
        }  # fmt: skip
        click.echo(
            f"{name:<40}{len(errors):>5}{size.mean():>9.2f}{np.median(size):>8.2f}"
            f"{np.mean(errors):>8.2f}"
        )
    click.echo("")
    return table


def report(rows: list[dict[str, Any]], refused: list[dict[str, str]]) -> dict[str, Any]:
    """Print tables, confusion matrix and the summary line; return them as data."""
    groups = {key: tabulate(rows, key) for key in ("stack", "metric")}
    known = [row for row in rows if row["error"] is not None]
    click.echo("largest errors")
    for row in sorted(known, key=lambda r: -abs(r["error"]))[:WORST]:
        click.echo(
            f"  {row['id']:<58}{100 * row['error']:+7.1f} %  measured "
            f"{row['measured_gib']:.2f} GiB {row['metric']}"
        )
    judged: list[Judged] = [row["judged"] for row in rows if "judged" in row]
    matrix = show(judged) if judged else {}
    reasons = Counter(row["reason"] for row in refused)
    for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        click.echo(f"refused {count}: {reason}")
    errors = 100 * np.abs([row["error"] for row in known]) if known else np.zeros(1)
    if not judged:
        inside = sum(abs(row["error"]) <= WITHIN for row in known)
        click.echo(f"within {100 * WITHIN:.1f} %: {inside} of {len(known)}")
    found = rates(judged)
    summary = {"n": len(known), "mape": float(errors.mean()), "median": float(np.median(errors))}
    click.echo(
        f"n={len(known)} mape={errors.mean():.2f} median={np.median(errors):.2f} "
        f"oom_recall={found['oom_recall']:.1f} false_oom={found['false_oom']:.1f} "
        f"tight_recall={found['tight_recall']:.1f} refused={len(refused)}"
    )
    listed = [
        {k: v for k, v in row.items() if k not in ("judged", "run")}
        | ({"verdict": row["judged"].verdict, "truth": row["judged"].truth} if judged else {})
        for row in rows
    ]
    return {
        "overall": {**summary, **found, "refused": len(refused)}, "groups": groups,
        "confusion": matrix, "refused": refused, "rows": listed,
    }  # fmt: skip


def validate(rows: list[dict[str, Any]], by: str) -> None:
    """Put errors under constants fitted without a run's family, or its model, into the rows."""
    # scipy is an optional extra that only fitting needs.
    from benchmarks._memory_fit import left_out  # noqa: PLC0415

    known = [row for row in rows if row["error"] is not None]
    for row, error in zip(known, left_out([row["run"] for row in known], by), strict=True):
        row["predicted_gib"] *= (1 + error) / (1 + row["error"])
        row["error"] = error


@click.command()
@click.option("--runs", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--oracle", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--cross-validate", type=click.Choice(["family", "model"]))
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path))
def main(
    runs: Path | None, oracle: Path | None, cross_validate: str | None, json_file: Path | None
) -> None:
    """Predict every peak and compare."""
    if (runs is None) == (oracle is None):
        raise click.UsageError("give --runs CSV or --oracle CSV, one of them")
    done, refused = each(runs, priced) if runs else each(oracle or Path(), priced_oracle)
    if runs and cross_validate:
        validate(done, cross_validate)
    result = report(done, refused)
    if json_file:
        json_file.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
