"""Results of sweeps in one SQLite file: no finished point is lost, and none is stored twice.

Every point is a transaction of its own under write-ahead logging: a killed process loses what it
had not finished and nothing else, and several may write the same file.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from topology.errors import InputError, Problem

from .points import Point, SweepSpec
from .vary import Axis
from .worker import FAILED, Outcome

WAIT_S = 60.0
"""How long a writer waits for another one."""

SCHEMA = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS points(
  key TEXT PRIMARY KEY, status TEXT NOT NULL, record TEXT, reason TEXT, seconds REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sweeps(
  key TEXT PRIMARY KEY, number INTEGER NOT NULL, spec TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS members(
  sweep TEXT NOT NULL, place INTEGER NOT NULL, point TEXT NOT NULL, labels TEXT NOT NULL,
  PRIMARY KEY(sweep, place)
) WITHOUT ROWID;
"""
OPEN = "unknown"
"""Status of a point that ran out of time, which another run may finish; so may a failed one."""


class Store:
    """An open file of results."""

    def __init__(self, path: str) -> None:
        self.path = path
        with self._named():
            self.base = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
            self.base.execute("PRAGMA journal_mode=WAL")
            self.base.execute("PRAGMA synchronous=NORMAL")
            version = int(self.base.execute("PRAGMA user_version").fetchone()[0])
            if version not in (0, SCHEMA):
                raise sqlite3.DatabaseError(f"it has version {version} of the tables")
            self.base.executescript(f"BEGIN IMMEDIATE;{_TABLES}PRAGMA user_version={SCHEMA};COMMIT")

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
            hint = "Run a sweep with -o first."
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
        with self._named():
            return self.base.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._named():
            self.base.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.base.execute("COMMIT")
            except BaseException:
                if self.base.in_transaction:
                    self.base.execute("ROLLBACK")
                raise

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Turn what SQLite says into an error with the file's name."""
        try:
            yield
        except sqlite3.Error as error:
            hint = "Make room and continue with --resume: finished points are kept."
            if "full" not in str(error) and "I/O" not in str(error):
                hint = "Name another file with -o."
            message = f"cannot be written: {error}."
            raise InputError(Problem(self.path, 0, 0, "", "SP100", message, hint)) from None


def open_store(path: str, must_exist: bool = False) -> Store:
    """Open a file of results.

    Raises
    ------
    InputError
        SP100 where it is missing and must exist, or is no such file.
    """
    if must_exist and not Path(path).is_file():
        hint = "Run the sweep with -o first."
        raise InputError(Problem(path, 0, 0, "", "SP100", "is not there.", hint))
    return Store(path)


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
