"""Run the command line in this process or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

import cli

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "examples" / "70b-64xh100.yaml")

# A small problem given by flags alone: solved in a moment.
SMALL = (
    "--model=llama3-8b",
    "--cluster=1x8xH100",
    "--seq-len=4096",
    "--global-batch=64seq",
    "--tokens=1B",
    "--price=2.00",
)


def run(*args: str) -> Result:
    return CliRunner().invoke(cli.main, [*args], prog_name="shardplan")


def shell(
    *args: str, code: str = "import cli; cli.main()", **environment: str
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=env,
        check=False,
    )
