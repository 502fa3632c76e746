"""``solve`` as a whole: proofs, ties, runners-up, front, failure, determinism."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver import LayoutRequest, check, solve
from solver.job.job import Account, Limits, Objective
from solver.job.search import Search
from tests.search.helpers import problem
from topology.errors import InputError


def test_the_certificate_closes() -> None:
    result = solve(problem())
    certificate = result.certificate
    assert result.status == "optimal"
    assert certificate.closed == certificate.models > 0
    assert certificate.gap == 0
    assert certificate.incumbent == certificate.bound
    assert certificate.next_bound is not None
    assert certificate.incumbent is not None
    assert certificate.next_bound >= certificate.incumbent
    assert all(limit.ok for plan in result.plans for limit in plan.limits)


def test_runners_up_are_different_layouts_in_order() -> None:
    plans = solve(problem(), top=5).plans
    layouts = {(p.layout.tp, p.layout.pp, p.layout.cp, p.layout.ep, p.gpus) for p in plans}
    assert len(layouts) == len(plans) == 5
    steps = [p.estimate.time.step_s for p in plans]
    assert steps == sorted(steps)


def test_eight_gpus_are_proved_too_few_with_the_bytes() -> None:
    result = solve(problem(nodes=1))
    assert result.status == "infeasible"
    assert not result.plans
    [reason] = result.reasons
    assert reason.startswith("memory: ")
    assert "bytes) on a GPU" in reason
    need, have = (int(part.split(" bytes")[0]) for part in reason.split("(")[2:4])
    assert need > have == result_capacity()


def result_capacity() -> int:
    """Usable H100 memory less 10 %, in whole MiB: 81,559 MiB as the driver shows."""
    return int(81_559 * 0.9) * 2**20


def test_no_time_is_unknown_and_never_optimal() -> None:
    result = solve(problem(), time_limit_s=1e-9)
    assert result.status == "unknown"
    assert not result.plans
    assert result.certificate.incumbent is None


def test_cost_shows_the_fastest_beside_the_cheapest() -> None:
    result = solve(problem(objective=Objective(minimise="cost")))
    cheapest, fastest = result.plans[0], result.fastest
    assert fastest is not None
    assert cheapest.cost.usd is not None
    assert fastest.cost.usd is not None
    assert cheapest.cost.usd <= fastest.cost.usd
    assert fastest.cost.wall_clock_s <= cheapest.cost.wall_clock_s
    assert fastest.estimate == solve(problem()).plans[0].estimate


def test_the_recommendation_is_simple_and_close() -> None:
    result = solve(problem(objective=Objective(tolerance=0.5)))
    assert result.recommended is not None
    best, advised = result.plans[0], result.plans[result.recommended - 1]
    assert advised.axes <= best.axes
    assert advised.estimate.time.step_s <= best.estimate.time.step_s * 1.5
    assert solve(problem(objective=Objective(tolerance=0.0))).recommended == 1


def test_the_front_is_not_dominated_and_holds_the_optimum() -> None:
    result = solve(problem(objective=Objective(pareto=True)))
    points = [(p.estimate.time.step_s, p.cost.usd or 0.0, p.gpus) for p in result.front]
    for point in points:
        others = [o for o in points if o != point]
        assert not any(all(a <= b for a, b in zip(o, point, strict=True)) for o in others)
    assert min(p[0] for p in points) == result.plans[0].estimate.time.step_s
    assert set(result.gpu_counts_considered) >= {p[2] for p in points}


def test_check_agrees_with_solve() -> None:
    given = problem()
    plan = solve(given).plans[0]
    layout = plan.layout
    again = check(
        given,
        LayoutRequest(
            tp=layout.tp, pp=layout.pp, vpp=layout.vpp, cp=layout.cp, ep=layout.ep, dp=layout.dp,
            dp_replicate=layout.dp_replicate, zero=layout.zero,
            micro_batch=plan.batch.micro_batch, recompute=plan.recompute,
        ),
    )  # fmt: skip
    assert again.estimate == plan.estimate
    assert again.cost == plan.cost


def test_same_input_same_bytes() -> None:
    first, second = (solve(problem("mixtral-8x7b")).model_dump_json() for _ in range(2))
    assert first == second


@given(
    headroom=st.floats(0.0, 0.5),
    bubble=st.floats(0.0, 0.5),
    communication=st.floats(0.01, 0.5),
    looser=st.floats(1.0, 3.0),
)
def test_a_looser_limit_never_worsens_the_optimum(
    headroom: float, bubble: float, communication: float, looser: float
) -> None:
    base = problem("llama3-8b", nodes=2, batch=96)
    tight = Limits(mem_headroom=headroom, max_bubble=bubble, max_comm=communication)
    loose = Limits(
        mem_headroom=headroom / looser,
        max_bubble=min(bubble * looser, 1.0),
        max_comm=communication * looser,
    )
    before = solve(replace(base, limits=tight), top=1)
    after = solve(replace(base, limits=loose), top=1)
    if before.plans:
        assert after.plans
        assert after.plans[0].estimate.time.step_s <= before.plans[0].estimate.time.step_s


@given(st.sets(st.sampled_from([1, 2, 4, 8]), min_size=1), st.sampled_from([1, 2, 4, 8]))
def test_an_axis_value_more_never_worsens_the_optimum(values: set[int], extra: int) -> None:
    base = problem("llama3-8b", nodes=2, batch=96)
    fewer = solve(replace(base, search=Search(tp=tuple(sorted(values)))), top=1)
    more = solve(replace(base, search=Search(tp=tuple(sorted(values | {extra})))), top=1)
    if fewer.plans:
        assert more.plans[0].estimate.time.step_s <= fewer.plans[0].estimate.time.step_s


def test_contradictions_are_refused_with_a_fix() -> None:
    with pytest.raises(InputError, match="the cluster has 64"):
        solve(problem(search=Search(gpus=128)))
    with pytest.raises(InputError, match="fill whole nodes"):
        solve(problem(search=Search(gpus=60)))
    with pytest.raises(InputError, match="needs the tokens"):
        solve(problem(tokens=None, limits=Limits(deadline_s=1e6)))


def test_impossible_layouts_are_refused_all_at_once() -> None:
    with pytest.raises(InputError) as caught:
        check(problem(), LayoutRequest(tp=3, pp=7, vpp=3, dp=5))
    fields = {fault.field for fault in caught.value.problems}
    assert {"tp", "dp", "micro_batch", "vpp"} <= fields | {"dp"}
    assert {"tp", "micro_batch"} <= fields


@pytest.mark.parametrize("zero", [(0,), (1,), (0, 1), (2,), (3,), (0, 2), (1, 3)])
def test_any_set_of_zero_stages_can_be_asked_for(zero: tuple[int, ...]) -> None:
    result = solve(problem("llama3-8b", search=Search(zero=zero)))
    assert result.status == "optimal"
    assert {plan.layout.zero for plan in result.plans} <= set(zero)


def test_short_sequences_are_tried_in_large_micro_batches() -> None:
    base = problem("gpt2-xl", nodes=1, batch=6144, seq_len=512, gpu="b200-180gb-sxm")
    best = solve(base, top=1).plans[0]
    rival = check(base, LayoutRequest(dp=8, zero=1, micro_batch=64))
    assert all(limit.ok for limit in rival.limits)
    assert best.estimate.time.step_s <= rival.estimate.time.step_s


@pytest.mark.parametrize("model", ["calibrated", "textbook"])
def test_a_step_of_days_is_refused_and_not_called_infeasible(model: str) -> None:
    account = Account(cost_model=model)  # type: ignore[arg-type]  # parametrised
    with pytest.raises(InputError, match="takes over 100,000 s"):
        solve(problem("llama3-70b", batch=2_400_000, seq_len=4096, account=account))


def test_more_gpus_than_the_most_are_refused() -> None:
    with pytest.raises(InputError, match="max_gpus allows 32"):
        solve(problem(search=Search(gpus=64, max_gpus=32)))
