"""Sweeps: same bytes from every engine, nothing lost or doubled whatever stops them."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import pty
import sqlite3
import threading
from pathlib import Path

import pytest

from solver.studies.store import open_store
from tests.cli.running import run
from tests.studies.sweeping import killed_again_and_again, sound, started, sweep

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
    assert "1 point failed" in result.stderr


def test_an_infeasible_point_is_an_answer(base: str, tmp_path: Path) -> None:
    vary = "--vary=model=llama3-8b,llama3-405b"
    data = json.loads(sweep(base, tmp_path / "s.sqlite", "--engine=serial", vary))
    assert [p["status"] for p in data["points"]] == ["optimal", "infeasible"]
    assert "memory" in data["points"][1]["reason"]


def test_a_sweep_without_tokens_is_of_a_step(base: str, tmp_path: Path) -> None:
    Path(base).write_text(FILE.replace(", tokens: 1B", ""))
    shown = sweep(base, tmp_path / "s.sqlite", "--engine=serial", *FEW, form="table")
    assert "$ a step" in shown
    assert "days" not in shown
    page = run("report", str(tmp_path / "s.sqlite")).stdout
    assert 'aria-label="cost of a step of the fastest plan, USD along cluster.nodes' in page


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


def test_killed_five_times_no_point_is_lost_or_doubled(base: str, tmp_path: Path) -> None:
    store, args = tmp_path / "s.sqlite", (*MANY, "--engine=serial")
    counts = killed_again_and_again(base, store, 5, *args)
    assert max(counts) <= SIZE
    resumed = run("sweep", "-o", str(store), "--resume", "--format=json", "--engine=serial")
    assert resumed.exit_code == 0
    assert resumed.stdout == sweep(base, tmp_path / "fresh.sqlite", *args)
    assert sound(store) == SIZE


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
    store = tmp_path / "none.sqlite"
    for message in ("is not there", "is empty"):
        missing = run("sweep", "--resume", "-o", str(store))
        assert missing.exit_code == 2
        assert message in missing.stderr
        store.touch()


def foreign_database(path: Path, version: int, table: bool) -> None:
    base = sqlite3.connect(path)
    base.execute(f"PRAGMA user_version={version}")
    if table:
        base.execute("CREATE TABLE points(x)")
    base.commit()
    base.close()


@pytest.mark.parametrize("kind", ["text", "magic", "table", "version"])
def test_files_of_others_are_left_alone(base: str, tmp_path: Path, kind: str) -> None:
    store = tmp_path / "here" / "other.sqlite"
    store.parent.mkdir()
    if kind == "text":
        store.write_text("no database at all, and long enough to look at" * 3)
    elif kind == "magic":
        store.write_bytes(b"SQLite format 3\x00")
    else:
        foreign_database(store, version=int(kind == "version") * 7, table=kind == "table")
    before = store.read_bytes()
    for args in ((base, *FEW), ("--resume",)):
        result = run("sweep", *args, "-o", str(store))
        assert result.exit_code == 2
        assert "SP117" in result.stderr
        assert "is no file of sweeps" in result.stderr
    assert run("report", str(store)).exit_code == 2
    assert store.read_bytes() == before
    assert list(store.parent.iterdir()) == [store]


def test_an_empty_file_becomes_a_store(base: str, tmp_path: Path) -> None:
    """What mktemp makes, and what SQLite itself takes as a new database."""
    store = tmp_path / "s.sqlite"
    store.touch()
    sweep(base, store, "--engine=serial", "--vary=cluster.nodes=1")
    assert sound(store) == 1


def test_a_damaged_store_is_named(base: str, tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    sweep(base, store, "--engine=serial", "--vary=cluster.nodes=1")
    store.write_bytes(store.read_bytes()[:5000])
    for command in (("report", str(store)), ("sweep", "--resume", "-o", str(store))):
        result = run(*command)
        assert result.exit_code == 2
        assert "is damaged" in result.stderr
        assert "cannot be written" not in result.stderr


def test_two_may_begin_one_file_at_once(tmp_path: Path) -> None:
    """SQLite does not wait where another one holds a file whose log is turned on: we do."""
    path = tmp_path / "s.sqlite"
    other = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, other.close)
    timer.start()
    store = open_store(str(path))
    timer.join()
    assert store.base.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_nothing_varied(base: str, tmp_path: Path) -> None:
    result = run("sweep", base, "-o", str(tmp_path / "s.sqlite"))
    assert result.exit_code == 2
    assert "nothing is varied" in result.stderr


NONSENSE = {
    "unknown section": ("--vary=foo=1",),
    "unknown key": ("--vary=training.foo=1,2",),
    "unknown deep key": ("--vary=cluster.inter.foo=1",),
    "text for a number": ("--vary=training.seq_len=4096,abc",),
    "number for a section": ("--vary=training=5",),
    "no unit": ("--vary=cluster.inter.per_gpu=25",),
    "no value fits": ("--vary=model=nope,none",),
    "twice": ("--vary=training.seq_len=4096", "--vary=seq-len=8192"),
    "folder": ("--vary=training.seq_len=4096", "--export=nowhere/t.csv"),
}


@pytest.mark.parametrize("args", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_refused_before_anything_is_solved(
    base: str, tmp_path: Path, args: tuple[str, ...]
) -> None:
    store = tmp_path / "s.sqlite"
    result = run("sweep", base, "-o", str(store), "--engine=serial", *args)
    assert result.exit_code == 2
    assert result.stderr.startswith("error[SP")
    assert "--vary" in result.stderr or "--export" in result.stderr
    assert result.stderr.count("error[SP") == (2 if args == NONSENSE["no value fits"] else 1)
    assert not store.exists()


def test_nonsense_in_a_scenario_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "base.yaml"
    file.write_text(f"{FILE}scenarios: {{good: {{training.seq_len: 8192}}, bad: {{model.foo: 1}}}}")
    result = run("sweep", str(file), "-o", str(tmp_path / "s.sqlite"), "--engine=serial")
    assert result.exit_code == 2
    assert "'foo'" in result.stderr


def on_a_terminal(base: str, store: Path, *args: str) -> str:
    """What a sweep writes on stderr where that is a terminal."""
    leader, follower = pty.openpty()
    process = started(base, store, *args, stderr=follower, env={"TERM": "xterm", "COLUMNS": "100"})
    os.close(follower)
    process.communicate(timeout=120)
    written = b""
    with contextlib.suppress(OSError):  # the terminal has hung up
        while part := os.read(leader, 65536):
            written += part
    os.close(leader)
    assert process.returncode == 0
    return written.decode()


def test_progress_is_shown_on_a_terminal_only(base: str, tmp_path: Path) -> None:
    args = ("--engine=serial", "--vary=model=llama3-8b,llama3-405b", FEW[1])
    shown = on_a_terminal(base, tmp_path / "a.sqlite", *args)
    for part in ("6/6 points", "pt/s", "eta", "infeasible 3"):
        assert part in shown
    assert on_a_terminal(base, tmp_path / "b.sqlite", *args, "-q") == ""
    assert run("sweep", base, "-o", str(tmp_path / "c.sqlite"), *args).stderr == ""


def test_an_interrupted_sweep_says_how_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("solver.studies.sweep.run_sweep", interrupted)
    store = str(tmp_path / "a b.sqlite")
    result = run("sweep", "--vary=cluster.nodes=1,2", "-o", store)
    assert result.exit_code == 130
    again = f"shardplan sweep --resume -o '{store}'"
    assert f"interrupted: the same command goes on, or {again}\n" in result.stderr
