"""Predicted against measured step times of published runs.

``python benchmarks/accuracy.py --runs CSV [--profile P] [--cross-validate family|model]
[--json FILE]``
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._fit import ROUNDS, Fit, constants, family
from solver.calibration.rows import RefusedError, read_rows
from solver.calibration.runs import Run, predict, run_of

WORST = 10


def score(values: Iterable[float]) -> dict[str, float]:
    """Return n, mean absolute error, its median and 90th percentile, and bias, in percent."""
    errors = 100 * np.array(list(values))
    if not len(errors):
        return {"n": 0, "mape": 0.0, "median": 0.0, "p90": 0.0, "bias": 0.0}
    size = np.abs(errors)
    return {
        "n": len(errors),
        "mape": float(size.mean()),
        "median": float(np.median(size)),
        "p90": float(np.percentile(size, 90)),
        "bias": float(errors.mean()),
    }


def measure(
    path: Path, profile: str | None
) -> tuple[list[tuple[Run, float]], list[dict[str, str]]]:
    """Predict every row; return (run, relative error) pairs and the refused rows."""
    done: list[tuple[Run, float]] = []
    refused: list[dict[str, str]] = []
    for number, values in enumerate(read_rows(path), start=2):
        try:
            run = run_of(values, profile)
            error = predict(run) / run.measured_s - 1
        except RefusedError as why:
            refused.append({"row": str(number), "id": str(values.get("id")), "reason": str(why)})
        except (ArithmeticError, LookupError, TypeError, ValueError) as why:
            reason = f"not priced: {type(why).__name__} {why}"[:160]
            refused.append({"row": str(number), "id": str(values.get("id")), "reason": reason})
        else:
            done.append((run, error))
    return done, refused


def kind(run: Run) -> str:
    """Return the class that an error is stated for: the stack, and dense or with experts."""
    return f"{run.stack} {'dense' if run.job.transformer.moe is None else 'moe'}"


def grouped(done: list[tuple[Run, float]]) -> dict[str, dict[str, dict[str, float]]]:
    """Score the runs by series, stack, and GPU with precision."""
    keys: dict[str, Callable[[Run], str]] = {
        "series": lambda r: r.series,
        "stack": kind,
        "gpu": lambda r: f"{r.labels['gpu']} {r.labels['precision']}",
    }
    tables: dict[str, dict[str, dict[str, float]]] = {}
    for name, key in keys.items():
        groups: dict[str, list[float]] = defaultdict(list)
        for run, error in done:
            groups[key(run)].append(error)
        tables[name] = {k: score(v) for k, v in sorted(groups.items())}
    return tables


def report(done: list[tuple[Run, float]], refused: list[dict[str, str]]) -> dict[str, Any]:
    """Print the tables and the summary line; return them as data."""
    tables = grouped(done)
    for name, rows in tables.items():
        click.echo(f"{name:<36}{'n':>5}{'MAPE %':>9}{'median':>8}{'bias %':>8}")
        for label, s in rows.items():
            click.echo(
                f"{label:<36}{s['n']:>5}{s['mape']:>9.1f}{s['median']:>8.1f}{s['bias']:>8.1f}"
            )
        click.echo("")
    worst = sorted(done, key=lambda pair: -abs(pair[1]))[:WORST]
    click.echo("worst rows")
    for run, error in worst:
        click.echo(f"  {run.id:<18}{100 * error:+7.1f} %  {run.series}  {run.labels['model']}")
    reasons: dict[str, int] = defaultdict(int)
    for row in refused:
        reasons[row["reason"]] += 1
    for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
        click.echo(f"refused {count}: {reason}")
    overall = score(error for _, error in done)
    total = len(done) + len(refused)
    share = 100 * len(refused) / total if total else 0.0
    click.echo(
        f"n={overall['n']} mape={overall['mape']:.2f} median={overall['median']:.2f} "
        f"p90={overall['p90']:.2f} bias={overall['bias']:.2f} refused={len(refused)} "
        f"refused_pct={share:.1f}"
    )
    listed = [
        {
            "id": run.id,
            "series": run.series,
            "model": run.labels["model"],
            "class": kind(run),
            "gpu": run.profile.gpu.family,
            "gpus": run.group.gpus,
            "measured_s": run.measured_s,
            "error": error,
        }
        for run, error in done
    ]
    return {"overall": overall, "groups": tables, "refused": refused, "rows": listed}


def validated(runs: list[Run], by: str) -> list[tuple[Run, float]]:
    """Predict each run with constants fitted without its family, or its model."""
    keys = [family(run) if by == "family" else run.labels["model"] for run in runs]
    errors = Fit(runs, constants()).left_out(keys, ROUNDS, lambda t: click.echo(t, err=True))
    return [(run, float(error)) for run, error in zip(runs, errors, strict=True)]


@click.command()
@click.option("--runs", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True)
@click.option("--profile", help="stack whose profile prices every row; default: the row's stack")
@click.option("--cross-validate", type=click.Choice(["family", "model"]))
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path))
def main(
    runs: Path, profile: str | None, cross_validate: str | None, json_file: Path | None
) -> None:
    """Predict the step of every row and compare."""
    done, refused = measure(runs, profile)
    if cross_validate:
        done = validated([run for run, _ in done], cross_validate)
    result = report(done, refused)
    if json_file:
        json_file.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
