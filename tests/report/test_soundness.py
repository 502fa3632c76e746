"""A plan JSON whose figures contradict each other is damaged, whoever reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from solver import solve
from solver.report.soundness import faults
from tests.cli.running import SMALL, run
from tests.search.helpers import problem

DAMAGE: list[tuple[str, Any]] = [
    ("batch.global_sequences", -1),
    ("batch.micro_batch", -1),
    ("batch.microbatches", 0),
    ("layout.tp", -1),
    ("layout.dp", 3),
    ("layout.etp", 0),
    ("layout.zero", 4),
    ("recompute", "zz"),
    ("options.precision", "tp=1"),
    ("options.offload", "disk"),
    ("cost.steps", -1),
    ("estimate.worst_stage", 99),
    ("estimate.time.step_s", 0.0),
    ("gpus", 7),
]


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("plans") / "plan.json"
    assert run("solve", *SMALL, "-o", str(path)).exit_code == 0
    data: dict[str, Any] = json.loads(path.read_text())
    return data


@pytest.mark.parametrize(("field", "value"), DAMAGE, ids=[name for name, _ in DAMAGE])
@pytest.mark.parametrize("command", ["export", "trace", "diff", "check"])
def test_refused_by_every_reader(
    plans: dict[str, Any], tmp_path: Path, field: str, value: Any, command: str
) -> None:
    data = json.loads(json.dumps(plans))
    *way, last = field.split(".")
    part = data["plans"][0]
    for name in way:
        part = part[name]
    part[last] = value
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(data))
    more = {"export": ["--to", "slurm"], "diff": [str(path)]}.get(command, [])
    found = run(command, str(path), *more)
    assert found.exit_code == 2
    assert "SP100" in found.stderr
    assert "is damaged" in found.stderr


def test_what_solve_returns_is_sound() -> None:
    result = solve(problem())
    for plan in (*result.plans, *filter(None, (result.refined, result.fastest))):
        assert list(faults(plan)) == []
