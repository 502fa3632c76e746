"""Each exit code, and that nothing ends in a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import solver.search.search
from solver.result import Result
from tests.cli.running import EXAMPLE, SMALL, run, shell


def test_a_plan_is_0() -> None:
    result = run("solve", *SMALL)
    assert result.exit_code == 0, result.output
    assert "OPTIMAL" in result.stdout
    assert "▶" in result.stdout


def test_a_bug_is_1_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Result:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(solver.search.search, "solve", broken)
    result = run("solve", EXAMPLE)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "ZeroDivisionError" in result.stderr
    assert "report" in result.stderr
    assert "Traceback" in run("solve", EXAMPLE, "-vv").stderr
    monkeypatch.setenv("SHARDPLAN_DEBUG", "1")
    assert "Traceback" in run("solve", EXAMPLE).stderr


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> Result:
        raise KeyboardInterrupt

    monkeypatch.setattr(solver.search.search, "solve", stopped)
    result = run("solve", EXAMPLE)
    assert result.exit_code == 130
    assert result.stderr.splitlines() == ["interrupted"]


def test_a_reader_that_went_away_is_quiet() -> None:
    code = (
        "import cli, click\ndef gone(*a, **k): raise BrokenPipeError\nclick.echo = gone\ncli.main()"
    )
    result = shell("models", "list", code=code)
    assert result.returncode == 141
    assert result.stderr == ""


def test_bad_input_is_2(tmp_path: Path) -> None:
    file = tmp_path / "problem.yaml"
    file.write_text("model: llama3-70b\nclustr: 8x8xH100\ntraining: {seq_len: 4096}\n")
    result = run("solve", str(file), "--format", "json")
    assert result.exit_code == 2
    assert f"error[SP101] {file}:2: clustr" in result.stderr
    found = json.loads(result.stdout)["errors"]
    assert {error["code"] for error in found} == {"SP101", "SP113"}
    assert set(found[0]) == {"path", "line", "column", "field", "code", "message", "hint"}


def test_infeasible_is_3_with_the_reason_in_bytes() -> None:
    result = run("solve", EXAMPLE, "--gpus", "8")
    assert result.exit_code == 3
    assert "proved infeasible" in result.stdout
    assert "bytes" in result.stdout
    assert "needs" in result.stdout
    data = json.loads(run("solve", EXAMPLE, "--gpus", "8", "--format", "json").stdout)
    assert data["status"] == "infeasible"
    assert any("bytes" in reason for reason in data["reasons"])
    rows = run("solve", EXAMPLE, "--gpus", "8", "--format", "csv")
    assert (rows.exit_code, rows.stdout) == (3, "")
    assert "bytes" in rows.stderr


def test_no_plan_in_time_is_4_and_never_called_optimal() -> None:
    result = run("solve", EXAMPLE, "--time-limit", "1us")
    assert result.exit_code == 4
    assert "UNKNOWN" in result.stdout
    assert "OPTIMAL" not in result.stdout
    assert "nothing is proved" in result.stdout


def test_unproved_is_0_and_5_where_a_proof_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = solver.search.search.solve

    def unproved(*args: object, **given: object) -> Result:
        found = whole(*args, **given)  # type: ignore[arg-type]
        return found.model_copy(update={"status": "feasible"})

    monkeypatch.setattr(solver.search.search, "solve", unproved)
    assert run("solve", *SMALL).exit_code == 0
    result = run("solve", *SMALL, "--require-optimal")
    assert result.exit_code == 5
    assert "FEASIBLE" in result.stdout


def test_a_broken_limit_is_6() -> None:
    layout = "dp=64,dp_replicate=8,zero=3,recompute=full"
    result = run("check", EXAMPLE, "--layout", layout)
    assert result.exit_code == 6
    assert "BROKEN: memory" in result.stdout
    data = json.loads(run("check", EXAMPLE, "--layout", layout, "--format", "json").stdout)
    assert data["ok"] is False
    assert "memory" in data["broken"]


def test_the_layout_that_solve_found_keeps_every_limit(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    assert run("solve", *SMALL, "-o", str(file)).exit_code == 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.json"]
    result = run("check", str(file), "--format", "json")
    assert result.exit_code == 0, result.output
    again, before = json.loads(result.stdout), json.loads(file.read_text())
    assert again["problem_sha256"] == before["problem_sha256"]
    assert again["assumptions"] == before["assumptions"]
    for part in ("layout", "batch", "estimate", "cost"):
        assert again["plan"][part] == before["plans"][0][part]
    assert run("check", str(file), "--rank", "99").exit_code == 2


@pytest.mark.parametrize(
    "args",
    [
        ("nonsense",),
        ("solve", "--tokns", "3"),
        ("solve", "--seed", "-1"),
        ("solve", "--format", "xml"),
        ("check", EXAMPLE),
        ("check", EXAMPLE, "--layout", ""),
        ("check", EXAMPLE, "--layout", "tp=8,tp=8"),
        ("check", EXAMPLE, "--layout", "tp=0"),
        ("check", EXAMPLE, "--layout", "tp=-1"),
        ("check", EXAMPLE, "--layout", "tp=9999999999"),
        ("check", EXAMPLE, "--layout", "zero=4"),
        ("check", EXAMPLE, "--layout", "tq=4"),
        ("check", EXAMPLE, "--layout", "tp=3"),
        ("check", EXAMPLE, "--layout", "recompute=maybe"),
        ("check", EXAMPLE, "--layout", "x" * 2000),
        ("ledger", EXAMPLE, "--layout", "cp=2"),
        ("ledger", EXAMPLE, "--layout", "tp=7"),
        ("solve", EXAMPLE, "--time-limit", "5"),
        ("solve", EXAMPLE, "--max-bubble", "15"),
        ("solve", EXAMPLE, "--gpus", "60"),
        ("solve", EXAMPLE, "--profile", "nope"),
        ("solve", EXAMPLE, "--tokens", "0"),
        ("solve", EXAMPLE, "--seq-len", "1" * 400),
        ("solve", EXAMPLE, "--cluster", "8x8"),
        ("solve", EXAMPLE, "--cluster", "8x8", "--price", "3"),
        ("solve", "--model", "llama3-8b", "--cluster", "1x8xH100"),
        ("models", "show", "nope"),
        ("models", "import", "nope.json"),
        ("hardware", "show", "h10"),
        ("topology", "show", "8x8"),
        ("topology", "show", "100000x8xH100", "--format", "dot"),
        ("schema", "nonsense"),
    ],
)
def test_usage_and_values(args: tuple[str, ...]) -> None:
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (("solve", EXAMPLE, "--objective", "price"), "Did you mean 'cost'?"),
        (("solve", EXAMPLE, "--model", "llama3-70"), "Did you mean 'llama3-70b'?"),
        (("solve", EXAMPLE, "--comm-metric", "exposd"), "Did you mean 'exposed'?"),
        (("solve", EXAMPLE, "--tokns", "1B"), "--tokens"),
        (("hardware", "show", "h10"), "Did you mean 'h100'?"),
        (("check", EXAMPLE, "--layout", "recompute=ful"), "Did you mean 'full'?"),
    ],
)
def test_did_you_mean(args: tuple[str, ...], hint: str) -> None:
    assert hint in run(*args).stderr


FREE = (
    "solve", "--model", "llama3-8b", "--cluster", "4x8xH100", "--seq-len", "8192",
    "--global-batch", "60seq", "--stages", "free", "--gpus", "24", "--top", "1",
)  # fmt: skip


def test_an_answer_within_the_gap() -> None:
    done = run(*FREE, "--gap", "30%", "--format", "json")
    data = json.loads(done.stdout)
    assert done.exit_code == 0
    assert data["status"] == "feasible"
    assert 0 < data["certificate"]["gap"] <= 0.3
    assert any("within the gap of 30.00%" in note for note in data["notes"])
    assert "FEASIBLE within 30 % (gap" in run(*FREE, "--gap", "30%").stdout
    assert run(*FREE, "--gap", "30%", "--require-optimal").exit_code == 5
