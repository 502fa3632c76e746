"""What is fixed, forbidden or bounded holds for every plan that comes back."""

from __future__ import annotations

from typing import Any

import pytest

from solver import solve
from solver.job.rules import Rule
from solver.job.schema import SearchSpec
from solver.job.search import Search
from solver.job.search_field import search_of
from solver.search.contradictions import contradiction
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
    assert reason.startswith("contradicting rules")
    assert "zero = 1 (search.fix) and zero = 2 (search.fix)" in reason


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"fix": ["tp=8"], "max": ["tp=4"]}, "tp = 8 (search.fix) and tp <= 4 (search.max)"),
        ({"fix": ["tp=8", "tp=4"]}, "tp = 8 (search.fix) and tp = 4 (search.fix)"),
        ({"tp": [1, 2], "min": ["tp=4"]}, "search.tp [1, 2] and tp >= 4 (search.min)"),
        ({"max_gpus": 16, "min": ["gpus=32"]}, "search.max_gpus 16 and gpus >= 32 (search.min)"),
        ({"forbid": ["pp"], "min": ["pp=2"]}, "pp <= 1 (search.max or forbid) and pp >= 2"),
        ({"max": ["cp=0"]}, "no cp keeps cp <= 0"),
        (
            {"min": ["pp=2"], "max": ["pp=3"], "forbid": ["pp=2", "pp=3"]},
            "pp != 2 (search.forbid) and pp != 3 (search.forbid) and pp <= 3 (search.max) and pp",
        ),
    ],
)
def test_rules_that_contradict_each_other_are_named(given: dict[str, Any], said: str) -> None:
    search = search_of(SearchSpec.model_validate(given, strict=False))
    (reason,) = solve(problem(search=search)).reasons
    assert reason.startswith("contradicting rules: no ")
    assert said in reason


def test_rules_that_leave_a_degree_do_not_contradict() -> None:
    rules = {"min": ["tp=2"], "max": ["tp=8", "pp=4"], "forbid": ["tp=4", "pp=2"], "fix": ["cp=1"]}
    assert contradiction(search_of(SearchSpec.model_validate(rules, strict=False))) == ""
