"""Two plan files side by side."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.running import SMALL, run


def test_the_same_plan_has_no_difference_and_ranks_have(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    run("solve", "-o", str(plan))
    same = run("diff", str(plan), str(plan), "--format", "json")
    assert same.exit_code == 0
    assert json.loads(same.stdout)["differences"] == []
    other = run("diff", str(plan), str(plan), "--other-rank", "2", "--format", "json")
    found = json.loads(other.stdout)
    steps = [plan["estimate"]["time"]["step_s"] for plan in json.loads(plan.read_text())["plans"]]
    step = next(d for d in found["differences"] if d["name"] == "step")
    assert (step["one"], step["other"]) == (steps[0], steps[1])
    assert run("diff", str(plan), str(plan), "--other-rank", "99").exit_code == 2


def test_roundings_are_no_differences(tmp_path: Path) -> None:
    """Float noise is none at all, and what prints alike is left out of the table."""
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    run("solve", *SMALL, "-o", str(one))
    data = json.loads(one.read_text())
    plan = data["plans"][0]
    plan["estimate"]["time"]["compute_s"] *= 1 + 1e-13
    plan["estimate"]["peak_bytes"] *= 1 + 1e-7
    other.write_text(json.dumps(data))
    found = json.loads(run("diff", str(one), str(other), "--format", "json").stdout)
    assert [d["name"] for d in found["differences"]] == ["peak memory"]
    table = run("diff", str(one), str(other)).stdout
    assert "peak memory" not in table.partition("Differences")[2]
