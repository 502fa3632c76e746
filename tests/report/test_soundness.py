"""A plan JSON whose figures contradict each other is damaged, whoever reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from solver import solve
from solver.job.search import Search
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


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ((0, 32), "0/32 (stage 0 has no layers)"),
        ((32, 0), "32/0 (stage 1 has no layers)"),
        ((32,), "32 (1 numbers for 2 stages)"),
        ((16, 17), "16/17 (33 layers, its stages have 32)"),
    ],
)
def test_layers_of_a_stage_that_cannot_be(layers: tuple[int, ...], said: str) -> None:
    search = Search(tp=(4,), pp=(2,), vpp=(1,))
    plan = solve(problem(model="llama3-8b", nodes=1, batch=64, search=search)).plans[0]
    layout = plan.layout.model_copy(update={"stage_layers": layers})
    (fault,) = faults(plan.model_copy(update={"layout": layout}))
    assert fault == f"layout.stage_layers {said}"
