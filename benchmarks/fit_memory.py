"""Fit the constants of solver/cost/profiles/memory.yaml to measured peaks.

``python benchmarks/fit_memory.py --runs CSV [--write]``

Which constants move, and their priors, is data: fit_memory.yaml. A stack's constants are fitted on
its own rows; ``--write`` puts them into the profile, rounded to three figures; comments stay.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._memory_fit import constants, fit, log_error
from benchmarks._memory_rows import MemoryRun, memory_run
from solver.calibration.rows import RefusedError, read_rows

PROFILE = Path(__file__).resolve().parents[1] / "solver" / "cost" / "profiles" / "memory.yaml"


def load(path: Path) -> list[MemoryRun]:
    """Read the runs with a measured peak."""
    runs = []
    for values in read_rows(path):
        try:
            run = memory_run(values)
        except RefusedError:
            continue
        if run.measured_bytes and run.outcome == "ran":
            runs.append(run)
    return runs


def put(lines: list[str], stack: str, name: str, value: float) -> None:
    """Replace or insert one figure in its stack's section."""
    text = f"{value:.2e}" if value >= 1e5 else f"{value:.3g}"
    first = next(i for i, line in enumerate(lines) if line.startswith(f"  {stack}:"))
    at = first + 1
    while at < len(lines) and lines[at].startswith("    "):
        match = re.match(rf"(    {name}: )(\S+)( *)(#.*)?$", lines[at])
        if match:
            pad = max(len(match[2]) + len(match[3]) - len(text), 1)
            lines[at] = match[1] + text + (" " * pad + match[4] if match[4] else "")
            return
        at += 1
    lines.insert(first + 1, f"    {name}: {text}")


@click.command()
@click.option("--runs", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True)
@click.option("--write", "save", is_flag=True, help="rewrite the profile")
def main(runs: Path, save: bool) -> None:
    """Fit stack by stack and report."""
    rows = load(runs)
    lines = PROFILE.read_text("utf-8").splitlines()
    for stack, moving in constants().items():
        own = [run for run in rows if run.stack == stack]
        found = fit(own, moving)
        before = [abs(np.expm1(log_error(run, {}))) for run in own] or [0.0]
        after = [abs(np.expm1(log_error(run, found))) for run in own] or [0.0]
        click.echo(
            f"{stack:<24}n={len(own):<4}before {100 * np.mean(before):.2f} % "
            f"after {100 * np.mean(after):.2f} %"
        )
        for c in moving:
            click.echo(f"  {c.name:<20}{found[c.name]:>12.4g}  prior {c.prior:.4g}")
            put(lines, stack, c.name, found[c.name])
    if save:
        PROFILE.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
