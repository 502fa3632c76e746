"""Fit the constants of solver/cost/profiles to published runs.

``python benchmarks/fit_profiles.py --runs CSV [--write --date DATE]``

Which constants move, and their priors, is data: fit_profiles.yaml. The objective is soft-L1 on the
logarithm of predicted over measured, families weighted against each other, plus the priors.
Everything is predicted through the product's own estimator; the fit starts from the priors, so the
same runs give the same bytes. ``--write`` rewrites the figures of the
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

from benchmarks._fit import PROFILES, ROUNDS, Array, Constant, Fit, constants, family
from benchmarks._uncertainty import expected_errors
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


def write(moving: Sequence[Constant], x: Array) -> None:
    """Put the values into the profile files, on their lines."""
    for name, kinds in (("gpus.yaml", ("gpu",)), ("stacks.yaml", ("stack", "shared"))):
        lines = (PROFILES / name).read_text("utf-8").splitlines()
        for c, value in zip(moving, x, strict=True):
            if c.kind in kinds:
                _put(lines, c, f"{math.exp(value):.3g}")
        (PROFILES / name).write_text("\n".join(lines) + "\n", "utf-8")


def stamp(path: Path, rows: int, errors: Sequence[float], date: str) -> None:
    """Write what the figures come from into a profile file's header."""
    text = path.read_text("utf-8")
    note = (
        f"# Fitted by benchmarks/fit_profiles.py on {date}: {rows} published runs, mean absolute\n"
        f"# error of a step {errors[0]:.1f} %, of families left out {errors[1]:.1f} %.\n"
    )
    kept = re.sub(r"^# (Fitted by|error) .*\n", "", text, flags=re.M)
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
@click.option("--date", default="undated", help="date to write into the files")
@click.option("--write", "put", is_flag=True, help="rewrite the profile files")
def main(runs: Path, date: str, put: bool) -> None:
    """Fit, report, and write where asked."""
    moving, rows = constants(), load(runs)
    fit = Fit(rows, moving)
    x = fit.solve(fit.priors[None, :], ROUNDS)[0]
    after = np.exp(fit.errors(x)) - 1
    for c, value in zip(moving, x, strict=True):
        pull = (value - math.log(c.prior)) / c.sigma
        edge = " at its bound" if math.exp(value) in (c.least, c.most) else ""
        click.echo(
            f"{c.label:<48}{math.exp(value):>12.4g}  prior {c.prior:<10.4g}{pull:+5.1f}{edge}"
        )
    if put:
        unseen = fit.left_out([family(run) for run in rows], ROUNDS, click.echo)
        found = expected_errors(rows, unseen)
        write(moving, x)
        write(found, np.log([c.prior for c in found]))
        errors = tuple(100 * float(np.abs(part).mean()) for part in (after, unseen))
        for name in ("gpus.yaml", "stacks.yaml"):
            stamp(PROFILES / name, len(rows), errors, date)
    click.echo(f"n={len(rows)} constants={len(moving)} mape={100 * np.abs(after).mean():.2f}")


if __name__ == "__main__":
    main()
