"""The sweep of 1,000 points: the same bytes from every engine, and after 100 kills."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import yaml

from benchmarks.studies import SWEEP
from tests.cli.running import run
from tests.studies.sweeping import killed_again_and_again, sound, started, sweep

pytestmark = pytest.mark.nightly
POINTS = 1000
KILLS = 100


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("thousand") / "sweep.yaml"
    path.write_text(yaml.safe_dump(SWEEP, sort_keys=False))
    return str(path)


@pytest.fixture(scope="module")
def serial(thousand: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    return sweep(thousand, tmp_path_factory.mktemp("serial") / "s.sqlite", "--engine=serial")


@pytest.mark.parametrize(
    ("engine", "module"), [("local", "joblib"), ("dask", "distributed"), ("ray", "ray")]
)
def test_every_engine_gives_the_bytes_of_serial(
    thousand: str, serial: str, tmp_path: Path, engine: str, module: str
) -> None:
    pytest.importorskip(module)
    process = started(thousand, tmp_path / "s.sqlite", f"--engine={engine}", "--jobs=2")
    stdout, stderr = process.communicate(timeout=600)
    assert process.returncode == 0, stderr.decode()
    assert stdout.decode() == serial


def test_killed_a_hundred_times(thousand: str, serial: str, tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    counts = killed_again_and_again(thousand, store, KILLS, "--jobs=2")
    # Kills meant something: most runs got on, and the work was not over before the last of them.
    assert len(set(counts)) > KILLS / 4
    assert counts[-1] < POINTS
    resumed = run("sweep", "-o", str(store), "--resume", "--format=json")
    assert resumed.exit_code == 0
    assert resumed.stdout == serial
    assert sound(store) == POINTS
    with sqlite3.connect(store) as base:
        assert base.execute("SELECT COUNT(*) FROM members").fetchone() == (POINTS,)
