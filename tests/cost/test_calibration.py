"""A user's own profile: what it is fitted to, when it is kept, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from solver.calibration.multipliers import calibrate
from solver.calibration.runs import predict
from solver.calibration.table import read_runs
from solver.cost.own_profile import find_profile
from solver.report.calibrating import calibrate_report
from topology.errors import InputError

HEAD = "id,model,gpu,gpus,tp,pp,micro_batch,global_batch_seqs,seq_len,precision,step_s"
ROWS = (
    "a,llama3-8b,h100-80gb-sxm,8,1,1,1,128,8192,bf16,{0}",
    "b,llama3-70b,h100-80gb-sxm,64,4,4,1,128,8192,bf16,{1}",
    "c,llama3-70b,h100-80gb-sxm,128,8,2,1,256,8192,bf16,{2}",
)


def table(folder: Path, *steps: float, rows: tuple[str, ...] = ROWS) -> str:
    path = folder / "runs.csv"
    path.write_text("\n".join([HEAD, *rows]).format(*steps) + "\n", encoding="utf-8")
    return str(path)


def predicted(folder: Path) -> list[float]:
    return [predict(one.run) for one in read_runs(table(folder, 10.0, 10.0, 10.0))]


def test_a_slower_cluster_gets_a_profile_that_predicts_it(tmp_path: Path) -> None:
    steps = [1.15 * seconds for seconds in predicted(tmp_path)]
    path, out = table(tmp_path, *steps), tmp_path / "own.yaml"
    report = calibrate_report(path, None, str(out))
    found = yaml.safe_load(out.read_text("utf-8"))
    assert not report.data["kept"]
    assert report.data["error_shipped"] == pytest.approx(1 - 1 / 1.15, abs=1e-3)
    assert report.data["error_left_out"] < 0.03
    assert 1.10 < found["compute"] < 1.16
    own = find_profile(str(out), "h100-80gb-sxm")
    assert own.name == "megatron-core/h100+own.yaml"
    assert own.expected_error(False) >= own.expected_difference(False)


def test_scattered_runs_keep_the_shipped_profile(tmp_path: Path) -> None:
    base = predicted(tmp_path)
    steps = [seconds * f for seconds, f in zip(base, (1.1, 0.9, 1.02), strict=True)]
    found = calibrate([one.run for one in read_runs(table(tmp_path, *steps))])
    assert found.kept
    assert found.times == (1.0, 1.0, 1.0)
    np.testing.assert_allclose(found.before, found.after)


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (("{1}", "0.01"), 3, "check the unit"),
        (("64,4,4", "60,4,4"), 3, "does not divide"),
        (("128,8,2,1,256,8192,bf16", "128,8,2,1,256,8192,int3"), 4, "precision"),
        (("h100-80gb-sxm,128", "b200,128"), 4, "one cluster a file"),
    ],
)
def test_rows_that_cannot_be_are_refused_with_their_line(
    tmp_path: Path, change: tuple[str, str], line: int, message: str
) -> None:
    base = predicted(tmp_path)
    rows = tuple(row.replace(*change) for row in ROWS)
    path = table(tmp_path, *base, rows=rows)
    with pytest.raises(InputError, match=message) as caught:
        read_runs(path)
    assert [problem.line for problem in caught.value.problems] == [line]
    assert str(caught.value).startswith(f"error[SP124] {path}:{line}: ")


def test_two_runs_are_too_few(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 3"):
        read_runs(table(tmp_path, 10.0, 10.0, rows=ROWS[:2]))


@pytest.mark.parametrize("text", ["", "[1]", "stack: megatron-core\ncompute: -1", "a: 1", ":\0"])
def test_a_file_that_is_no_profile_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"error\[SP120\]"):
        find_profile(str(path), "h100-80gb-sxm")


def test_the_report_is_data_too(tmp_path: Path) -> None:
    report = calibrate_report(table(tmp_path, *predicted(tmp_path)))
    assert json.loads(json.dumps(report.data))["kept"] is True
    assert len(report.data["runs"]) == 3
