"""The wheel: its top level, its data files, its console scripts."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# What pip says when it cannot fetch the build backend into an isolated environment.
OFFLINE = ("No matching distribution found", "Could not find a version", "Connection", "Timeout")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel that pip builds from this checkout."""
    for name in ("README.md", "cli.py"):
        if not (ROOT / name).exists():
            pytest.skip(f"{name} is missing: not a whole checkout")
    out = tmp_path_factory.mktemp("wheel")
    isolated = importlib.util.find_spec("hatchling") is None
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(out), "."]
    if not isolated:
        command.append("--no-build-isolation")
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    if built.returncode and isolated and any(sign in built.stderr for sign in OFFLINE):
        pytest.skip("the build backend is neither installed nor to be fetched")
    assert built.returncode == 0, built.stderr
    (path,) = out.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_top_level_is_two_packages_and_one_module(wheel: zipfile.ZipFile) -> None:
    top = {name.split("/")[0] for name in wheel.namelist()}
    metadata = {name for name in top if name.endswith(".dist-info")}
    assert top - metadata == {"cli.py", "solver", "topology"}
    assert len(metadata) == 1


def test_every_file_of_the_packages_is_shipped(wheel: zipfile.ZipFile) -> None:
    shipped = set(wheel.namelist())
    tracked = subprocess.run(
        ["git", "ls-files", "solver", "topology"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if tracked.returncode:
        pytest.skip("not a git checkout")
    present = {name for name in tracked.stdout.splitlines() if (ROOT / name).exists()}
    assert present - shipped == set()
    assert {"solver/py.typed", "topology/py.typed"} <= shipped


def test_the_console_scripts(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    lines = wheel.read(name).decode().split()
    assert "".join(lines) == "[console_scripts]shardplan=cli:mainsolve=cli:solve_main"
