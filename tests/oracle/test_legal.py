"""Which plans the oracle looks at, against lists written out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.cost.ticks import TICK_S
from solver.job.job import Limits
from solver.job.search import Search
from solver.job.transformer import Transformer

from .byhand import tiny
from .enumerator import longest_step
from .legal import (
    gpu_counts,
    held_gpus,
    interleavings,
    legal_shapes,
    legal_shardings,
    shape_keeps_limits,
)


def test_gpu_counts_are_divisors_of_a_node_then_whole_nodes() -> None:
    asked = tiny(nodes=3, per_node=6)
    assert gpu_counts(asked) == [1, 2, 3, 6, 12, 18]
    assert gpu_counts(replace(asked, search=Search(max_gpus=13))) == [1, 2, 3, 6, 12]
    assert gpu_counts(replace(asked, search=Search(gpus=12))) == [12]
    assert [held_gpus(asked, n) for n in (1, 3, 6, 12)] == [6, 6, 6, 12]


def test_every_shape_of_two_gpus() -> None:
    """Four sequences, two heads, two layers: worked out by hand."""
    found = {
        (s["tp"], s["cp"], s["pp"], s["dp"], s["vpp"], s["micro_batch"], s["microbatches"])
        for s in legal_shapes(tiny(), 2)
    }
    split_in_two = {
        (*degrees, 1, micro, 4 // micro)
        for degrees in ((2, 1, 1, 1), (1, 2, 1, 1), (1, 1, 2, 1))
        for micro in (1, 2, 4)
    }
    data_parallel = {(1, 1, 1, 2, 1, 1, 2), (1, 1, 1, 2, 1, 2, 1)}
    assert found == split_in_two | data_parallel


def test_interleaving_needs_whole_rounds_of_microbatches() -> None:
    asked = tiny(layers=8)
    assert interleavings(asked, 2) == [1, 2, 4]
    found = {(s["vpp"], s["microbatches"]) for s in legal_shapes(asked, 2) if s["pp"] == 2}
    assert found == {(1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (4, 2), (4, 4)}


def test_lighter_ends_interleave_lighter_middles_do_not() -> None:
    """30 layers on four stages are 7 8 8 7; 29 would need a lighter stage in the middle."""
    assert interleavings(tiny(layers=30), 4) == [1, 2, 4, 8]
    assert interleavings(tiny(layers=29), 4) == [1]
    assert interleavings(tiny(layers=8), 1) == [1]


def test_experts_spread_over_what_divides_a_stage() -> None:
    asked = tiny(per_node=6)
    moe = {"experts": 6, "top_k": 1, "ffn": 64}
    model = Transformer.model_validate({**asked.job.transformer.model_dump(), "moe": moe})
    asked = replace(asked, job=asked.job.model_copy(update={"transformer": model}))
    degrees = {s["ep"] for s in legal_shapes(asked, 4) if s["pp"] == 1}
    assert degrees == {1, 2}  # of 1, 2, 3, 6, those that divide four ranks


@pytest.mark.parametrize(
    ("degrees", "search", "expected"),
    [
        # One rank shares nothing out; its software may still keep other copies.
        ((1, 1, 1), Search(), [(0, 1), (1, 1), (2, 1), (3, 1)]),
        ((8, 1, 1), Search(zero=(1, 3)), [(1, 1), (3, 1)]),
        ((1, 2, 1), Search(), [(0, 1), (1, 1), (2, 1), (3, 1)]),
        # 32 ranks: groups of 16 and 8 fill nodes of eight, groups of 4 and 2 do not.
        ((2, 1, 16), Search(), [(0, 1), (1, 1), (2, 1), (3, 1), (3, 2), (3, 4)]),
        ((2, 1, 16), Search(zero=(0, 2)), [(0, 1), (2, 1)]),
        ((2, 1, 16), Search(zero=(3,), hsdp=False), [(3, 1)]),
        # A group of one data-parallel rank shards nothing, even where TP fills the node.
        ((8, 1, 2), Search(zero=(3,)), [(3, 1)]),
    ],
)
def test_shardings(
    degrees: tuple[int, int, int], search: Search, expected: list[tuple[int, int]]
) -> None:
    asked = replace(tiny(nodes=8, per_node=8), search=search)
    assert legal_shardings(asked, *degrees) == expected


def test_limits_of_a_shape() -> None:
    asked = tiny(nodes=2, per_node=8, limits=Limits(max_bubble=0.15))
    shape = {"tp": 1, "pp": 4, "vpp": 1, "microbatches": 17}
    assert shape_keeps_limits(asked, shape)  # 3 / 20 is the limit itself
    assert not shape_keeps_limits(asked, shape | {"microbatches": 16})
    assert shape_keeps_limits(asked, shape | {"microbatches": 9, "vpp": 2})
    assert shape_keeps_limits(asked, shape | {"tp": 8})
    assert not shape_keeps_limits(asked, shape | {"tp": 16})
    assert not shape_keeps_limits(asked, shape | {"tp": 3})
    free = asked.limits.model_copy(update={"tp_within_node": False})
    assert shape_keeps_limits(replace(asked, limits=free), shape | {"tp": 16})
    few = asked.limits.model_copy(update={"max_stages": 3})
    assert not shape_keeps_limits(replace(asked, limits=few), shape)


def test_deadline_and_budget_in_ticks() -> None:
    # 320 tokens in steps of 32: ten steps.
    asked = tiny(tokens=320, limits=Limits(deadline_s=50.0, budget_usd=0.01))
    # 5 s a step; 0.01 $ at 2 $/h pay 18 GPU-seconds, 1.8 a step.
    assert longest_step(asked, 2) == int(0.9 / TICK_S)
    assert longest_step(replace(asked, limits=Limits(deadline_s=50.0)), 2) == int(5.0 / TICK_S)
