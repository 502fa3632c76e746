"""The example studies print what docs/example-studies.md shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.running import ROOT, run

DOCS = ROOT / "docs" / "example-studies.md"
HEAD = """\
# Example studies

Prices in them are examples. `SHARDPLAN_GOLDEN=1 pytest tests/studies/test_examples.py` writes this
page anew.
"""
STUDIES = (
    ("A start-up with 64 H100 and a month", "capacity", "capacity-startup.yaml"),
    ("405B parameters on up to 16,384 GPUs", "sweep", "sweep-405b.yaml"),
    ("Where to rent for the fine-tuning of a 7B model", "capacity", "capacity-finetune-7b.yaml"),
)


def section(title: str, command: str, name: str, folder: Path) -> str:
    flags = ["--jobs=1"]
    if command == "sweep":
        flags = ["--engine=serial", "-o", str(folder / "sweep.sqlite")]
    result = run(command, str(ROOT / "examples" / name), *flags)
    assert result.exit_code == 0, result.stderr
    shown = "".join(f"{line.rstrip()}\n" for line in result.stdout.splitlines())
    return f"\n## {title}\n\n```\n$ shardplan {command} examples/{name}\n{shown}```\n"


@pytest.mark.parametrize("study", STUDIES, ids=[name for _, _, name in STUDIES])
def test_an_example_prints_what_the_page_shows(study: tuple[str, str, str], tmp_path: Path) -> None:
    if os.environ.get("SHARDPLAN_GOLDEN"):
        if study == STUDIES[0]:
            DOCS.write_text(HEAD + "".join(section(*s, tmp_path) for s in STUDIES))
        return
    assert section(*study, tmp_path) in DOCS.read_text()
