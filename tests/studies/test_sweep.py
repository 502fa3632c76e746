"""Sweeps: same bytes from every engine, nothing lost or doubled whatever stops them."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.running import ROOT, run

FILE = """\
model: llama3-8b
cluster: {gpu: h100, nodes: 1, price: 2}
training: {seq_len: 4096, global_batch: 64seq, tokens: 1B}
"""
FEW = ("--vary=cluster.nodes=1,2", "--vary=training.global_batch=32seq,64seq,128seq")
MANY = ("--vary=cluster.nodes=1,2", "--vary=training.global_batch=32seq,48seq,64seq,96seq,128seq",
        "--vary=cluster.inter.per_gpu=25GB/s,100GB/s")  # fmt: skip
SIZE = 20
"""Points of MANY."""


@pytest.fixture
def base(tmp_path: Path) -> str:
    (tmp_path / "base.yaml").write_text(FILE)
    return str(tmp_path / "base.yaml")


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


def test_serial_and_local_give_the_same_bytes(base: str, tmp_path: Path) -> None:
    serial = sweep(base, tmp_path / "a.sqlite", "--engine=serial", *FEW)
    local = sweep(base, tmp_path / "b.sqlite", "--engine=local", "--jobs=2", *FEW)
    assert serial == local
    data = json.loads(serial)
    assert data["statuses"] == {"optimal": 6}
    assert [p["labels"]["cluster.nodes"] for p in data["points"]] == [1, 1, 1, 2, 2, 2]
    assert all(p["plan"]["gpus"] <= 8 * p["labels"]["cluster.nodes"] for p in data["points"])


def test_dask_gives_the_same_bytes(base: str, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    serial = sweep(base, tmp_path / "a.sqlite", "--engine=serial", *FEW)
    process = started(base, tmp_path / "b.sqlite", "--engine=dask", "--jobs=2", *FEW)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr.decode()
    assert stdout.decode() == serial


@pytest.mark.nightly
def test_ray_gives_the_same_bytes(base: str, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    serial = sweep(base, tmp_path / "a.sqlite", "--engine=serial", *FEW)
    process = started(base, tmp_path / "b.sqlite", "--engine=ray", "--jobs=2", *FEW)
    stdout, stderr = process.communicate(timeout=240)
    assert process.returncode == 0, stderr.decode()
    assert stdout.decode() == serial


def test_an_overlapping_sweep_solves_only_what_is_new(base: str, tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    sweep(base, store, "--engine=serial", *FEW)
    with sqlite3.connect(store) as file:
        before = dict(file.execute("SELECT key, seconds FROM points"))
    sweep(base, store, "--engine=serial", "--vary=cluster.nodes=2,4", FEW[1])
    with sqlite3.connect(store) as file:
        after = dict(file.execute("SELECT key, seconds FROM points"))
    assert len(after) == 9
    assert {key: after[key] for key in before} == before


def test_a_point_that_fails_is_recorded_and_the_sweep_goes_on(base: str, tmp_path: Path) -> None:
    store = str(tmp_path / "s.sqlite")
    vary = "--vary=training.seq_len=4096,0,2048"
    result = run("sweep", base, "-o", store, "--engine=serial", "--format=json", vary)
    assert result.exit_code == 8
    good, bad, after = json.loads(result.stdout)["points"]
    assert (good["status"], bad["status"], after["status"]) == ("optimal", "error", "optimal")
    assert "training.seq_len" in bad["reason"]
    assert "1 points failed" in result.stderr


def test_an_infeasible_point_is_an_answer(base: str, tmp_path: Path) -> None:
    vary = "--vary=model=llama3-8b,llama3-405b"
    data = json.loads(sweep(base, tmp_path / "s.sqlite", "--engine=serial", vary))
    assert [p["status"] for p in data["points"]] == ["optimal", "infeasible"]
    assert "memory" in data["points"][1]["reason"]


def test_exports_hold_every_point(base: str, tmp_path: Path) -> None:
    table, lines = tmp_path / "t.csv", tmp_path / "l.jsonl"
    sweep(base, tmp_path / "s.sqlite", "--engine=serial", *FEW, f"--export={table}",
          f"--export={lines}")  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert [row["training.global_batch"] for row in rows[:3]] == ["32seq", "64seq", "128seq"]
    again = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [row["layout"] for row in again] == [row["layout"] for row in rows]
    wrong = run("sweep", base, "-o", str(tmp_path / "s.sqlite"), *FEW, "--export=t.xlsx")
    assert wrong.exit_code == 2
    assert "End the name in .csv, .jsonl, .parquet" in wrong.stderr


def test_parquet(base: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    sweep(
        base, tmp_path / "s.sqlite", "--engine=serial", *FEW, f"--export={tmp_path / 't.parquet'}"
    )
    assert parquet.read_table(tmp_path / "t.parquet").num_rows == 6


def changed(store: Path) -> int:
    """When the store or its log was last written to."""
    files = (store, store.with_name(f"{store.name}-wal"))
    return max((file.stat().st_mtime_ns for file in files if file.exists()), default=0)


def killed_again_and_again(base: str, tmp_path: Path, times: int, args: tuple[str, ...]) -> None:
    dice, store, size = random.Random(times), tmp_path / "s.sqlite", SIZE
    for _ in range(times):
        process = started(base, store, *args)
        # Starting takes longest: wait until it works on the file, then kill at any moment.
        before = changed(store)
        while changed(store) == before and process.poll() is None:
            time.sleep(0.01)
        time.sleep(dice.uniform(0.0, 0.6))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if store.exists() and store.stat().st_size:
            assert sound(store) <= size
    resumed = run("sweep", "-o", str(store), "--resume", "--format=json", "--engine=serial")
    fresh = sweep(base, tmp_path / "fresh.sqlite", "--engine=serial", *args)
    assert resumed.exit_code == 0
    assert resumed.stdout == fresh
    assert sound(store) == size


def test_killed_five_times_no_point_is_lost_or_doubled(base: str, tmp_path: Path) -> None:
    killed_again_and_again(base, tmp_path, 5, (*MANY, "--engine=serial"))


@pytest.mark.nightly
def test_killed_a_hundred_times(base: str, tmp_path: Path) -> None:
    killed_again_and_again(base, tmp_path, 100, MANY)


def test_two_writers_of_one_file(base: str, tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    both = [started(base, store, *FEW, "--engine=serial") for _ in range(2)]
    answers = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert answers[0] == answers[1]
    assert sound(store) == 6


def test_a_full_disk_is_an_error_and_what_was_there_stays(base: str, tmp_path: Path) -> None:
    """A limit on the size of a file stands for a full disk: SQLite sees the same failed write."""
    store = tmp_path / "s.sqlite"
    sweep(base, store, "--engine=serial", *FEW)

    size = store.stat().st_size + 8192
    limit = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size})); "
    )
    process = started(base, store, *MANY, "--engine=serial", before=limit)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 2
    assert b"SP100" in stderr
    assert b"--resume" in stderr
    assert 6 <= sound(store) < SIZE
    assert json.loads(sweep(base, store, *MANY, "--engine=serial"))["statuses"] == {"optimal": SIZE}


def test_resume_needs_a_sweep(tmp_path: Path) -> None:
    missing = run("sweep", "--resume", "-o", str(tmp_path / "none.sqlite"))
    assert missing.exit_code == 2
    assert "is not there" in missing.stderr
    (tmp_path / "text.sqlite").write_text("no database at all, and long enough to look at" * 3)
    broken = run("sweep", "--resume", "-o", str(tmp_path / "text.sqlite"))
    assert broken.exit_code == 2
    assert "SP100" in broken.stderr


def test_nothing_varied(base: str, tmp_path: Path) -> None:
    result = run("sweep", base, "-o", str(tmp_path / "s.sqlite"))
    assert result.exit_code == 2
    assert "nothing is varied" in result.stderr
