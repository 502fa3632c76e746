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
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import yaml
from scipy.optimize import lsq_linear  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._rows import RefusedError, read_rows
from benchmarks._runs import Run, predict, run_of

Array = npt.NDArray[np.float64]
HERE = Path(__file__).resolve().parent
PROFILES = HERE.parents[0] / "solver" / "cost" / "profiles"
ERROR_SCALE = 0.03
"""Relative error from which residuals count linearly: the repeatability of the same run."""
FAMILY_FLOOR, FAMILY_POWER, FAMILY_REFERENCE = 8, 0.35, 30
"""A row weighs (30 / n) ** 0.35, n its family's rows but at least 8: large tables count more in
all, small ones more a row."""
STEP = 2e-3
"""Relative step of the numeric derivative; times are in ticks of 0.1 µs."""
REFRESH = 3
"""Steps after which the derivative is worked out again."""
CONVERGED = 0.3
"""Gain of the objective below which the fit ends."""


@dataclass(frozen=True)
class Constant:
    """One constant that moves.

    Attributes
    ----------
    kind, owner, name
        ``gpu`` family, ``stack`` or ``shared`` (owner empty), and the field.
    prior, sigma
        Centre, and standard deviation of its logarithm.
    least, most
        Bounds.
    """

    kind: str
    owner: str
    name: str
    prior: float
    sigma: float
    least: float
    most: float

    @property
    def label(self) -> str:
        """Name for the report."""
        return f"{self.owner or self.kind}.{self.name}"


def constants() -> list[Constant]:
    """Read the table of constants."""
    table = yaml.safe_load((HERE / "fit_profiles.yaml").read_text("utf-8"))
    found = []
    for kind, owners in table.items():
        for owner, fields in {"": owners}.items() if kind == "shared" else owners.items():
            for name, (prior, sigma, *bounds) in fields.items():
                least, most = bounds or (float(prior) / 20, float(prior) * 20)
                found.append(
                    Constant(kind, owner, name, float(prior), sigma, float(least), float(most))
                )
    return found


def family(run: Run) -> str:
    """Return the family of a run: releases of one table are one."""
    return re.split(r"[-. ]", run.series)[0]


class Fit:
    """Residuals and their derivative over a set of runs."""

    def __init__(self, runs: Sequence[Run], moving: Sequence[Constant]) -> None:
        self.runs, self.moving = runs, moving
        stacks = yaml.safe_load((PROFILES / "stacks.yaml").read_text("utf-8"))["stacks"]
        self.own = {c: [self._uses(r, c, stacks) for r in runs] for c in moving}
        sizes = Counter(family(r) for r in runs)
        self.weight = np.array(
            [
                (FAMILY_REFERENCE / max(sizes[family(r)], FAMILY_FLOOR)) ** (FAMILY_POWER / 2)
                for r in runs
            ]
        )
        self.measured = np.log([r.measured_s for r in runs])
        self.dead: set[tuple[int, int]] = set()

    def _uses(self, run: Run, c: Constant, stacks: Mapping[str, Mapping[str, Any]]) -> bool:
        if c.kind == "gpu":
            return run.profile.gpu.family == c.owner
        if c.kind == "stack":
            return run.stack == c.owner
        moved = any(
            o.kind == "stack" and o.owner == run.stack and o.name == c.name for o in self.moving
        )
        return c.name not in stacks[run.stack] and not moved

    def log_step(self, index: int, x: Array) -> float:
        """Logarithm of the predicted step of one run under constants exp(x)."""
        run = self.runs[index]
        gpu: dict[str, float] = {}
        stack: dict[str, float] = {}
        for c, value in zip(self.moving, x, strict=True):
            if self.own[c][index]:
                (gpu if c.kind == "gpu" else stack)[c.name] = math.exp(value)
        profile = run.profile.model_copy(
            update={
                "gpu": run.profile.gpu.model_copy(update=gpu),
                "stack": run.profile.stack.model_copy(update=stack),
            }
        )
        return math.log(predict(run, profile))

    def errors(self, x: Array) -> Array:
        """Log errors of all runs."""
        steps = [self.log_step(i, x) for i in range(len(self.runs))]
        return np.array(steps) - self.measured

    def residuals(self, x: Array) -> Array:
        """Soft-L1 residuals of runs, then of priors."""
        return np.concatenate([self._soft(self.errors(x)), self._prior(x)])

    def _soft(self, errors: Array) -> Array:
        z = errors / ERROR_SCALE
        return np.asarray(self.weight * np.sign(z) * np.sqrt(2 * (np.sqrt(1 + z**2) - 1)))

    def _prior(self, x: Array) -> Array:
        return np.array(
            [(v - math.log(c.prior)) / c.sigma for c, v in zip(self.moving, x, strict=True)]
        )

    def derivative(self, x: Array) -> Array:
        """Jacobian of ``residuals``; pairs without effect are remembered and skipped."""
        base = self.errors(x)
        z = base / ERROR_SCALE
        soft = np.sqrt(2 * (np.sqrt(1 + z**2) - 1))
        # d soft / d z = z / (sqrt(1 + z^2) soft), 1 at z = 0
        slope = np.abs(z) / (np.sqrt(1 + z**2) * np.maximum(soft, 1e-9))
        slope = np.where(soft > 1e-9, slope, 1.0)
        table = np.zeros((len(self.runs) + len(x), len(x)))
        for j, c in enumerate(self.moving):
            moved = x.copy()
            moved[j] += STEP
            for i, used in enumerate(self.own[c]):
                if not used or (i, j) in self.dead:
                    continue
                change = (self.log_step(i, moved) - self.measured[i] - base[i]) / STEP
                if abs(change) < 1e-7:
                    self.dead.add((i, j))
                table[i, j] = self.weight[i] * slope[i] / ERROR_SCALE * change
            table[len(self.runs) + j, j] = 1 / c.sigma
        return table

    def solve(self, start: Array, rounds: int, say: Callable[[str], None]) -> Array:
        """Return the constants' logarithms at the optimum.

        Gauss-Newton within bounds: each step solves the damped linear problem exactly
        (scipy.optimize.lsq_linear); the derivative is worked out every third step and updated after
        Broyden in between, as it costs a hundred evaluations.
        """
        low = np.array([math.log(c.least) for c in self.moving])
        high = np.array([math.log(c.most) for c in self.moving])
        x = np.clip(start, low, high)
        value, damping, table, age = self.residuals(x), 0.3, None, 0
        for _ in range(rounds):
            if table is None or age >= REFRESH:
                table, age = self.derivative(x), 0
            step = _bounded_step(table, value, damping, low - x, high - x)
            tried = self.residuals(x + step)
            gain = 0.5 * float(value @ value - tried @ tried)
            missed = tried - value - table @ step
            table = table + np.outer(missed, step) / max(float(step @ step), 1e-12)
            age += 1
            if gain > 0:
                x, value, damping = x + step, tried, damping / 2
            else:
                damping, age = damping * 4, REFRESH if age > 1 else age
            say(f"cost {0.5 * float(value @ value):.1f} damping {damping:.3g}")
            if 0 <= gain < CONVERGED:
                break
        return np.asarray(x)


def _bounded_step(table: Array, value: Array, damping: float, low: Array, high: Array) -> Array:
    """Minimise |table · step + value|² + damping |D step|² within bounds, D the columns' norms."""
    size = np.sqrt(damping * (table**2).sum(axis=0))
    rows = np.vstack([table, np.diag(size)])
    target = np.concatenate([-value, np.zeros(len(size))])
    return np.asarray(lsq_linear(rows, target, bounds=(low - 1e-9, high + 1e-9), tol=1e-8).x).clip(
        low, high
    )


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
    if lines[first].rstrip().endswith("}"):
        lines[first] = head
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
@click.option("--rounds", type=int, default=12, help="evaluations at most")
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
    x = fit.solve(start, rounds, click.echo)
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
