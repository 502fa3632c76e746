"""Rules on single axes: how they are written, refused, and written back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from solver.job.read import parse_problem
from solver.job.rules import Rule
from solver.report.resolved import problem_data
from tests.job.test_read import BASE, only


@pytest.mark.parametrize(
    ("written", "rules"),
    [
        ("fix: tp=8", ["tp = 8"]),
        ("fix: {tp: 8, hsdp: 2}", ["tp = 8", "dp_replicate = 2"]),
        ("forbid: [pp, 'tp=2,4']", ["pp <= 1", "tp != 2", "tp != 4"]),
        ("forbid: {micro_batch: [1, 3]}", ["micro_batch != 1", "micro_batch != 3"]),
        ("forbid: zero", ["zero <= 0"]),
        ("{max: mbs=4, min: [dp=2]}", ["micro_batch <= 4", "dp >= 2"]),
    ],
)
def test_written_in_every_form(written: str, rules: list[str]) -> None:
    section = written if written.startswith("{") else f"{{{written}}}"
    problem = parse_problem(BASE + f"search: {section}\n")
    assert [str(rule) for rule in problem.search.rules] == rules


@pytest.mark.parametrize(
    ("written", "code", "match"),
    [
        ("fix: tp", "SP114", "tp needs a whole number"),
        ("fix: {tp: 1.5}", "SP114", "tp needs a whole number"),
        ("fix: {tp: true}", "SP114", "tp needs a whole number"),
        ("forbid: [3]", "SP114", "is not a rule"),
        ("forbid: gpus", "SP114", "gpus cannot be forbidden as a whole"),
        ("max: tq=8", "SP112", "'tq' unknown"),
        ("fix: tp=6", "SP108", "cannot be split by 6. Possible: 1, 2, 4, 8"),
        ("fix: gpus=12", "SP103", "12 does not fill nodes of 8"),
        ("fix: pp=99", "SP108", "99 stages exceed the 32 layers"),
    ],
)
def test_refused_with_the_reason(written: str, code: str, match: str) -> None:
    problem = only(BASE + f"search: {{{written}}}\n")
    assert problem.code == code
    assert match in str(problem)


def test_the_resolved_problem_gives_the_same_rules() -> None:
    text = BASE + "search: {fix: tp=8, forbid: [pp, dp=3], min: {gpus: 8}}\n"
    problem = parse_problem(text)
    again = parse_problem(json.dumps(problem_data(problem)))
    assert set(again.search.rules) == set(problem.search.rules)


@pytest.mark.parametrize(
    ("relation", "kept"), [("=", [2]), ("!=", [1, 4]), ("<=", [1, 2]), (">=", [2, 4])]
)
def test_what_a_rule_keeps(relation: str, kept: list[int]) -> None:
    degrees = np.array([1, 2, 4])
    rule = Rule.model_validate({"axis": "tp", "relation": relation, "value": 2})
    assert degrees[rule.keeps(degrees)].tolist() == kept
