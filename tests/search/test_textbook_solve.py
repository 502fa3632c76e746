"""The 70B exercise through ``solve``: what its text recommends, and when it would change."""

from __future__ import annotations

from typing import Any

import pytest

from solver import LayoutRequest, check, solve
from solver.job.job import Account
from solver.job.search import Search
from solver.plan import Plan
from tests.search.helpers import TEXTBOOK, problem
from topology.errors import UnsupportedError

CHARGED = Account(cost_model="textbook", charge_recompute=True)


def best(**parts: Any) -> Plan:
    result = solve(problem("seed-70b", account=parts.pop("account", TEXTBOOK), **parts))
    assert result.status == "optimal"
    return result.plans[0]


def degrees(plan: Plan) -> tuple[int, int, int, int]:
    layout = plan.layout
    return layout.tp, layout.pp, layout.dp, layout.zero


def test_full_sharding_without_tensor_parallelism_wins_on_64_gpus() -> None:
    plan = best()
    assert degrees(plan) == (1, 1, 64, 3)
    assert plan.layout.dp_replicate == 1
    assert plan.estimate.time.step_s == pytest.approx(69.6, abs=0.05)
    assert plan.estimate.communication_ratio == pytest.approx(0.12, abs=0.005)


def test_a_million_token_batch_calls_for_tensor_parallelism_of_four() -> None:
    plan = best(batch=256)
    assert degrees(plan) == (4, 1, 16, 3)
    assert plan.estimate.time.step_s == pytest.approx(18.54, abs=0.005)
    full = check(
        problem("seed-70b", batch=256, account=TEXTBOOK),
        LayoutRequest(dp=64, zero=3, recompute="full"),
    )
    assert full.estimate.communication_ratio == pytest.approx(0.48, abs=0.005)
    assert [limit.id for limit in full.limits if not limit.ok] == ["communication"]


def test_half_the_network_calls_for_tensor_parallelism_of_two() -> None:
    plan = best(inter="25GB/s")
    assert degrees(plan) == (2, 1, 32, 3)
    assert plan.estimate.time.step_s == pytest.approx(71.1, abs=0.05)


def test_512_gpus_call_for_three_dimensions() -> None:
    plan = best(nodes=64)
    assert degrees(plan) == (4, 2, 64, 3)
    assert plan.estimate.time.step_s == pytest.approx(9.8, abs=0.05)


def test_charged_recomputation_turns_the_answer() -> None:
    assert degrees(best(account=CHARGED)) == (2, 1, 32, 3)
    assert best(account=CHARGED).estimate.time.step_s == pytest.approx(71.1, abs=0.05)
    sharded = check(
        problem("seed-70b", account=CHARGED), LayoutRequest(dp=64, zero=3, recompute="full")
    )
    assert sharded.estimate.time.step_s == pytest.approx(92.8, abs=0.05)


def test_sharding_inside_a_node_does_not_fit() -> None:
    plan = check(
        problem("seed-70b", account=TEXTBOOK),
        LayoutRequest(dp=64, dp_replicate=8, zero=3, recompute="full"),
    )
    states = plan.estimate.stages[0].memory
    held = states.weights_bytes + states.gradients_bytes + states.optimizer_bytes
    assert held == pytest.approx(140e9)
    assert "memory" in [limit.id for limit in plan.limits if not limit.ok]


@pytest.mark.parametrize(("vpp", "bubble", "kept"), [(1, 0.484, False), (8, 0.105, True)])
def test_the_405b_configuration_needs_interleaving(vpp: int, bubble: float, kept: bool) -> None:
    plan = check(
        problem("llama3.1-405b", nodes=2048, batch=2048),
        LayoutRequest(tp=8, pp=16, vpp=vpp, dp=128, zero=1, recompute="full"),
    )
    assert plan.batch.microbatches == 16
    limits = {limit.id: limit for limit in plan.limits}
    assert limits["bubble"].value == pytest.approx(bubble, abs=0.0005)
    assert limits["bubble"].ok is kept


TYPICAL = [  # seed 000's table: model, GPUs, tp, pp, dp
    ("llama2-7b", 8, 1, 1, 8),
    ("llama2-13b", 16, 2, 1, 8),
    ("seed-70b", 64, 8, 1, 8),
    ("seed-70b", 128, 8, 2, 8),
    ("llama3.1-405b", 16384, 8, 16, 128),
]


@pytest.mark.parametrize(("model", "gpus", "tp", "pp", "dp"), TYPICAL)
def test_typical_configurations_fit(model: str, gpus: int, tp: int, pp: int, dp: int) -> None:
    given = problem(model, nodes=gpus // 8, batch=16 * dp, account=TEXTBOOK)
    plan = check(given, LayoutRequest(tp=tp, pp=pp, dp=dp, zero=3, recompute="full"))
    assert plan.gpus == gpus
    assert {limit.id: limit.ok for limit in plan.limits}["memory"]


def test_an_axis_that_the_account_lacks_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="no CP"):
        solve(problem("seed-70b", account=TEXTBOOK, search=Search(cp=(2,))))
    with pytest.raises(UnsupportedError, match="dense models only"):
        solve(problem("mixtral-8x7b", account=TEXTBOOK))
