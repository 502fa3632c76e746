"""What ``shardplan calibrate`` gains on clusters that the shipped profiles have never seen.

``python benchmarks/calibration.py --runs CSV [--draws 20] [--json FILE]``

Every family of runs is left out of the fit of the constants in turn. Under these constants,
calibration gets three of its runs, drawn at random, and predicts the others. As for a user, runs
of several GPUs or stacks are refused, and the profile found serves the GPU and stack of its runs
only. The constants never saw the family; the spread of the fit's prior and the rule by which a fit
replaces the shipped profile were chosen on all families together.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._fit import ROUNDS, Fit, constants, family
from benchmarks.fit_profiles import load
from solver.calibration.multipliers import calibrate, errors
from solver.calibration.runs import Run
from solver.cost.own_profile import KINDS

GIVEN = 3
LEAST_OTHERS = 3
"""Runs that a family must have beyond those given, so that there is something to predict."""
SEED = 3
QUARTER = 0.75


def unseen(runs: list[Run]) -> dict[str, list[Run]]:
    """Return the runs of each large enough family with profiles fitted without them."""
    fit = Fit(runs, constants())
    keys = [family(run) for run in runs]
    groups = sorted({k for k in keys if keys.count(k) >= GIVEN + LEAST_OTHERS})
    held = np.array([[k == g for k in keys] for g in groups])
    found = fit.solve(fit.priors[None, :].repeat(len(groups), axis=0), ROUNDS, ~held)
    return {
        g: [fit.with_constants(i, found[at]) for i, k in enumerate(keys) if k == g]
        for at, g in enumerate(groups)
    }


def own_profile(given: list[Run]) -> tuple[float, ...] | None:
    """Calibrate as the command does; None where the shipped profile stays."""
    if len({cluster(run) for run in given}) > 1:
        return None
    found = calibrate(given)
    return None if found.kept else found.times


def cluster(run: Run) -> tuple[str, str]:
    """Return what the runs of one file share."""
    return run.group.gpu.id, run.stack


def measure(runs: list[Run], draws: int) -> dict[str, float]:
    """Calibrate on draws of three runs; mean errors of the others, before and after."""
    rng = np.random.default_rng(SEED)
    shipped = np.abs(errors(runs, np.zeros(len(KINDS))))
    before, after, kept = [], [], 0
    for _ in range(draws):
        given = sorted(rng.choice(len(runs), GIVEN, replace=False).tolist())
        others = [i for i in range(len(runs)) if i not in given]
        times = own_profile([runs[i] for i in given])
        kept += times is None
        fitted = shipped.copy()
        if times is not None:
            served = [i for i in others if cluster(runs[i]) == cluster(runs[given[0]])]
            fitted[served] = np.abs(errors([runs[i] for i in served], np.log(times)))
        before.append(float(shipped[others].mean()))
        after.append(float(fitted[others].mean()))
    return {
        "n": len(runs),
        "before": 100 * float(np.mean(before)),
        "after": 100 * float(np.mean(after)),
        "kept": kept / draws,
    }


@click.command()
@click.option("--runs", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True)
@click.option("--draws", type=click.IntRange(1), default=20)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path))
def main(runs: Path, draws: int, json_file: Path | None) -> None:
    """Calibrate on three runs of every family and compare."""
    table: dict[str, Any] = {}
    click.echo(f"{'family left out':<20}{'n':>5}{'before %':>10}{'after %':>9}{'kept':>7}")
    for name, rows in unseen(load(runs)).items():
        s = table[name] = measure(rows, draws)
        click.echo(
            f"{name:<20}{s['n']:>5}{s['before']:>10.2f}{s['after']:>9.2f}{100 * s['kept']:>6.0f}%"
        )
    gained = sum(s["after"] <= QUARTER * s["before"] for s in table.values())
    worse = sum(s["after"] > s["before"] for s in table.values())
    click.echo(
        f"families={len(table)} gained_a_quarter={gained} worse={worse} "
        f"before={np.mean([s['before'] for s in table.values()]):.2f} "
        f"after={np.mean([s['after'] for s in table.values()]):.2f}"
    )
    if json_file:
        json_file.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
