"""Each checklist item and red flag: one case that passes, one that does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solver.checklist import CHECKLIST, RED_FLAGS, Check, LayoutFacts, review

GOOD = LayoutFacts(
    memory_bytes=70e9,
    capacity_bytes=80e9,
    micro_batch=1,
    accumulation=16,
    dp=64,
    global_batch=1024,
    seq_len=4096,
    communication_ratio=0.12,
    bubble=0.10,
    utilisation=0.40,
    tp=8,
    nvlink_domain=8,
    pp=4,
    parameters=70_000_000_000,
    recompute=True,
    total_steps=10_000,
    learning_rate_scaled=True,
    checkpoint_hours=1.5,
    gradient_clip=1.0,
    warmup_steps=50,
)


def one(id: str, **changes: Any) -> Check:
    (check,) = [check for check in review(replace(GOOD, **changes)) if check.id == id]
    return check


def test_eight_items_and_six_flags_with_stable_ids() -> None:
    ids = [check.id for check in review(GOOD)]
    assert ids == [f"CL-0{n}" for n in range(1, 9)] + [f"RF-0{n}" for n in range(1, 7)]
    assert (len(CHECKLIST), len(RED_FLAGS)) == (8, 6)


def test_a_good_plan_passes_everything_without_advice() -> None:
    assert {(check.severity, check.advice) for check in review(GOOD)} == {("pass", "")}


@pytest.mark.parametrize(
    ("id", "changes", "severity", "advice"),
    [
        ("CL-01", {"memory_bytes": 72.1e9}, "fail", "0.1 GB too much"),
        ("CL-02", {"accumulation": 15}, "fail", "= 960 sequences, the target is 1024"),
        ("CL-03", {"communication_ratio": 0.21}, "fail", "Accumulate more gradients"),
        ("CL-04", {"bubble": 0.16}, "fail", "Use more micro-batches"),
        ("CL-04", {"bubble": 0.16, "micro_batches_for_limit": 17}, "fail", "at least 17"),
        ("CL-05", {"learning_rate_scaled": None}, "advice", "4,194,304 tokens"),
        ("CL-05", {"learning_rate_scaled": False}, "warn", "Scale the learning rate"),
        ("CL-06", {"checkpoint_hours": None}, "advice", "every 1–2 hours"),
        ("CL-06", {"checkpoint_hours": 6.0}, "warn", "every 1–2 hours"),
        (
            "CL-06",
            {"checkpoint_hours": None, "save_steps": 470, "save_hours": 6.7},
            "advice",
            "every 470 steps, 6.7 h",
        ),
        ("CL-06", {"checkpoint_hours": 1.0, "save_steps": 9, "save_hours": 0.2}, "warn", "0.2 h"),
        ("CL-07", {"gradient_clip": None}, "advice", "typically at 1.0"),
        ("CL-07", {"gradient_clip": 0.0}, "warn", "typically at 1.0"),
        ("CL-08", {"warmup_steps": None}, "advice", "10–100 of 10,000 steps"),
        ("CL-08", {"warmup_steps": 101}, "warn", "10–100 of 10,000 steps"),
        ("CL-08", {"warmup_steps": 9}, "warn", "10–100 of 10,000 steps"),
        ("CL-08", {"total_steps": None}, "advice", "0.1%–1% of all steps"),
        ("RF-01", {"tp": 16}, "warn", "leaves the NVLink domain"),
        ("RF-01", {"tp": 16, "nvlink_domain": 72}, "advice", "stays on NVLink"),
        ("RF-02", {"pp": 33}, "warn", "fewer stages"),
        ("RF-03", {"global_batch": 2442}, "warn", "smaller batch"),
        ("RF-04", {"utilisation": 0.29}, "warn", "another strategy"),
        ("RF-05", {"recompute": False}, "advice", "fits without recomputation"),
        ("RF-05", {"recompute": False, "memory_bytes": 90e9}, "warn", "runs out of memory"),
        ("RF-06", {"accumulation": 1, "dp": 8}, "warn", "256 sequences"),
    ],
)
def test_each_rule_speaks(id: str, changes: dict[str, Any], severity: str, advice: str) -> None:
    check = one(id, **changes)
    assert check.severity == severity
    assert advice in check.advice


@pytest.mark.parametrize(
    ("id", "changes"),
    [
        ("CL-01", {"memory_bytes": 80e9 * 0.9}),
        ("CL-01", {"memory_bytes": 75e9, "mem_headroom": 0.05}),
        ("CL-03", {"communication_ratio": 0.20}),
        ("CL-04", {"bubble": 3 / 20}),
        ("CL-04", {"bubble": 0.3, "max_bubble": 0.5}),
        ("CL-06", {"checkpoint_hours": 2.0}),
        ("CL-08", {"total_steps": 10, "warmup_steps": 1}),
        ("RF-02", {"pp": 32}),
        ("RF-03", {"global_batch": 2441}),
        ("RF-04", {"utilisation": 0.30}),
        ("RF-05", {"recompute": False, "parameters": 13_000_000_000}),
        ("RF-06", {"accumulation": 1, "dp": 256}),
    ],
)
def test_limits_themselves_pass(id: str, changes: dict[str, Any]) -> None:
    assert one(id, **changes).severity == "pass"
