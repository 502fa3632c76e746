"""The README shows what the command prints, and its commands exist."""

from __future__ import annotations

import os
import re
from pathlib import Path

from click.testing import CliRunner

import cli

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
COMMAND = "$ solve --objective cost examples/70b-64xh100.yaml\n"
WIDTH = "132"
TIMING = re.compile(r"\d[\d.]* (ms|s|min)$", re.MULTILINE)


def sample() -> str:
    """Return what the README's command prints now, without its duration."""
    arguments = ["--objective", "cost", str(ROOT / "examples/70b-64xh100.yaml"), "--width", WIDTH]
    result = CliRunner().invoke(cli.main, ["solve", *arguments])
    assert result.exit_code == 0
    return plain(result.stdout)


def plain(text: str) -> str:
    """Leave out what differs from run to run."""
    return TIMING.sub("…", "\n".join(line.rstrip() for line in text.strip().splitlines()))


def test_the_sample_is_what_the_command_prints() -> None:
    """SHARDPLAN_GOLDEN=1 writes the sample anew."""
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(COMMAND)
    shown, fence, after = rest.partition("```")
    if os.environ.get("SHARDPLAN_GOLDEN"):
        README.write_text(f"{before}{COMMAND}{sample()}\n{fence}{after}", encoding="utf-8")
    else:
        assert plain(shown) == sample()


def test_linked_files_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target
