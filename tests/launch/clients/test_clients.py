"""The frameworks' own classes take what is written, and what they let pass is refused by us.

SHARDPLAN_CLIENTS names a Python that has the extra `clients`; without it these tests are skipped.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Any

import pytest

from solver.launch.checking import CLIENTS, PYTHON, client_faults, entry, installed
from solver.launch.describe import describe
from solver.launch.export import TARGETS
from solver.launch.targets.base import Wanted
from solver.layout_check import LayoutRequest, check

from ..plans import DENSE, MOE, plans, problem_of
from ..wrong import ALL, Wrong

pytestmark = pytest.mark.nightly

PLANS = 60
SILENT = 2
"""Wrong configurations of each framework, at least, that it takes without a word."""


def interpreter(target: str) -> str:
    python = os.environ.get(PYTHON, "")
    if not python or not installed(target, python):
        pytest.skip(f"no {target} ({PYTHON})")
    return python


def text_of(target: str, drawn: Any) -> str:
    return TARGETS[target].write(drawn.launch, drawn.run, Wanted()).text


@pytest.mark.parametrize("target", CLIENTS)
def test_the_real_parser_takes_every_plan_as_it_was_meant(target: str) -> None:
    python = interpreter(target)
    drawn = plans(target, PLANS, seed=11)
    entries = [entry(d.problem, d.launch, text_of(target, d)) for d in drawn]
    found = client_faults(target, entries, python)
    assert [(f, e["text"]) for f, e in zip(found, entries, strict=True) if f] == []
    models = Counter(d.problem.job.transformer.name for d in drawn)
    assert sum(models[m] for m in DENSE) >= 10
    assert sum(models[m] for m in MOE) >= 10


def fields_of(wrong: Wrong) -> dict[str, Any]:
    """Return what the scripts read: a right launch beside the wrong text."""
    problem = problem_of(wrong.model, 8, "megatron")
    plan = check(problem, LayoutRequest(dp=64, zero=3))
    return entry(problem, describe(problem, plan), wrong.text)


@pytest.mark.parametrize("target", ["deepspeed", "accelerate"])
def test_some_wrong_ones_are_taken_silently_by_the_framework(target: str) -> None:
    """All of these are refused by us: tests/launch/test_reading.py."""
    python = interpreter(target)
    wrong = [w for w in ALL if w.source == target]
    found = client_faults(target, [fields_of(w) for w in wrong], python)
    taken = sum(not any(re.match(r"\w+(Error|Exit)\b", f) for f in faults) for faults in found)
    assert taken >= SILENT
