"""Errors that a user can mend.

Tree::

    ShardplanError            anything this project raises on purpose
    ├── InputError            bad input: one or more Problem entries, exit code 2
    └── UnsupportedError      valid input that this version refuses, exit code 2
"""

from __future__ import annotations

from dataclasses import dataclass


class ShardplanError(Exception):
    """Anything that the project raises on purpose."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One fault in the input, ready to print.

    Attributes
    ----------
    path
        File or flag that holds the fault, e.g. ``problem.yaml`` or ``--model``.
    line, column
        Position in the file, from 1; 0 where there is none (a flag).
    field
        Dotted name of the field, e.g. ``limits.max_bubble``; empty for a whole file.
    code
        Stable id, ``SP1xx``.
    message
        What is wrong: need versus have, with units.
    hint
        What to write instead.
    """

    path: str
    line: int
    column: int
    field: str
    code: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = self.path + (f":{self.line}" if self.line else "")
        field = f"{self.field}: " if self.field else ""
        return f"error[{self.code}] {place}: {field}{self.message}" + (
            f" {self.hint}" if self.hint else ""
        )


MOST_SHOWN = 20
"""Faults that are reported at once; more help nobody."""


class InputError(ShardplanError):
    """Input that cannot be used; carries the first 20 faults, in file order."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = tuple(sorted(problems)[:MOST_SHOWN])
        more = len(problems) - len(self.problems)
        lines = [*map(str, self.problems), *([f"… and {more:,} more"] if more else [])]
        super().__init__("\n".join(lines))


class UnsupportedError(InputError):
    """Well-formed input that this version does not support and says so."""
