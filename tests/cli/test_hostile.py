"""Files that are no problem files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.running import SMALL, run

COMMANDS = (
    ("solve",),
    ("check", "--layout", "tp=8"),
    ("check",),
    ("memory", "--layout", "tp=8"),
    ("ledger", "--layout", "tp=8"),
    ("topology", "show"),
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\x01\x02\xff\xfe",
        b"[]",
        b"{}",
        b'{"schema": "shardplan.plan/1"}',
        b'{"schema": "shardplan.plan/9", "plans": []}',
        b'{"schema": "shardplan.plan/1", "plans": [{}], "problem": []}',
        b'{"schema": "shardplan.plan/1", "plans": 3, "problem": null}',
        b"[" * 5000,
        b"a: &a [*a]",
        b"x" * 5_000_000,
        b"model: llama3-70b\nmodel: llama3-8b\n",
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else None,
)
def test_content(command: tuple[str, ...], content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "problem.yaml"
    file.write_bytes(content)
    result = run(*command[:1], *(command[1:2] if command[1:2] == ("show",) else ()), str(file),
                 *(command[1:] if command[1:2] != ("show",) else ()))  # fmt: skip
    assert result.exit_code == 2, result.output
    assert "error[SP" in result.stderr


@pytest.mark.parametrize("command", [("solve",), ("models", "import"), ("topology", "show")])
def test_places(command: tuple[str, ...], tmp_path: Path) -> None:
    for path in (tmp_path / "missing.yaml", tmp_path, tmp_path / "a" / "b.json"):
        result = run(*command, str(path))
        assert result.exit_code == 2, result.output
        assert "error[SP10" in result.stderr


@pytest.mark.parametrize("flag", ["-o", "--stats"])
def test_output_that_cannot_be_written(flag: str, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "such.json"):
        result = run("solve", *SMALL, flag, str(path))
        assert result.exit_code == 2, result.output
        assert "cannot be written" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("plan") / "plan.json"
    assert run("solve", *SMALL, "--top", "1", "-o", str(file)).exit_code == 0
    return file.read_text()


@given(data=st.data())
def test_a_damaged_plan_json(
    data: st.DataObject, plan: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any one value replaced: an answer or an error, never a traceback."""
    damaged = json.loads(plan)
    junk = st.one_of(
        st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(), st.text(max_size=9),
        st.just([]), st.just({}),
    )  # fmt: skip
    node = damaged
    while True:
        keys = sorted(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        inner = node[key]
        if not (isinstance(inner, dict | list) and inner) or data.draw(st.integers(0, 3)) == 0:
            node[key] = data.draw(junk)
            break
        node = inner
    file = tmp_path_factory.mktemp("damaged") / "plan.json"
    file.write_text(json.dumps(damaged))
    result = run("check", str(file))
    assert result.exit_code in {0, 2, 6}, result.output
