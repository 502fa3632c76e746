"""What a search over several node groups, or with failures, must not mix up."""

from __future__ import annotations

from typing import Any

import pytest

from solver import LayoutRequest, check, solve
from solver.job.read import parse_problem
from topology.errors import InputError, UnsupportedError

BASE = "model: llama3-8b\ntraining: {seq_len: 4096, global_batch: 64seq, tokens: 1B}\n"


def asked(cluster: str, rest: str = "", base: str = BASE) -> Any:
    return parse_problem(f"{base}cluster: {cluster}\n{rest}")


def groups(*parts: str) -> str:
    return "{groups: [" + ", ".join("{" + part + "}" for part in parts) + "]}"


@pytest.mark.parametrize("prices", [(9, 1), (1, 9)])
def test_groups_of_one_gpu_keep_their_prices(prices: tuple[int, int]) -> None:
    two = groups(*(f"nodes: 1, gpu: h100, price: {price}" for price in prices))
    alone = solve(asked("{nodes: 1, gpu: h100, price: 1}", "objective: cost"))
    both = solve(asked(two, "objective: {minimise: cost, pareto: true}"))
    assert both.status == "optimal"
    cheapest = alone.plans[0].cost.usd or 0.0
    assert both.plans[0].cost.usd == pytest.approx(cheapest)
    assert min(plan.cost.usd or 0.0 for plan in both.front) == pytest.approx(cheapest)


def test_pipelines_across_groups_keep_rules_on_virtual_stages_and_order() -> None:
    two = groups("nodes: 1, gpu: h100", "nodes: 1, gpu: a100")
    assert len(solve(asked(two)).plans[0].blocks) == 2
    for rule in ("fix: vpp=2", "vpp: 2", "order: tp-cp-ep-pp-dp"):
        for plan in solve(asked(two, f"search: {{{rule}}}")).plans:
            kept = plan.layout.order == "tp-cp-ep-pp-dp" if "order" in rule else plan.layout.vpp > 1
            assert kept
            assert not plan.blocks


def test_nodes_of_several_sizes_add_up() -> None:
    two = groups("nodes: 2, gpus_per_node: 8, gpu: a100", "nodes: 2, gpus_per_node: 4, gpu: l40s")
    found = solve(asked(two, "search: {gpus: 12}", BASE.replace("64seq", "48seq")))
    assert {plan.gpus for plan in found.plans} == {12}
    small_first = groups("nodes: 2, gpus_per_node: 1, gpu: a100", "nodes: 2, gpu: h100")
    assert solve(asked(small_first, "search: {fix: tp=2}")).plans[0].layout.tp == 2


def test_the_textbook_account_has_one_kind_of_node() -> None:
    two = groups("nodes: 1, gpu: h100", "nodes: 1, gpu: a100")
    with pytest.raises(UnsupportedError, match="cost_model"):
        solve(asked(two, "cost_model: textbook"))


@pytest.mark.parametrize("goal", ["cost", "time"])
@pytest.mark.parametrize("failures", [0.5, 20, 100])
def test_a_plan_keeps_the_budget_and_the_deadline_of_its_own_figures(
    goal: str, failures: float
) -> None:
    base = BASE.replace("llama3-8b", "llama3.2-1b").replace("4096", "1024").replace("64seq", "8seq")
    more = f"reliability: {{failures: {failures}}}\nobjective: {goal}\n"
    cluster = "{nodes: 1, gpu: h100, price: 2.5}"
    cost = solve(asked(cluster, more, base)).plans[0].cost
    limit = f"budget: {cost.usd!r}" if goal == "cost" else f"deadline: {cost.wall_clock_s!r}s"
    again = solve(asked(cluster, f"{more}limits: {{{limit}}}", base))
    assert again.status == "optimal"
    assert again.plans[0].cost == cost


def test_all_stages_of_zero_are_looked_at_on_one_rank() -> None:
    base = "model: phi3-mini\ntraining: {seq_len: 2048, global_batch: 1seq, tokens: 1B}\n"
    cluster = "{gpu: h100, nodes: 1, gpus_per_node: 2, usable_memory: 40GB}"
    more = "limits: {mem_headroom: 0}\nsearch: {stages: even%s}\n"
    best = solve(asked(cluster, more % "", base)).plans[0]
    fixed = solve(asked(cluster, more % ", zero: 3", base)).plans[0]
    assert best.estimate.time.step_s <= fixed.estimate.time.step_s
    layout = LayoutRequest(tp=2, dp=1, zero=3, micro_batch=1, recompute="none")
    seen = check(asked(cluster, more % "", base), layout)
    assert all(limit.ok for limit in seen.limits)
    assert best.estimate.time.step_s <= seen.estimate.time.step_s


@pytest.mark.parametrize(("layout", "room", "ok"), [
    ({"dp": 8, "zero": 1}, "50GB", False),
    ({"dp": 8, "zero": 1}, "200GB", True),
    ({"dp": 1, "zero": 0}, "200GB", True),
])  # fmt: skip
def test_a_node_whose_memory_is_too_small_breaks_the_memory_limit(
    layout: dict[str, Any], room: str, ok: bool
) -> None:
    cluster = f"{{gpu: h100, nodes: 1, host_memory: {room}}}"
    request = LayoutRequest(**layout, recompute="full")
    seen = check(asked(cluster, "search: {offload: optimizer}"), request)
    assert next(limit.ok for limit in seen.limits if limit.id == "memory") is ok


@pytest.mark.parametrize("then", ["1", "-1", "true", ".nan", "1.5"])
def test_further_objectives_are_names(then: str) -> None:
    with pytest.raises(InputError, match=r"objective\.then"):
        asked("1x8xH100", f"objective: {{minimise: time, then: {then}}}")


def test_a_shape_counts_once_however_often_it_is_opened() -> None:
    base = BASE.replace("llama3-8b", "llama3.2-1b").replace("4096", "1024").replace("64seq", "8seq")
    found = solve(asked("{nodes: 1, gpus_per_node: 2, gpu: h100, price: 2}", "objective: {pareto: "
                        "true}", base))  # fmt: skip
    assert 0 < found.certificate.opened <= found.certificate.shapes
