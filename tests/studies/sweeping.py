"""Sweeps in this process and in others that can be killed."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from tests.cli.running import ROOT, run


def sweep(base: str, store: Path, *args: str, form: str = "json") -> str:
    result = run("sweep", base, "-o", str(store), "--format", form, *args)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def started(base: str, store: Path, *args: str, before: str = "") -> subprocess.Popen[bytes]:
    code = f"{before}import cli; cli.main()"
    command = [sys.executable, "-c", code, "sweep", base, "-o", str(store), "-q"]
    command += ["--format", "json", *args]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
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


def finished(store: Path) -> dict[str, float]:
    """Points with an answer, and how long each took; the file must be whole."""
    sound(store)
    with sqlite3.connect(store) as base:
        return dict(base.execute("SELECT key, seconds FROM points WHERE status != 'error'"))


def killed_again_and_again(
    base: str, store: Path, times: int, longest_s: float, *args: str
) -> list[int]:
    """Kill a sweep at random moments, each time going on where the last one was killed.

    Returns
    -------
    The points that were finished after each time. None of them is ever gone or solved again.
    """
    dice, kept, counts = random.Random(times), dict[str, float](), []
    for _ in range(times):
        process = started(base, store, *args)
        # Starting takes longest: wait until it works on the file, then kill at any moment.
        before = changed(store)
        while changed(store) == before and process.poll() is None:
            time.sleep(0.01)
        time.sleep(dice.uniform(0.0, longest_s))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        now = finished(store)
        assert kept.items() <= now.items()
        kept = now
        counts.append(len(now))
    return counts
