"""ZB-H1 plans: exported to the stack that has it, read back, drawn pass by pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solver.job.job import Account, PlanningProblem
from solver.launch.describe import describe, request_of
from solver.launch.errors import LaunchError
from solver.launch.export import export
from solver.launch.importing import import_launch
from solver.launch.timeline import IN_FLIGHT, simulate_plan, trace
from solver.layout_check import LayoutRequest, check
from solver.plan import Plan
from solver.report.html.plan_charts import timeline
from topology import InputError

from .plans import problem_of


def given() -> PlanningProblem:
    return replace(
        problem_of("llama3-70b", 8, "megatron"), account=Account(profile="zero-bubble-megatron")
    )


def late(**layout: Any) -> Plan:
    values = {"tp": 4, "pp": 8, "dp": 2, "schedule": "zb-h1", **layout}
    return check(given(), LayoutRequest.model_validate(values))


def test_the_fork_of_megatron_gets_its_options() -> None:
    done = export(given(), late(), "megatron")
    lines = done.text.splitlines()
    assert {"--enable-zero-bubble", "--zero-bubble-max-pending-backward 8"} <= set(lines)
    assert any("fork of Megatron-LM alone" in note for note in done.notes)
    for to in ("torchrun", "slurm", "skypilot"):
        script = export(given(), late(), to)
        assert "--zero-bubble-max-pending-backward 8" in script.text
        assert "pretrain_gpt.py of the zero-bubble fork" in script.text + " ".join(script.notes)
    plain = export(given(), late(schedule="1f1b"), "megatron").text
    assert "zero-bubble" not in plain


def test_it_is_read_back() -> None:
    launch = describe(given(), late())
    read = import_launch(given(), "megatron", export(given(), late(), "megatron").text)
    assert read.request == request_of(launch, given())
    assert check(read.problem, read.request).estimate == late().estimate


@pytest.mark.parametrize(
    "options", ["", "--zero-bubble-max-pending-backward 16", "--zero-bubble-max-pending-backward 4"]
)
def test_other_schedules_of_the_fork_are_not_estimated(options: str) -> None:
    text = (
        "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 8 --micro-batch-size 1 "
        f"--sequence-parallel --enable-zero-bubble {options}"
    )
    with pytest.raises(InputError, match="as many --zero-bubble-max-pending-backward as stages"):
        import_launch(given(), "megatron", text)


def test_without_its_profile_the_launch_file_is_named() -> None:
    text = export(given(), late(), "megatron").text
    other = replace(given(), account=Account())
    with pytest.raises(InputError, match="has no schedule zb-h1") as caught:
        import_launch(other, "megatron", text)
    (fault,) = caught.value.problems
    assert (fault.path, fault.field) == ("--from", "schedule")


@pytest.mark.parametrize(
    ("to", "reason"),
    [
        ("megatron-bridge", "no zb-h1 there: the zero-bubble fork"),
        ("torchtitan", "InterleavedZeroBubble, which is zb-h1 with one stage a rank"),
        ("deepspeed", "number of stages is an argument"),
        ("accelerate", "no pipeline there"),
    ],
)
def test_other_targets_refuse_it(to: str, reason: str) -> None:
    with pytest.raises(LaunchError, match=reason):
        export(given(), late(), to)


@pytest.mark.parametrize("layout", [{}, {"recompute": "full", "micro_batch": 2}, {"pp": 2}])
def test_a_plan_is_drawn_as_it_was_estimated(layout: dict[str, Any]) -> None:
    plan = late(**layout)
    step = simulate_plan(given(), plan)
    # The estimate rounds up to grains of the search's integers.
    assert step.closed_form_s == pytest.approx(plan.estimate.time.step_s, rel=1e-5)
    assert 0.95 * step.closed_form_s <= step.simulated_s <= step.closed_form_s * (1 + 1e-9)
    for parts in step.stages:
        assert parts.weight is not None
        assert not parts.weight.waits_s  # tensor-parallel traffic is the other passes'
        assert parts.least_s <= parts.weight.compute_s


def test_the_trace_has_three_kinds_of_passes() -> None:
    plan = late()
    drawn = trace(simulate_plan(given(), plan, 12))["traceEvents"]
    names = [event["name"] for event in drawn if event["ph"] == "X" and event["pid"] == 7]
    for letter in "FBW":
        assert sorted(names).count(f"{letter}3") == 1
        assert sum(name[0] == letter and name[1:].isdigit() for name in names) == 12
    # Every stage holds as many micro-batches as there are stages, until their weights' gradients.
    held: dict[int, list[int]] = {stage: [] for stage in range(8)}
    for event in drawn:
        if event["ph"] == "C":
            assert event["name"] == IN_FLIGHT
            held[event["pid"]].append(event["args"]["chunks"])
    assert {max(counts) for counts in held.values()} == {8}
    assert {counts[-1] for counts in held.values()} == {0}
    assert sum(e["ph"] == "s" for e in drawn) == 2 * 12 * 7  # no pass waits for weights


def test_the_page_draws_weight_gradients() -> None:
    assert "weight gradients" in timeline(late(), 960)
    assert "weight gradients" not in timeline(late(schedule="1f1b"), 960)
