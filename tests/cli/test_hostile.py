"""Files that are no problem files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.running import EXAMPLE, SMALL, run

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


@pytest.mark.parametrize("command", [("solve",), ("topology", "show")])
def test_many_odd_keys(command: tuple[str, ...], tmp_path: Path) -> None:
    odd = ["\u202ekey", "\u2066a", "esc\x9b[31m", "k" * 500, *(f"key{n}" for n in range(90))]
    body = {"cluster": {"gpu": "h100", "nodes": 1, **dict.fromkeys(odd, 1)}, "model": "llama3-8b",
            "training": {"seq_len": 4096, "global_batch": 64}}  # fmt: skip
    file = tmp_path / "problem.json"
    file.write_text(json.dumps(body))
    result = run(*command, str(file))
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert len(lines) == 21
    assert lines[-1] == f"… and {len(odd) - 20} more"
    assert all(char.isprintable() for line in lines for char in line)
    assert "k" * 61 not in result.stderr


def test_shares(tmp_path: Path) -> None:
    for value in ("1.5", "150%", "1000%", "10"):
        assert run("solve", *SMALL, "--max-comm", value).exit_code == 0, value
    for flag, value, text in (
        ("--max-comm", "1001%", "out of range 0..1000 %."),
        ("--max-comm", "20", "Did you mean 0.2 (20 %)?"),
        ("--max-bubble", "15", "Did you mean 0.15 (15 %)?"),
        ("--max-bubble", "150%", "out of range 0..100 %."),
    ):
        result = run("solve", *SMALL, flag, value)
        assert result.exit_code == 2
        assert text in result.stderr
    assert "Did you mean" not in run("solve", *SMALL, "--max-bubble", "150%").stderr
    file = tmp_path / "problem.yaml"
    file.write_text(Path(EXAMPLE).read_text().replace("llama3-70b/config.json", "llama3-70b")
                    .replace("max_comm: 20%", "max_comm: 150%"))  # fmt: skip
    layout = ("--layout", "tp=8,pp=4,zero=1,recompute=full")
    assert run("check", str(file), *layout).exit_code == 0


@pytest.mark.parametrize("command", [("solve",), ("check", "--layout", "tp=8,pp=4")])
def test_an_unknown_profile_of_a_file(command: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "problem.yaml"
    text = Path(EXAMPLE).read_text().replace("llama3-70b/config.json", "llama3-70b")
    file.write_text(f"profile: megatron-cor\n{text}")
    result = run(*command, str(file))
    assert result.exit_code == 2
    assert f"error[SP120] {file}:1: profile: no profile 'megatron-cor'" in result.stderr
    assert "Did you mean 'megatron-core'?" in result.stderr
    assert "--profile" in run(*command, str(file), "--profile", "nope").stderr
    assert run("check", str(file), "--layout", "tp=8,pp=4,recompute=full", "--profile",
               "megatron-core").exit_code in {0, 6}  # fmt: skip


def test_the_ledger_refuses_a_mixture() -> None:
    result = run("ledger", EXAMPLE, "--model", "mixtral-8x7b", "--layout", "tp=8")
    assert result.exit_code == 2
    assert "error[SP115]" in result.stderr
    assert "dense models only" in result.stderr
