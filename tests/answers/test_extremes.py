"""The fewest GPUs, and the longest sequence and deepest model that fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import solve
from solver.answers.extremes import SEQ_STEP, extreme
from tests.search.helpers import problem


def test_the_fewest_gpus() -> None:
    found = extreme(problem(), "gpus")
    assert found.value == 24
    assert found.result.plans[0].gpus == 24
    fewer = problem(nodes=2)
    assert not solve(fewer, explain=False).plans


@pytest.mark.parametrize("what", ["seq_len", "params"])
def test_the_next_value_holds_no_plan(what: str) -> None:
    asked = problem("llama3-8b", nodes=1, batch=64)
    found = extreme(asked, what)
    assert found.value is not None
    assert found.result.status == "optimal"
    assert "breaks" in found.beyond
    job = asked.job
    if what == "seq_len":
        length = int(found.value) + SEQ_STEP
        sequences = max(job.step_tokens // length, 1)
        job = job.model_copy(update={"seq_len": length, "global_batch": sequences})
    else:
        layers = found.result.plans[0].estimate.stages
        held = sum(stage.count * stage.layers for stage in layers)
        model = job.transformer.model_copy(update={"layers": held + 1})
        job = job.model_copy(update={"transformer": model})
    assert not solve(replace(asked, job=job), explain=False).plans


def test_any_batch_fits_by_accumulation() -> None:
    found = extreme(problem("llama3-8b", nodes=1, batch=64), "global_batch")
    assert found.value is not None
    assert found.value > 1000 * 64
    assert found.result.plans[0].batch.microbatches > 1000
