"""What the textbook account prefers on the 70B exercise and its three changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from solver.checklist import Check, review
from solver.cost.decision_tree import TYPICAL, Typical
from solver.cost.ledger import facts
from solver.cost.textbook_estimate import TextbookEstimate, estimate
from solver.cost.textbook_inputs import LayoutNumbers, TextbookInputs, read_inputs

from .textbook_cases import exercise, typical_inputs


def verdicts(inputs: TextbookInputs) -> dict[str, Check]:
    return {check.id: check for check in review(facts(inputs, estimate(inputs)))}


def layouts(gpus: int, batch: int) -> Iterator[LayoutNumbers]:
    for tp in (1, 2, 4, 8):
        for pp in (1, 2, 4, 5, 8, 10, 16, 20):
            dp = gpus // (tp * pp)
            if dp * tp * pp != gpus or batch % dp:
                continue
            for zero in (0, 1, 2, 3):
                for recompute in ("none", "full"):
                    yield LayoutNumbers(tp=tp, pp=pp, dp=dp, zero=zero, recompute=recompute)


def best(inputs: TextbookInputs) -> tuple[LayoutNumbers, TextbookEstimate]:
    """Fastest layout within memory, bubble and communication; fewest axes, most room on a tie."""
    found = []
    for layout in layouts(inputs.machine.gpus, inputs.job.global_batch):
        case = inputs.model_copy(update={"layout": layout})
        figures = estimate(case)
        limits = [check for id, check in verdicts(case).items() if id <= "CL-04"]
        if all(check.severity == "pass" for check in limits):
            axes = sum(degree > 1 for degree in (layout.tp, layout.pp, layout.dp))
            key = (figures.step_seconds, axes, figures.memory_bytes)
            found.append((key, layout, figures))
    _, layout, figures = min(found, key=lambda entry: entry[0])
    return layout, figures


def degrees(layout: LayoutNumbers) -> tuple[int, int, int, int]:
    return layout.tp, layout.pp, layout.dp, layout.zero


def test_full_sharding_wins_at_the_large_batch() -> None:
    layout, figures = best(read_inputs(exercise()))
    assert degrees(layout) == (1, 1, 64, 3)
    assert layout.recompute == "full"
    assert f"{figures.step_seconds:.1f}" == "69.6"


def test_tp_4_wins_at_a_million_tokens() -> None:
    numbers = exercise()
    numbers["job"]["global_batch"] = 256
    inputs = read_inputs(numbers)
    assert f"{estimate(inputs).communication_ratio:.0%}" == "48%"
    assert verdicts(inputs)["CL-03"].severity == "fail"
    layout, figures = best(inputs)
    assert degrees(layout) == (4, 1, 16, 3)
    assert f"{figures.step_seconds:.2f}" == "18.54"


def test_tp_2_wins_on_a_slow_network() -> None:
    numbers = exercise()
    numbers["machine"]["inter_bytes_per_s"] = 25e9
    layout, figures = best(read_inputs(numbers))
    assert degrees(layout) == (2, 1, 32, 3)
    assert f"{figures.step_seconds:.1f}" == "71.1"


def test_a_3d_plan_wins_on_512_gpus() -> None:
    numbers = exercise()
    numbers["machine"]["nodes"] = 64
    layout, figures = best(read_inputs(numbers))
    assert degrees(layout)[:3] == (4, 2, 64)
    assert f"{figures.step_seconds:.1f}" == "9.8"


def test_charged_recomputation_makes_tp_2_win_at_the_large_batch() -> None:
    numbers = exercise()
    numbers["job"]["charge_recompute"] = True
    inputs = read_inputs(numbers)
    assert f"{estimate(inputs).step_seconds:.1f}" == "92.8"
    layout, figures = best(inputs)
    assert degrees(layout) == (2, 1, 32, 3)
    assert layout.recompute == "none"
    assert f"{figures.step_seconds:.1f}" == "71.1"


def test_hsdp_over_a_node_does_not_fit_70b() -> None:
    inputs = read_inputs(exercise(dp_shard=8))
    memory = verdicts(inputs)["CL-01"]
    assert memory.severity == "fail"
    assert f"{estimate(inputs).state_bytes / 1e9:.0f}" == "140"
    # The shard group's traffic stays on NVLink, the replicas' crosses nodes.
    figures = estimate(inputs)
    assert figures.shard_seconds == pytest.approx(3 * 7 / 8 * 140e9 / 450e9)
    assert figures.replica_seconds == pytest.approx(2 * 7 / 8 * 140e9 / 8 / 50e9)


@pytest.mark.parametrize("row", TYPICAL, ids=lambda row: f"{row.name}-{row.gpus}")
def test_typical_configurations_pass_the_memory_item(row: Typical) -> None:
    assert verdicts(typical_inputs(row))["CL-01"].severity == "pass"


def test_the_405b_configuration_fails_the_bubble_item_without_interleaving() -> None:
    row = TYPICAL[-1]
    plain = verdicts(typical_inputs(row))["CL-04"]
    assert (plain.severity, f"{plain.value:.0%}") == ("fail", "48%")
    assert "at least 85 micro-batches" in plain.advice
    interleaved = verdicts(typical_inputs(row, vpp=8))["CL-04"]
    assert (interleaved.severity, f"{interleaved.value:.1%}") == ("pass", "10.5%")
