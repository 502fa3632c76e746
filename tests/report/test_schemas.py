"""The JSON Schemas take what the tool reads and writes."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import yaml

from solver.job.read import example_path, parse_problem
from solver.report.schemas import plan_schema, problem_schema
from tests.cli.running import ROOT, SMALL, run
from topology.errors import InputError

BASE = {
    "model": "llama3-8b",
    "cluster": "2x8xH100",
    "training": {"seq_len": 4096, "global_batch": "1024seq", "tokens": "100B"},
}
PARTS: tuple[dict[str, Any], ...] = (
    {"limits": {"max_bubble": "15%", "max_comm": "150%", "deadline": "30d", "mem_headroom": 0.1}},
    {"limits": None, "search": None, "objective": None, "mfu": "40%"},
    {"objective": "time"},
    {"objective": {"pareto": ["time", "gpus"], "tolerance": "3%", "top": 2}},
    {"search": {"tp": "1..8", "pp": [1, 2], "zero": 1, "recompute": "full", "cp": None}},
    {"search": {"recompute": ["none", "full"], "offload": None}},
    {
        "cluster": {"gpu": "h100", "nodes": 2, "price": "2.50 $/gpu-h"},
        "limits": {"budget": "50k USD"},
    },
    {"training": {"seq_len": 4096, "global_batch": 64, "tokens": 10**11}},
)


@pytest.mark.parametrize("part", PARTS, ids=json.dumps)
def test_valid_problems(part: dict[str, Any]) -> None:
    parse_problem(json.dumps({**BASE, **part}))
    jsonschema.validate({**BASE, **part}, problem_schema())


EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
PROBLEMS = [path for path in EXAMPLES if not path.name.startswith("capacity-")]
"""All but the studies, whose files are their own."""


@pytest.mark.parametrize("path", [example_path(), *PROBLEMS], ids=str)
def test_examples(path: Any) -> None:
    jsonschema.validate(yaml.safe_load(path.read_text()), problem_schema())


def test_a_plan_and_its_problem() -> None:
    plan = json.loads(run("solve", *SMALL, "--top", "1", "--format", "json").stdout)
    jsonschema.validate(plan, plan_schema())
    jsonschema.validate(plan["problem"], problem_schema())


@pytest.mark.parametrize("part", [{"limts": {}}, {"search": {"tp": [1.5]}}, {"objective": "price"}])
def test_what_neither_takes(part: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        parse_problem(json.dumps({**BASE, **part}))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**BASE, **part}, problem_schema())
