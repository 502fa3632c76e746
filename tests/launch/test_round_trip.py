"""Plan → configuration → plan is the identity for what a target can say."""

from __future__ import annotations

from collections import Counter

import pytest

from solver.launch.describe import request_of
from solver.launch.export import TARGETS
from solver.launch.importing import READERS, import_launch
from solver.launch.targets.base import Wanted
from solver.layout_check import check

from .plans import Drawn, plans

CASES = [(t, version) for t in READERS for version in TARGETS[t].versions]
PLANS, NIGHTLY_PLANS = 25, 500


def agree(target: str, version: str, drawn: Drawn) -> None:
    text = TARGETS[target].write(drawn.launch, drawn.run, Wanted(version=version)).text
    read = import_launch(drawn.problem, target, text)
    says = TARGETS[target].says
    assert read.launch.model_dump(include=set(says)) == drawn.launch.model_dump(include=set(says))
    if target == "megatron":  # says all of a layout, the batch and the recipe
        assert read.request == request_of(drawn.launch, drawn.problem)
        assert read.problem.job == drawn.problem.job


@pytest.mark.parametrize(("target", "version"), CASES)
def test_what_was_written_is_read_back(target: str, version: str) -> None:
    for drawn in plans(target, PLANS, seed=1):
        agree(target, version, drawn)


@pytest.mark.nightly
@pytest.mark.parametrize(("target", "version"), CASES)
def test_five_hundred_plans_are_read_back(target: str, version: str) -> None:
    for drawn in plans(target, NIGHTLY_PLANS, seed=2):
        agree(target, version, drawn)


def test_the_plans_are_of_many_kinds() -> None:
    seen: Counter[str] = Counter()
    for drawn in plans("megatron", PLANS, seed=1):
        launch = drawn.launch
        seen["experts"] += launch.experts > 0
        seen["interleaved"] += launch.vpp > 1
        seen["uneven"] += len(set(launch.layers)) > 1
        seen["recomputed layers"] += launch.recomputed_layers is not None
        seen["stages inside"] += launch.order.endswith("dp")
        seen["context"] += launch.cp > 1
        seen["zero 3"] += launch.zero == 3
        seen["replicas"] += launch.dp_replicate > 1
    assert min(seen.values()) >= 1, seen
    assert len(seen) == 8


def test_the_estimate_of_a_plan_that_was_read_back_is_the_same() -> None:
    drawn_for_it = [d for d in plans("megatron", PLANS, seed=1) if d.run.framework == "megatron"]
    for drawn in drawn_for_it[:3]:
        text = TARGETS["megatron"].write(drawn.launch, drawn.run, Wanted()).text
        read = import_launch(drawn.problem, "megatron", text)
        again = check(read.problem, read.request)
        assert again.estimate == drawn.plan.estimate
