"""docs/questions.md: every question has a command whose output is what the page shows.

``SHARDPLAN_GOLDEN=1 pytest tests/test_questions.py`` writes the page from docs/questions.yaml.
"""

from __future__ import annotations

import os
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

import cli

ROOT = Path(__file__).parents[1]
SOURCE, PAGE = ROOT / "docs" / "questions.yaml", ROOT / "docs" / "questions.md"
QUESTIONS: list[dict[str, Any]] = yaml.safe_load(SOURCE.read_text())
HEAD = """# Questions

Each question of people who lay out training runs, with a command and what it prints. Written by
`tests/test_questions.py` from [questions.yaml](questions.yaml); commands without a problem take the
packaged example.
"""
BROKEN_LIMIT = 6


@cache
def run(command: str) -> Result:
    """Run a command once, however many questions show it."""
    arguments = [*shlex.split(command), "--width", "150"]
    done = CliRunner().invoke(cli.main, arguments, prog_name="shardplan")
    assert done.exit_code in (0, BROKEN_LIMIT), (command, done.output)
    return done


def answer(command: str, question: dict[str, Any]) -> str:
    """Keep the blocks of a command's output that the question shows."""
    done = run(command)
    blocks = [block for block in done.stdout.split("\n\n") if block.strip()]
    wanted = question["show"]
    shown = [b for b in blocks if b.startswith(tuple(w for w in wanted if w != "notes"))]
    lines = "\n\n".join(shown).splitlines()
    if "only" in question:
        keep = tuple(question["only"])
        lines = [line for line in lines if line.startswith(keep)]
    if "notes" in wanted:
        notes = [n for n in done.stderr.splitlines() if not n.startswith("no PROBLEM")]
        lines = [*notes, *lines]
    assert lines, (command, done.stdout)
    return "\n".join(line.rstrip() for line in lines)


def section(number: int, question: dict[str, Any]) -> str:
    """Write one question with its commands and their output."""
    part = f"## {question['part']}\n\n" if "part" in question else ""
    commands = [str(command) for command in question["run"]]
    shown = "\n\n".join(f"$ shardplan {c}\n{answer(c, question)}" for c in commands)
    return f"{part}### {number}. {question['ask']}\n\n{question['say']}\n\n```\n{shown}\n```\n"


@pytest.fixture
def _in_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_there_are_thirty() -> None:
    assert len(QUESTIONS) == 30


@pytest.mark.usefixtures("_in_root")
@pytest.mark.parametrize("number", range(1, 31))
def test_the_page_shows_what_the_command_prints(number: int) -> None:
    text = section(number, QUESTIONS[number - 1])
    if os.environ.get("SHARDPLAN_GOLDEN"):
        PARTS[number] = text
        if number == len(QUESTIONS):
            PAGE.write_text(HEAD + "\n" + "\n".join(PARTS[n] for n in sorted(PARTS)))
        return
    assert text in PAGE.read_text(), f"rewrite it with SHARDPLAN_GOLDEN=1: {QUESTIONS[number - 1]}"


PARTS: dict[int, str] = {}
