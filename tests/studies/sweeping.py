"""Sweeps in this process and in others that can be killed."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.cli.running import ROOT, run

MOST_WRITES, LONGEST_S = 8, 0.3
"""When a sweep is killed at the latest: after so many writes to its file, and so much later."""


def sweep(base: str, store: Path, *args: str, form: str = "json") -> str:
    result = run("sweep", base, "-o", str(store), "--format", form, *args)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def started(
    base: str, store: Path, *args: str, before: str = "", stderr: int = subprocess.PIPE,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:  # fmt: skip
    """Start a sweep in a process of its own, after other code where there is some."""
    code = f"{before}import cli; cli.main()"
    command = [sys.executable, "-c", code, "sweep", base, "-o", str(store)]
    command += ["--format", "json", *args]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": path, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=stderr,
    )


def sound(store: Path) -> int:
    """Points of a file, which must be whole."""
    with sqlite3.connect(store) as base:
        assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return int(base.execute("SELECT COUNT(*) FROM points").fetchone()[0])


def changed(store: Path) -> int:
    """When the store or its log was last written to."""
    files = (store, store.with_name(f"{store.name}-wal"))
    return max((file.stat().st_mtime_ns for file in files if file.exists()), default=0)


def finished(store: Path, folder: Path) -> dict[str, float]:
    """Points with an answer, and how long each took; the file must be whole.

    A copy is looked at: opening the file would recover it in place of the sweep that goes on.
    """
    copy = folder / "copy.sqlite"
    for end in ("", "-wal"):
        copy.with_name(copy.name + end).unlink(missing_ok=True)
        if (one := store.with_name(store.name + end)).exists():
            shutil.copy(one, copy.with_name(copy.name + end))
    if not copy.exists():
        return {}
    with contextlib.closing(sqlite3.connect(copy)) as base:
        assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        if not base.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
            return {}
        return dict(base.execute("SELECT key, seconds FROM points WHERE status != 'error'"))


def killed_again_and_again(base: str, store: Path, times: int, *args: str) -> list[int]:
    """Kill a sweep at random moments, each time going on where the last one was killed.

    Returns
    -------
    The points that were finished after each time. None of them is ever gone or solved again.
    """
    dice, kept, counts = random.Random(times), dict[str, float](), []
    for _ in range(times):
        process = started(base, store, *args)
        # Starting takes longest: wait until it has written some times, the first two before any
        # point, then kill at any moment.
        writes, before = dice.randint(1, MOST_WRITES), changed(store)
        while writes > 0 and process.poll() is None:
            time.sleep(0.005)
            if (now := changed(store)) != before:
                writes, before = writes - 1, now
        time.sleep(dice.uniform(0.0, LONGEST_S))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        found = finished(store, store.parent)
        assert kept.items() <= found.items()
        kept = found
        counts.append(len(found))
    return counts
