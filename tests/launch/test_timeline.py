"""The trace of a step: what Chrome's viewers ask for, and what pipelines do."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.cost.schedule import chunks_in_flight
from solver.job.read import parse_problem
from solver.launch.stage_seconds import Pass, StageSeconds
from solver.launch.timeline import IN_FLIGHT, Step, simulate_plan, simulate_stages, trace
from solver.layout_check import LayoutRequest, check
from topology import InputError

from .plans import problem_of

NOISE_US = 1e-3
fewer = settings(max_examples=settings().max_examples // 3)
"""Each example is a whole trace."""
Events = list[dict[str, Any]]


def uniform(pp: int, forward: float = 1.0, backward: float = 2.0) -> tuple[StageSeconds, ...]:
    return (StageSeconds(Pass(forward), Pass(backward), 0.0),) * pp


seconds = st.floats(0.01, 10)
passes = st.builds(Pass, seconds, st.dictionaries(st.sampled_from(("tp", "cp", "pp")), seconds))
any_stages = st.lists(st.builds(StageSeconds, passes, passes, st.floats(0, 5)), min_size=1,
                      max_size=8).map(tuple)  # fmt: skip


@st.composite
def steps(draw: st.DrawFn) -> Step:
    stages = draw(any_stages)
    vpp = draw(st.sampled_from((1, 1, 2, 3))) if len(stages) > 1 else 1
    count = draw(st.integers(1, 12 if vpp == 1 else 3)) * (1 if vpp == 1 else len(stages))
    return simulate_stages(stages, vpp, count)


def slices(step: Step) -> Events:
    return [event for event in trace(step)["traceEvents"] if event["ph"] == "X"]


@fewer
@given(steps())
def test_times_are_not_negative_and_nothing_overlaps_on_a_lane(step: Step) -> None:
    lanes = defaultdict(list)
    for event in slices(step):
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        lanes[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in lanes.values():
        for (_, end), (start, _) in itertools.pairwise(sorted(spans)):
            assert start >= end - NOISE_US


@fewer
@given(steps())
def test_backward_follows_forward_and_all_are_there(step: Step) -> None:
    found: dict[tuple[int, int, int], dict[str, float]] = defaultdict(dict)
    for event in slices(step):
        if event["cat"] in ("forward", "backward"):
            key = event["pid"], event["args"]["chunk"], event["args"]["microbatch"]
            assert event["cat"] not in found[key]
            found[key][event["cat"]] = event["ts"]
            found[key][f"{event['cat']} end"] = event["ts"] + event["dur"]
    assert len(found) == len(step.stages) * step.vpp * step.microbatches
    for times in found.values():
        assert times["backward"] >= times["forward end"] - NOISE_US


@fewer
@given(steps())
def test_arrows_lead_from_a_pass_to_the_one_that_waits_for_it(step: Step) -> None:
    ends: dict[str, dict[int, dict[str, Any]]] = {"s": {}, "f": {}}
    for event in trace(step)["traceEvents"]:
        if event["ph"] in ends:
            assert event["id"] not in ends[event["ph"]]
            ends[event["ph"]][event["id"]] = event
    assert ends["s"].keys() == ends["f"].keys()
    pp, v, m = len(step.stages), step.vpp, step.microbatches
    assert len(ends["s"]) == (2 * m * (pp * v - 1) if pp > 1 else 0)
    starts = {(e["pid"], e["ts"]) for e in slices(step)}
    for number, start in ends["s"].items():
        end = ends["f"][number]
        assert start["ts"] <= end["ts"] + NOISE_US
        assert start["pid"] != end["pid"]
        assert start["name"] == end["name"]
        assert (end["pid"], end["ts"]) in starts


@fewer
@given(steps())
def test_counters_hold_what_the_schedule_holds(step: Step) -> None:
    held = defaultdict(list)
    for event in trace(step)["traceEvents"]:
        if event["ph"] == "C":
            assert event["name"] == IN_FLIGHT
            held[event["pid"]].append(event["args"]["chunks"])
    pp = len(step.stages)
    for stage, values in held.items():
        assert values[-1] == 0
        assert min(values) >= 0
        assert max(values) == step.timeline.in_flight(stage)
        most = chunks_in_flight(*(_array(n) for n in (pp, step.vpp, step.microbatches, stage)))
        assert max(values) <= most if pp > 1 else max(values) == 1


def _array(number: int) -> Any:
    return np.array([number])


# Backward takes twice forward, three times with full recomputation; no stage four times another.
as_transformers_have_it = st.lists(
    st.tuples(st.floats(0.5, 2), st.floats(1.5, 3.5)), min_size=1, max_size=8
)


@given(as_transformers_have_it, st.integers(1, 16))
def test_1f1b_never_takes_longer_than_the_closed_form(
    timed: list[tuple[float, float]], microbatches: int
) -> None:
    stages = tuple(
        StageSeconds(Pass(whole / (1 + ratio)), Pass(whole * ratio / (1 + ratio)), 0.0)
        for whole, ratio in timed
    )
    step = simulate_stages(stages, 1, microbatches)
    assert step.simulated_s <= step.closed_form_s * (1 + 1e-9)


def test_1f1b_may_where_one_stage_only_forwards_and_another_only_backwards() -> None:
    forward, backward = (10, 1, 0.1, 1, 1, 0.1), (1, 10, 0.01, 0.1, 0.1, 0.1)
    stages = tuple(
        StageSeconds(Pass(f), Pass(b), 0.0) for f, b in zip(forward, backward, strict=True)
    )
    step = simulate_stages(stages, 1, 5)
    assert step.simulated_s == pytest.approx(1.489 * step.closed_form_s, rel=1e-3)


@given(
    st.lists(st.floats(0.7, 1.4), min_size=2, max_size=6),
    st.floats(1, 3.5),
    st.integers(1, 3),
    st.sampled_from((2, 3, 4)),
)
def test_nor_does_interleaving_where_backward_over_forward_is_one_ratio(
    forward: list[float], ratio: float, groups: int, vpp: int
) -> None:
    stages = tuple(StageSeconds(Pass(f), Pass(ratio * f), 0.0) for f in forward)
    step = simulate_stages(stages, vpp, groups * len(stages))
    assert step.simulated_s <= step.closed_form_s * (1 + 1e-9)


def test_interleaving_may_where_the_ratio_differs() -> None:
    """One stage forwards in 1 s, the other in 2 s, each takes 3 s for both: 8.5 s, not 7.5 s."""
    stages = (StageSeconds(Pass(1), Pass(2), 0), StageSeconds(Pass(2), Pass(1), 0))
    step = simulate_stages(stages, 2, 2)
    assert (step.simulated_s, step.closed_form_s) == (8.5, 7.5)


@pytest.mark.parametrize("pp", [2, 3, 4, 8, 16])
def test_the_bubble_of_1f1b_is_the_formula(pp: int) -> None:
    for m in (1, 3, 8, 64):
        step = simulate_stages(uniform(pp), 1, m)
        assert step.bubble == pytest.approx((pp - 1) / (m + pp - 1), abs=1e-12)
        assert step.simulated_s == pytest.approx(step.closed_form_s, rel=1e-12)


@pytest.mark.nightly
@pytest.mark.parametrize("pp", range(2, 17))
def test_the_bubble_of_1f1b_is_the_formula_for_every_count(pp: int) -> None:
    for m in range(1, 65):
        step = simulate_stages(uniform(pp), 1, m)
        assert step.bubble == pytest.approx((pp - 1) / (m + pp - 1), abs=1e-12)
        assert step.simulated_s == pytest.approx(step.closed_form_s, rel=1e-12)


@pytest.mark.parametrize("pp", [2, 3, 8])
@pytest.mark.parametrize("vpp", [2, 3, 4])
def test_the_bubble_of_interleaving_is_the_formula(pp: int, vpp: int) -> None:
    for groups in (1, 3):
        m = groups * pp
        step = simulate_stages(uniform(pp), vpp, m)
        assert step.bubble == pytest.approx((pp - 1) / (vpp * m + pp - 1), abs=1e-12)
        assert step.simulated_s == pytest.approx(step.closed_form_s, rel=1e-12)


@pytest.mark.parametrize(
    ("request_", "framework"),
    [
        ({"tp": 4, "pp": 4, "vpp": 4, "dp": 4, "zero": 1}, "megatron"),
        ({"tp": 8, "pp": 8, "dp": 1, "recompute": "full"}, "megatron"),
        ({"dp": 64, "zero": 3, "recompute": "full"}, "fsdp"),
        ({"tp": 2, "pp": 4, "dp": 8, "stage_layers": (19, 21, 21, 19),
          "recomputed_layers": (0, 0, 5, 0)}, "megatron"),
    ],
)  # fmt: skip
def test_a_plan_is_drawn_as_it_was_estimated(request_: dict[str, Any], framework: str) -> None:
    problem = problem_of("llama3-70b", 8, framework)
    plan = check(problem, LayoutRequest(**request_))
    step = simulate_plan(problem, plan)
    # The estimate rounds up to grains of the search's integers.
    assert step.closed_form_s == pytest.approx(plan.estimate.time.step_s, rel=1e-5)
    assert 0.8 * step.closed_form_s <= step.simulated_s <= step.closed_form_s * (1 + 1e-9)
    for stage, parts in enumerate(step.stages):
        assert parts.backward.compute_s > parts.forward.compute_s > 0
        estimated = next(
            s for s in plan.estimate.stages if s.index <= stage < s.index + s.count
        ).microbatch_s
        assert parts.forward.total_s + parts.backward.total_s == pytest.approx(estimated)


def test_full_recomputation_repeats_forward_in_backward() -> None:
    problem = problem_of("llama3-70b", 8, "megatron")
    plain, full = (
        simulate_plan(problem, check(problem, LayoutRequest(tp=8, pp=4, dp=2, recompute=kind)))
        for kind in ("none", "full")
    )
    one, other = plain.stages[1], full.stages[1]
    assert other.forward.compute_s == pytest.approx(one.forward.compute_s)
    repeated = other.backward.compute_s - one.backward.compute_s
    assert repeated == pytest.approx(one.forward.compute_s, rel=1e-6)


def test_the_textbook_account_is_drawn_too() -> None:
    problem = parse_problem("model: seed-70b\ncluster: 8x8xH100\ncost_model: textbook\n"
                            "training: {seq_len: 4096, global_batch: 1024seq}\n")  # fmt: skip
    plan = check(problem, LayoutRequest(tp=8, pp=2, dp=4, zero=1))
    step = simulate_plan(problem, plan)
    assert step.closed_form_s == pytest.approx(plan.estimate.time.step_s, rel=1e-4)


def test_micro_batches_that_cannot_be_drawn_are_refused() -> None:
    problem = problem_of("llama3-70b", 8, "megatron")
    plan = check(problem, LayoutRequest(tp=4, pp=4, vpp=4, dp=4, zero=1))
    with pytest.raises(InputError, match=r"SP108.*6 is no multiple of pp 4.*Use 8"):
        simulate_plan(problem, plan, 6)
    with pytest.raises(InputError, match=r"SP109.*Use --microbatches 16"):
        simulate_plan(problem, plan, 40_000)
    assert simulate_plan(problem, plan, 8).microbatches == 8
