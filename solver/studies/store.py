"""Results of sweeps in one SQLite file: no finished point is lost, and none is stored twice.

Every point is a transaction of its own under write-ahead logging: a killed process loses what it
had not finished and nothing else, and several may write the same file.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from topology.errors import InputError, Problem

from .points import Point, SweepSpec
from .store_file import named, opened
from .vary import Axis
from .worker import FAILED, Outcome

OPEN = "unknown"
"""Status of a point that ran out of time, which another run may finish; so may a failed one."""


class Store:
    """An open file of results."""

    def __init__(self, path: str, base: sqlite3.Connection) -> None:
        self.path, self.base = path, base

    def close(self) -> None:
        """Close the file."""
        self.base.close()

    def add_sweep(self, spec: SweepSpec, points: Sequence[Point]) -> None:
        """Note a sweep and which points it is of; nothing is done twice."""
        with self._transaction():
            number = self.base.execute("SELECT COALESCE(MAX(number), 0) + 1 FROM sweeps")
            row = (spec.key, int(number.fetchone()[0]), _spec_text(spec))
            self.base.execute(
                "INSERT INTO sweeps VALUES (?, ?, ?) ON CONFLICT(key) DO UPDATE "
                "SET number=excluded.number", row,
            )  # fmt: skip
            self.base.executemany(
                "INSERT OR REPLACE INTO members VALUES (?, ?, ?, ?)",
                [(spec.key, i, p.key, json.dumps(p.labels, ensure_ascii=False))
                 for i, p in enumerate(points)],
            )  # fmt: skip

    def done(self, keys: Iterable[str]) -> set[str]:
        """Return which of the points need no further work."""
        rows = self._rows(
            "SELECT key FROM points WHERE status NOT IN (?, ?)", (FAILED, OPEN)
        )  # fmt: skip
        return {row[0] for row in rows} & set(keys)

    def put(self, outcome: Outcome) -> None:
        """Store a finished point; one that is already finished stays as it is."""
        with self._transaction():
            self.base.execute(
                "INSERT INTO points VALUES (?, ?, ?, ?, ?) ON CONFLICT(key) DO UPDATE SET "
                "status=excluded.status, record=excluded.record, reason=excluded.reason, "
                "seconds=excluded.seconds WHERE points.status IN ('error', 'unknown')",
                (outcome.key, outcome.status, outcome.record, outcome.reason, outcome.seconds),
            )

    def last_sweep(self) -> SweepSpec:
        """Return the sweep that was last asked for.

        Raises
        ------
        InputError
            Where the file holds none.
        """
        rows = self._rows("SELECT spec FROM sweeps ORDER BY number DESC LIMIT 1", ())
        if not rows:
            hint = "Name the -o file of a sweep."
            raise InputError(Problem(self.path, 0, 0, "", "SP100", "holds no sweep.", hint))
        return _spec_of(rows[0][0])

    def results(self, sweep: str) -> Iterator[dict[str, Any]]:
        """Yield a row a point in the sweep's order, those not yet solved included."""
        for labels, status, record, reason in self._rows(
            "SELECT labels, COALESCE(status, 'open'), record, reason FROM members "
            "LEFT JOIN points ON points.key = members.point WHERE sweep = ? ORDER BY place",
            (sweep,),
        ):
            plan = {} if record is None else json.loads(record)
            yield {"labels": json.loads(labels), "status": status, "reason": reason, "plan": plan}

    def _rows(self, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with named(self.path):
            return self.base.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with named(self.path):
            self.base.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.base.execute("COMMIT")
            except BaseException:
                if self.base.in_transaction:
                    self.base.execute("ROLLBACK")
                raise


def open_store(path: str, must_exist: bool = False) -> Store:
    """Open a file of results to write into it; a new or empty one is made one.

    Raises
    ------
    InputError
        Where it is missing and must exist, holds anything else, or cannot be written.
    """
    return Store(path, opened(path, must_exist))


def read_store(path: str) -> Store:
    """Open a file of results to read it.

    Raises
    ------
    InputError
        Where it is no such file, or damaged.
    """
    return Store(path, opened(path, must_exist=True, read=True))


def _spec_text(spec: SweepSpec) -> str:
    return json.dumps({
        "text": spec.text, "path": spec.path, "overrides": dict(spec.overrides),
        "axes": [[axis.field, list(axis.values)] for axis in spec.axes],
        "scenarios": {name: dict(fields) for name, fields in spec.scenarios.items()},
    }, ensure_ascii=False)  # fmt: skip


def _spec_of(text: str) -> SweepSpec:
    data = json.loads(text)
    axes = tuple(Axis(field, tuple(values)) for field, values in data.pop("axes"))
    return SweepSpec(**data, axes=axes)
