"""Bounds of shapes lie under all that the shapes can be: a floor, then bounds, then plans."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solver.job.finetune import Finetune
from solver.job.job import Account, Limits
from solver.job.search import Search
from solver.search.pricing import NEVER, Priced, refined_bounds
from solver.search.search import instance_of
from solver.search.space import build_space
from tests.search.helpers import problem

DRAWN = 400
"""Shapes looked at in each problem."""


PROBLEMS = {
    "dense": problem("llama3-70b", nodes=8),
    "mixture": problem("mixtral-8x7b", nodes=4, batch=256),
    "leading dense layers": problem("deepseek-v3", nodes=64, batch=2048),
    "heads over context": problem("llama3-8b", nodes=2, search=Search(cp_comm="all_to_all")),
    "only full recomputation": problem("llama3-70b", nodes=8, search=Search(recompute=("full",))),
    "stages apart": problem("llama3-70b", nodes=4, search=Search(recompute_by_stage=True)),
    "little memory": problem("llama3-70b", nodes=8, limits=Limits(mem_headroom=0.3)),
    "zero bubble": problem(
        "llama3-8b",
        nodes=4,
        search=Search(schedule="zb-h1"),
        account=Account(profile="zero-bubble-megatron"),
    ),
    "adapters": problem("llama3-8b", nodes=1),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("limited", [True, False])
def test_no_plan_is_under_the_bounds_of_its_shape(name: str, limited: bool) -> None:
    asked = PROBLEMS[name]
    if name == "adapters":
        finetune = Finetune(lora_rank=16)
        asked = replace(asked, job=asked.job.model_copy(update={"finetune": finetune}))
    instance = instance_of(asked)
    if not limited:
        instance = instance.without("memory")
    every = build_space(instance).shapes
    shapes = every.take(np.sort(np.random.default_rng(7).permutation(len(every))[:DRAWN]))
    step, memory = refined_bounds(instance, instance.cost.tables(shapes))
    floor = instance.cost.floor(shapes)
    priced = Priced.of(instance, shapes)
    priced.bound(np.arange(len(shapes)))
    least, fits = step.min(axis=1), memory.min(axis=1) < NEVER
    assert fits.any()
    assert (floor[fits] <= least[fits]).all()
    assert (priced.step_bound[fits] <= least[fits]).all()
    assert (priced.memory_bound[fits] <= memory.min(axis=1)[fits]).all()
    # They are near, or they would be of little use.
    assert np.median(priced.step_bound[fits] / least[fits]) > 0.8
    assert np.median(floor[fits] / least[fits]) > 0.3


def test_memory_that_forces_recomputation_raises_the_bound() -> None:
    asked = problem("llama3-70b", nodes=8)
    instance = instance_of(asked)
    shapes = build_space(instance).shapes
    free, _ = instance.cost.bounds(shapes)
    held, memory = instance.cost.bounds(shapes, instance.cost.capacity_mib)
    fits = memory <= instance.cost.capacity_mib
    assert (held >= free).all()
    assert (held[fits] > 1.1 * free[fits]).any()
