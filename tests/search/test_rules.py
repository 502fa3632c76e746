"""What is fixed, forbidden or bounded holds for every plan that comes back."""

from __future__ import annotations

import pytest

from solver import solve
from solver.job.job import Search
from solver.job.rules import Rule
from tests.search.helpers import problem


def rules(*written: tuple[str, str, int]) -> Search:
    return Search.model_validate(
        {"rules": tuple(dict(zip(("axis", "relation", "value"), w, strict=True)) for w in written)}
    )


@pytest.mark.parametrize(
    ("axis", "relation", "value"),
    [
        ("tp", "=", 8),
        ("tp", "!=", 2),
        ("pp", "<=", 1),
        ("dp", ">=", 16),
        ("zero", "=", 2),
        ("micro_batch", "=", 2),
        ("microbatches", ">=", 64),
        ("dp_replicate", "=", 2),
        ("gpus", "<=", 48),
        ("cp", "=", 2),
        ("vpp", ">=", 2),
    ],
)
def test_every_plan_keeps_the_rule(axis: str, relation: str, value: int) -> None:
    free = solve(problem()).plans[0].estimate.time.step_s
    result = solve(problem(search=rules((axis, relation, value))))
    assert result.status == "optimal"
    rule = Rule.model_validate({"axis": axis, "relation": relation, "value": value})
    for plan in result.plans:
        degrees = {**plan.layout.model_dump(), **plan.batch.model_dump(), "gpus": plan.gpus}
        assert rule.keeps(degrees[axis])
    assert result.plans[0].estimate.time.step_s >= free


def test_contradicting_rules_are_named() -> None:
    result = solve(problem(search=rules(("zero", "=", 1), ("zero", "=", 2))))
    assert result.status == "infeasible"
    [reason] = result.reasons
    assert reason.startswith("divisibility")
    assert "zero = 1, zero = 2" in reason
