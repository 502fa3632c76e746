"""Two plan files side by side."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.running import run


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
