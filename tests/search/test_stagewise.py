"""Layers and recomputed layers chosen stage by stage: proofs against brute force."""

from __future__ import annotations

import random

import numpy as np
import pytest

from solver import LayoutRequest, check, solve
from solver.cost.shapes import Shapes, Shardings
from solver.cost.ticks import TICK_S
from solver.job.job import Limits
from solver.job.search import Search
from solver.job.transformer import Transformer
from solver.plan import Plan
from solver.search.cpsat.factory import SolverSettings
from solver.search.pipelines import Pipeline
from solver.search.search import instance_of
from solver.search.stagewise import best_split
from tests.oracle.mixed import least_step
from tests.search.helpers import problem
from topology.errors import InputError

ONE = np.ones((1, 1), np.int64)


def small(seed: int) -> Pipeline:
    """A random pipeline of a few wide layers, with memory for some splits but not for all."""
    dice = random.Random(seed)
    layers, stages = dice.choice((5, 6, 7, 8)), dice.choice((1, 2, 3))
    model = Transformer(
        name="small", layers=layers, hidden=8192, heads=64, kv_heads=8, head_dim=128,
        ffn=28_672, gated=True, vocab=dice.choice((32_000, 256_000)), norm="rms",
    )  # fmt: skip
    limits = Limits(
        mem_headroom=dice.choice((0.1, 0.5, 0.7, 0.8)),
        max_comm=dice.choice((0.02, 0.05, 0.2)),
        max_bubble=1.0,
    )
    kinds = dice.choice((("none", "full"), ("none", "selective", "full"), ("selective", "full")))
    seq_len = dice.choice((4096, 16_384, 32_768))
    search = Search.model_validate({"recompute": kinds})
    asked = problem(nodes=stages, batch=16, limits=limits, search=search, seq_len=seq_len)
    asked.job.__dict__["transformer"] = model
    instance = instance_of(asked)
    tp = dice.choice((2, 4, 8))
    shape = Shapes.of(
        tp=tp, pp=stages, dp=8 // tp, micro_batch=dice.choice((1, 2)), microbatches=16 * tp // 8
    )
    zero = dice.choice((0, 1, 3))
    return Pipeline((instance,) * stages, shape, Shardings(zero * ONE, ONE, ONE.astype(bool)))


@pytest.mark.parametrize("seed", range(24))
def test_no_split_is_better(seed: int) -> None:
    pipeline = small(seed)
    truth = least_step(pipeline)
    found = best_split(pipeline, 10**10, SolverSettings())
    assert found.proved
    assert (found.split is None) == (truth is None)
    if found.split is not None and truth is not None:
        assert found.split.totals.step == truth
        assert sum(found.split.layers) == pipeline.instances[0].job.transformer.layers
        assert best_split(pipeline, truth - 1, SolverSettings()).split is None


def test_some_of_the_random_pipelines_have_no_split_and_some_recompute() -> None:
    found = [best_split(small(seed), 10**10, SolverSettings()).split for seed in range(24)]
    assert None in found
    assert any(split is not None and any(split.recomputed) for split in found)
    assert any(split is not None and not any(split.recomputed) for split in found)


def test_an_even_split_given_stage_by_stage_is_the_even_plan() -> None:
    asked = problem()
    plain = check(asked, LayoutRequest(tp=4, pp=4, micro_batch=2, recompute="selective"))
    given = check(
        asked,
        LayoutRequest(
            tp=4, pp=4, micro_batch=2, recompute="selective", stage_layers=(20, 20, 20, 20)
        ),
    )
    same = {"time", "peak_bytes", "worst_stage", "bubble_fraction", "communication_ratio"}
    assert given.estimate.model_dump(include=same) == plain.estimate.model_dump(include=same)
    assert given.cost == plain.cost


def test_free_stages_are_never_worse_and_check_agrees() -> None:
    asked = problem(nodes=4, batch=64, search=Search(tp=(4, 8), stages="even"))
    even = solve(asked, top=1).plans[0]
    free = solve(problem(nodes=4, batch=64, search=Search(tp=(4, 8), stages="free")), top=2)
    assert free.status == "optimal"
    best = free.plans[0]
    assert best.estimate.time.step_s <= even.estimate.time.step_s
    assert free.certificate.gap == 0
    if best.layout.stage_layers is not None:
        assert again(best).estimate == best.estimate


def again(plan: Plan) -> Plan:
    layout = plan.layout
    request = LayoutRequest(
        tp=layout.tp, pp=layout.pp, vpp=layout.vpp, cp=layout.cp, ep=layout.ep, dp=layout.dp,
        dp_replicate=layout.dp_replicate, zero=layout.zero, micro_batch=plan.batch.micro_batch,
        recompute=plan.recompute, stage_layers=layout.stage_layers,
        recomputed_layers=plan.recomputed_layers,
    )  # fmt: skip
    return check(problem(nodes=4, batch=64), request)


def test_the_best_plan_is_refined_where_that_is_faster() -> None:
    search = Search(tp=(8,), pp=(4,), vpp=(1,), micro_batch=(2,))
    result = solve(problem(nodes=4, batch=64, search=search))
    assert result.refined is not None
    best, refined = result.plans[0], result.refined
    assert refined.estimate.time.step_s < best.estimate.time.step_s - TICK_S / 2
    assert (refined.layout.tp, refined.layout.pp) == (best.layout.tp, best.layout.pp)
    assert all(limit.ok for limit in refined.limits)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"stage_layers": (20, 20, 20)}, "3 numbers for 4 stages"),
        ({"stage_layers": (20, 20, 20, 21)}, "are 81 layers, the model has 80"),
        ({"stage_layers": (40, 40, 0, 0)}, "stage 2 has no layers; every stage needs at least one"),
        ({"recomputed_layers": (21, 0, 0, 0)}, "21 layers are recomputed on stage 0, which has 20"),
        ({"recomputed_layers": (1, 0, 0, 0), "vpp": 5}, "multiples of vpp 5"),
        ({"recomputed_layers": (1, 0, 0, 0), "recompute": "full"}, "every layer already"),
        ({"stage_layers": (20, 20, 20, 20), "recompute": "full/none/none"}, "differs from stage"),
    ],
)
def test_stages_that_cannot_be_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check(problem(), LayoutRequest.model_validate({"tp": 4, "pp": 4, **given}))
