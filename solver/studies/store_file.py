"""The SQLite file of sweeps: whose it is, opened to read or to write, and what goes wrong."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from topology.errors import InputError, Problem

MAGIC = b"SQLite format 3\x00"
"""First bytes of every SQLite file (sqlite.org/fileformat.html)."""

WAIT_S = 60.0
"""How long a writer waits for another one."""
AGAIN_S = 0.01
"""Between tries where SQLite itself does not wait."""

HEADER_BYTES = 105
"""The header, and of the first page of tables its kind and the number of its entries."""
_PLACES = ((60, 64), (68, 72), (103, 105))
"""Where the version of the tables, the application id and that number stand."""

OURS = int.from_bytes(b"shpl", "big")
"""The application id in the header of our files."""
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
_OTHER = "Name another file."
_AGAIN = "Run the sweep again into another file."


def opened(path: str, must_exist: bool = False, read: bool = False) -> sqlite3.Connection:
    """Open a file of sweeps; one that holds anything else is left as it is.

    Parameters
    ----------
    path
        The file.
    must_exist
        Whether a missing or empty one is refused; else it is made one of ours.
    read
        Open it to read only.

    Raises
    ------
    InputError
        SP100 where it cannot be opened or is damaged, SP117 where it is no such file.
    """
    header = _header(path)
    if not header and must_exist:
        message = "is empty." if os.path.exists(path) else "is not there."
        hint = "Run the sweep with -o first."
        raise InputError(Problem(path, 0, 0, "", "SP100", message, hint))
    if header and not _is_ours(header):
        hint = "Name another file; this one is left as it is."
        raise InputError(Problem(path, 0, 0, "", "SP117", "is no file of sweeps.", hint))
    with named(path):
        if read:
            return sqlite3.connect(_address(path), uri=True, timeout=WAIT_S, isolation_level=None)
        base = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
        _prepare(base)
    return base


def is_store(path: str) -> bool:
    """Whether a file is an SQLite database, of ours or not."""
    try:
        return _header(path).startswith(MAGIC)
    except InputError:
        return False


def _header(path: str) -> bytes:
    """Return the first bytes of a file, none where it is not there."""
    try:
        with open(path, "rb") as stream:
            return stream.read(HEADER_BYTES)
    except FileNotFoundError:
        return b""
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        message = f"cannot be read: {getattr(error, 'strerror', None) or error}."
        raise InputError(Problem(path, 0, 0, "", "SP100", message, _OTHER)) from None


def _is_ours(header: bytes) -> bool:
    """Return whether a file is one of sweeps, or a database without any table.

    The latter is what a process leaves that is killed early: its tables are in the log beside it.
    Read from the bytes (sqlite.org/fileformat.html, 1.3 and 1.6): opening a file of others, even to
    read, may leave traces beside it, and one of ours may be written at this moment.
    """
    if len(header) < HEADER_BYTES or not header.startswith(MAGIC):
        return False
    version, whose, tables = (int.from_bytes(header[a:b], "big") for a, b in _PLACES)
    return (whose, version) == (OURS, SCHEMA) or not (whose or version or tables)


def _address(path: str) -> str:
    """Return how SQLite opens a file to read, also where nothing can be written beside it."""
    place = Path(path).absolute()
    still = not os.access(place.parent, os.W_OK) and not os.path.exists(f"{path}-wal")
    return f"{place.as_uri()}?mode=ro{'&immutable=1' * still}"


def _prepare(base: sqlite3.Connection) -> None:
    """Turn on write-ahead logging and make the tables; another process may be doing the same."""
    last = time.monotonic() + WAIT_S
    while True:
        try:
            base.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:  # here SQLite does not wait for the other one
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > last:
                raise
            time.sleep(AGAIN_S)
    base.execute("PRAGMA synchronous=NORMAL")
    stamp = f"PRAGMA application_id={OURS};PRAGMA user_version={SCHEMA};"
    base.executescript(f"BEGIN IMMEDIATE;{_TABLES}{stamp}COMMIT")


@contextmanager
def named(path: str) -> Iterator[None]:
    """Turn what SQLite says into an error with the file's name."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        done, hint = "cannot be written", _OTHER
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            hint = "Make room and continue with --resume: finished points are kept."
        elif code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
            done, hint = "is damaged", _AGAIN
        elif code == sqlite3.SQLITE_CANTOPEN:
            done = "cannot be opened"
        message = f"{done}: {error}."
        raise InputError(Problem(path, 0, 0, "", "SP100", message, hint)) from None
