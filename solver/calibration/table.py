"""Reading a user's measured runs; what cannot be is refused with its line."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from topology.errors import InputError, Problem

from .rows import RefusedError, read_rows
from .runs import Run, predict, run_of

LEAST_RUNS = 3
MOST_RUNS = 1000
FAR = 4.0
"""A step so many times longer or shorter than predicted is a mistake in the row (no published run
is off by more than 2 under constants that never saw it)."""
HINT = "See docs/accuracy.md for the columns."


@dataclass(frozen=True)
class Measured:
    """A run and where it stands."""

    run: Run
    line: int


def read_runs(path: str, stack: str | None = None) -> tuple[Measured, ...]:
    """Read the runs of one cluster.

    Parameters
    ----------
    path
        CSV file, one run a row.
    stack
        Profile that all rows start from; None takes each row's ``stack``.

    Raises
    ------
    InputError
        With every row that cannot be, and its line.
    """
    found: list[Measured] = []
    faults: list[Problem] = []
    try:
        for line, values in _lines(path):
            try:
                run = run_of(values, stack)
                _plausible(run)
                found.append(Measured(run, line))
            except RefusedError as why:
                faults.append(_fault(path, line, f"{why}."))
            if len(found) + len(faults) > MOST_RUNS:
                faults.append(_fault(path, line, f"more than {MOST_RUNS:,} rows."))
                break
    except OSError as error:
        raise InputError(_fault(path, 0, f"{error.strerror or 'cannot be read'}.")) from None
    except csv.Error as error:
        raise InputError(_fault(path, 0, f"is not CSV: {error}.")) from None
    faults += _mixed(path, found)
    if not faults and len(found) < LEAST_RUNS:
        message = f"{len(found)} measured runs; at least {LEAST_RUNS} are needed."
        faults.append(_fault(path, 0, message))
    if faults:
        raise InputError(*faults)
    return tuple(found)


def _lines(path: str) -> list[tuple[int, dict[str, str | None]]]:
    """Return the rows with their lines, counting the head as line 1."""
    return list(enumerate(read_rows(Path(path)), start=2))


def _plausible(run: Run) -> None:
    """Refuse a step that no cluster like this takes."""
    try:
        predicted = predict(run)
    except (ArithmeticError, LookupError, ValueError) as why:
        raise RefusedError(f"cannot be priced: {why}"[:160]) from None
    ratio = run.measured_s / predicted
    if not 1 / FAR <= ratio <= FAR:
        raise RefusedError(
            f"step_s {run.measured_s:g} s is {ratio:.2g} times the predicted {predicted:.3g} s: "
            "check the unit and the layout"
        )


def _mixed(path: str, found: list[Measured]) -> list[Problem]:
    """Find rows of another GPU or stack than the first."""
    faults = []
    for one in found[1:]:
        for what, own, first in (
            ("GPU", one.run.group.gpu.id, found[0].run.group.gpu.id),
            ("stack", one.run.stack, found[0].run.stack),
        ):
            if own != first:
                message = f"{what} {own}, but line {found[0].line} has {first}: one cluster a file."
                faults.append(_fault(path, one.line, message))
    return faults


def _fault(path: str, line: int, message: str) -> Problem:
    return Problem(path, line, 0, "", "SP124", message, HINT)
