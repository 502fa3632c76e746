"""Fit the constants of solver/cost/profiles to published runs.

``python benchmarks/fit_profiles.py --runs CSV [--write] [--rounds N]``

Which constants move, and their priors, is data: fit_profiles.yaml. The objective is soft-L1 on the
logarithm of predicted over measured, families weighted against each other, plus the priors.
Everything is predicted through the product's own estimator. ``--write`` rewrites the figures of the
profile files in place; comments stay.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._fit import PROFILES, Array, Constant, Fit, constants
from solver.calibration.rows import RefusedError, read_rows
from solver.calibration.runs import Run, run_of


def load(path: Path) -> list[Run]:
    """Read the runs that can be priced."""
    runs = []
    for values in read_rows(path):
        try:
            runs.append(run_of(values))
        except RefusedError:
            continue
    return runs


def start_of(moving: Sequence[Constant], runs: Sequence[Run]) -> Array:
    """Return the logarithms of the current values, of priors where no run has them."""
    values = []
    for c in moving:
        value = c.prior
        if c.kind == "gpu":
            found = next((r for r in runs if r.profile.gpu.family == c.owner), None)
            value = getattr(found.profile.gpu, c.name) if found else value
        else:
            wanted = c.owner or "megatron-core"
            found = next((r for r in runs if r.stack == wanted), None)
            value = getattr(found.profile.stack, c.name) if found else value
        values.append(math.log(value if value > 0 else c.prior))
    return np.array(values)


def write(moving: Sequence[Constant], x: Array) -> None:
    """Put the values into the profile files, on their lines."""
    for name, kinds in (("gpus.yaml", ("gpu",)), ("stacks.yaml", ("stack", "shared"))):
        lines = (PROFILES / name).read_text("utf-8").splitlines()
        for c, value in zip(moving, x, strict=True):
            if c.kind in kinds:
                _put(lines, c, f"{math.exp(value):.3g}")
        (PROFILES / name).write_text("\n".join(lines) + "\n", "utf-8")


def stamp(path: Path, rows: int, error: float, date: str) -> None:
    """Write what the figures come from into a profile file's header."""
    text = path.read_text("utf-8")
    note = (
        f"# Fitted by benchmarks/fit_profiles.py on {date}: {rows} published runs, mean absolute "
        f"error {error:.1f} %.\n"
    )
    kept = re.sub(r"^# Fitted by .*\n", "", text, flags=re.M)
    path.write_text(note + kept, "utf-8")


def _put(lines: list[str], c: Constant, text: str) -> None:
    """Replace or insert one figure in its section."""
    if re.fullmatch(r"[\d.]+e[-+]\d+", text) and "." not in text:
        text = text.replace("e", ".0e")  # YAML 1.1 reads 1e-5 as text
    head = "shared:" if c.kind == "shared" else f"  {c.owner}:"
    indent = "  " if c.kind == "shared" else "    "
    first = next(i for i, line in enumerate(lines) if line.startswith(head))
    inline = re.search(r"\{(.*)\}\s*$", lines[first])
    if inline:  # one line becomes a block, its figures kept
        pairs = [f"{indent}{pair.strip()}" for pair in inline[1].split(",") if pair.strip()]
        lines[first : first + 1] = [head, *pairs]
    at = first + 1
    while at < len(lines) and (lines[at].startswith(indent) or not lines[at].strip()):
        match = re.match(rf"({indent}{c.name}: )(\S+)( *)(#.*)?$", lines[at])
        if match:
            pad = len(match[2]) + len(match[3]) - len(text)
            comment = " " * max(pad, 1) + match[4] if match[4] else ""
            lines[at] = match[1] + text + comment
            return
        at += 1
    lines.insert(first + 1, f"{indent}{c.name}: {text}")


@click.command()
@click.option("--runs", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True)
@click.option("--rounds", type=int, default=20, help="evaluations at most")
@click.option("--cold", is_flag=True, help="start from the priors, not from the current values")
@click.option("--date", default="undated", help="date to write into the files")
@click.option("--write", "put", is_flag=True, help="rewrite the profile files")
def main(runs: Path, rounds: int, cold: bool, date: str, put: bool) -> None:
    """Fit, report, and write where asked."""
    moving, rows = constants(), load(runs)
    fit = Fit(rows, moving)
    priors = np.array([math.log(c.prior) for c in moving])
    start = priors if cold else start_of(moving, rows)
    before = np.exp(fit.errors(start)) - 1
    x = fit.solve(start[None, :], rounds)[0]
    after = np.exp(fit.errors(x)) - 1
    for c, value in zip(moving, x, strict=True):
        pull = (value - math.log(c.prior)) / c.sigma
        edge = " at its bound" if math.exp(value) in (c.least, c.most) else ""
        click.echo(
            f"{c.label:<48}{math.exp(value):>12.4g}  prior {c.prior:<10.4g}{pull:+5.1f}{edge}"
        )
    if put:
        write(moving, x)
        for name in ("gpus.yaml", "stacks.yaml"):
            stamp(PROFILES / name, len(rows), 100 * float(np.abs(after).mean()), date)
    click.echo(
        f"n={len(rows)} constants={len(moving)} before={100 * np.abs(before).mean():.2f} "
        f"after={100 * np.abs(after).mean():.2f}"
    )


if __name__ == "__main__":
    main()
