"""Every figure that the three source texts print, to the digits printed."""

from __future__ import annotations

import numpy as np
import pytest

from solver.cost import textbook
from solver.cost import textbook_variants as variants
from solver.cost.decision_tree import TYPICAL, Typical

GB, GIB = 1e9, 2**30

# Ledger chapter: a dense model on the scale of Llama-3-70B, 8K sequence.
PSI, LAYERS, HIDDEN, SEQ = 70.6e9, 80, 8192, 8192

# 70B exercise.
P, TOKENS, GPUS, PEAK = 70e9, 4_194_304, 64, 989e12
INFINIBAND, NVLINK = 50e9, 450e9


def chapter(zero: int, dp: int, tp: int, pp: int, sp: bool, full: bool) -> tuple[float, float]:
    """State and activations of the first stage in GiB, as the chapter's program counts them."""
    state = textbook.state_bytes(PSI / (tp * pp), zero, dp)
    kept = textbook.activation_bytes(
        SEQ, 1, HIDDEN, textbook.stage_layers(LAYERS, pp), tp, sp, full, pp
    )
    return float(state) / GIB, float(kept) / GIB


@pytest.mark.parametrize(
    ("layout", "state", "activations", "total", "fits"),
    [
        ((0, 64, 1, 1, False, False), "1052.0", "170.0", "1222.0", False),
        ((3, 64, 1, 1, False, False), "16.4", "170.0", "186.4", False),
        ((3, 64, 1, 1, False, True), "16.4", "10.0", "26.4", True),
        ((1, 2, 8, 4, True, False), "20.5", "21.2", "41.8", True),
    ],
    ids=["ddp", "zero-3", "zero-3-full", "tp8-pp4-dp2-zero-1"],
)
def test_the_chapters_four_ledger_lines(
    layout: tuple[int, int, int, int, bool, bool],
    state: str,
    activations: str,
    total: str,
    fits: bool,
) -> None:
    states, kept = chapter(*layout)
    assert (f"{states:.1f}", f"{kept:.1f}", f"{states + kept:.1f}") == (state, activations, total)
    assert (states + kept < 80 * 0.9) is fits


def test_the_chapters_flops_and_hours_for_a_billion_tokens() -> None:
    flops = textbook.flops(PSI, 1e9)
    assert f"{flops:.2e}" == "4.24e+20"
    seconds = textbook.compute_seconds(flops, 64, 989e12, 0.40)
    assert f"{seconds / 3600:.1f}" == "4.6"


def test_the_chapters_eight_years_for_15t_tokens() -> None:
    seconds = textbook.compute_seconds(textbook.flops(PSI, 15e12), 64, 989e12, 0.40)
    assert f"{seconds / (365.25 * 86400):.0f}" == "8"


def test_16_bytes_a_parameter_and_1_1_tb_for_70b() -> None:
    assert float(textbook.state_bytes(1, 0, 1)) == 16.0 == 2 + 2 + 4 + 4 + 4
    assert f"{textbook.state_bytes(70e9, 0, 1) / 1e12:.1f}" == "1.1"


def test_the_chapters_budget_table_2_2_and_12() -> None:
    # What ZeRO-1, ZeRO-2 and ZeRO-3 leave behind on infinitely many GPUs.
    assert [float(textbook.state_bytes(1, zero, np.inf)) for zero in (1, 2, 3)] == [4.0, 2.0, 0.0]
    assert textbook.OPTIMIZER_BYTES == 12.0


def test_training_70b_on_1t_tokens() -> None:
    assert f"{textbook.flops(70e9, 1e12):.1e}" == "4.2e+23"


@pytest.mark.parametrize("t", [1, 2, 4, 8])
def test_activation_coefficients(t: int) -> None:
    sbh = 4096 * 2 * 8192
    with_sp = textbook.activation_bytes(4096, 2, 8192, 1, t, sp=True)
    without_sp = textbook.activation_bytes(4096, 2, 8192, 1, t, sp=False)
    full = textbook.activation_bytes(4096, 2, 8192, 1, t, sp=False, full_recompute=True)
    assert float(with_sp) == pytest.approx(34 * sbh / t, rel=1e-15)
    assert float(without_sp) == pytest.approx((10 + 24 / t) * sbh, rel=1e-15)
    assert float(full) == pytest.approx(2 * sbh / t, rel=1e-15)


def test_full_recomputation_is_about_33_percent_more_compute() -> None:
    assert f"{textbook.recompute_factor(True, charge=True) - 1:.0%}" == "33%"
    assert float(textbook.recompute_factor(True, charge=False)) == 1.0
    assert float(textbook.recompute_factor(False, charge=True)) == 1.0


def test_the_chapters_exercise_8b_on_8_gpus() -> None:
    state = float(textbook.state_bytes(8e9, 2, 8))
    activations = float(textbook.activation_bytes(4096, 2, 4096, 32))
    assert (2 * 8e9 / GB, 14 * 8e9 / 8 / GB, state / GB) == (16, 14, 30)
    assert f"{state / GIB:.1f}" == "27.9"
    assert f"{activations / GB:.1f}" == "36.5"
    assert f"{activations / GIB:.0f}" == "34"
    assert f"{(state + activations) / GIB:.0f}" == "62"
    assert (state + activations) / GIB < 80 * 0.9


def test_the_chapters_volumes() -> None:
    low, high = variants.chapter_dp_bytes(PSI)
    assert (float(low), float(high)) == (2 * PSI, 3 * PSI)
    sbh = 4096 * 2 * 8192
    assert float(variants.chapter_tp_bytes(4096, 2, 8192)) == 4 * sbh
    assert float(variants.chapter_pp_bytes(4096, 2, 8192)) == sbh
    assert float(variants.chapter_ep_bytes(4096, 2, 8192, 8)) == 2 * 8 * sbh


def test_the_exercises_memory() -> None:
    assert f"{textbook.state_bytes(P, 0, 1) / GB:,.0f}" == "1,120"
    sharded = float(textbook.state_bytes(P, 3, 64))
    assert f"{sharded / GB:.1f}" == "17.5"
    # "leaving about 60 GB"
    assert round((80 - sharded / GB) / 10) * 10 == 60


def test_the_exercises_step() -> None:
    flops = textbook.flops(P, TOKENS)
    assert f"{flops:.2e}" == "1.76e+18"
    assert f"{GPUS * PEAK:.2e}" == "6.33e+16"
    assert f"{textbook.compute_seconds(flops, GPUS, PEAK):.1f}" == "69.6"
    assert f"{textbook.compute_seconds(flops, GPUS, PEAK, 1.0):.1f}" == "27.8"


def test_the_exercises_fsdp_traffic() -> None:
    traffic = textbook.fsdp_traffic_bytes(P, 64)
    seconds = textbook.transfer_seconds(traffic, INFINIBAND)
    assert f"{traffic / GB:.0f}" == "413"
    assert f"{seconds:.1f}" == "8.3"
    step = textbook.compute_seconds(textbook.flops(P, TOKENS), GPUS, PEAK)
    assert f"{textbook.communication_ratio(seconds, step):.0%}" == "12%"


def test_the_exercises_million_token_batch() -> None:
    step = textbook.compute_seconds(textbook.flops(P, 1_048_576), GPUS, PEAK)
    assert f"{step:.1f}" == "17.4"
    seconds = textbook.transfer_seconds(textbook.fsdp_traffic_bytes(P, 64), INFINIBAND)
    assert f"{textbook.communication_ratio(seconds, step):.0%}" == "48%"


def test_the_exercises_tp_8_dp_8() -> None:
    local = P / 8
    assert f"{local / 1e9:.2f}B" == "8.75B"
    across = textbook.fsdp_traffic_bytes(local, 8)
    assert f"{across / GB:.1f}" == "45.9"
    assert f"{textbook.transfer_seconds(across, INFINIBAND):.2f}" == "0.92"
    # "nine times less cross-node traffic"
    assert f"{textbook.fsdp_traffic_bytes(P, 64) / across:.0f}" == "9"
    tokens = TOKENS / 8
    assert f"{tokens:,.0f}" == "524,288"
    assert f"{textbook.tp_tensor_bytes(tokens, 8192) / GB:.1f}" == "8.6"
    one = textbook.tp_traffic_bytes(tokens, 8192, 1, 8) / textbook.TP_ALL_REDUCES_PER_LAYER
    assert f"{one / GB:.1f}" == "15.0"
    traffic = textbook.tp_traffic_bytes(tokens, 8192, 80, 8)
    assert f"{traffic / 1e12:.1f}" == "4.8"
    seconds = textbook.transfer_seconds(traffic, NVLINK)
    assert f"{seconds:.1f}" == "10.7"
    step = textbook.compute_seconds(textbook.flops(P, TOKENS), GPUS, PEAK)
    assert f"{textbook.communication_ratio(seconds, step):.0%}" == "15%"


def test_hsdp_over_8_gpus_needs_140_gb() -> None:
    assert f"{textbook.state_bytes(P, 3, 8) / GB:.0f}" == "140"


@pytest.mark.parametrize(
    ("pp", "m", "limit"), [(2, 9, 0.10), (4, 27, 0.10), (8, 63, 0.10), (4, 17, 0.15)]
)
def test_micro_batches_that_bring_the_bubble_to_a_limit(pp: int, m: int, limit: float) -> None:
    assert textbook.micro_batches_for_bubble(pp, limit) == m
    assert float(textbook.bubble(pp, m)) <= limit + 1e-12
    assert float(textbook.bubble(pp, m - 1)) > limit


def test_bubble_formula() -> None:
    assert float(textbook.bubble(1, 7)) == 0.0
    assert float(textbook.bubble(4, 17)) == pytest.approx(0.15, rel=1e-15)
    assert textbook.micro_batches_for_bubble(1, 0.15) == 1


def test_bubble_of_the_405b_configuration_at_16_micro_batches() -> None:
    assert f"{textbook.bubble(16, 16):.0%}" == "48%"
    assert f"{textbook.bubble(16, 16, vpp=8):.1%}" == "10.5%"


def test_the_frameworks_memory_table() -> None:
    p = 7e9
    assert float(variants.framework_weight_bytes(p, "fp16")) == p * 2
    assert float(variants.framework_weight_bytes(p, "fp32")) == p * 4
    assert float(variants.framework_adam_bytes(p)) == p * 4 * 2 == p * 8
    assert float(variants.framework_gradient_bytes(p, "fp16")) == p * 2
    assert float(variants.framework_gradient_bytes(p, "fp32")) == p * 4
    activations = variants.framework_activation_bytes(4096, 1, 8192, 80)
    assert float(activations) == 4096 * 1 * 8192 * 80 * 2
    # The estimate is what full recomputation keeps.
    assert activations == textbook.activation_bytes(4096, 1, 8192, 80, full_recompute=True)
    # FP16 rows hold 12 bytes a parameter, without the master weights of the account's 16.
    rows = (
        variants.framework_weight_bytes(1)
        + variants.framework_adam_bytes(1)
        + variants.framework_gradient_bytes(1)
    )
    assert float(rows) == 12.0


def test_the_frameworks_four_communication_formulas() -> None:
    gradients = weights = 2 * 8.75e9
    assert float(variants.framework_dp_bytes(gradients, 8)) == 2 * gradients * 7 / 8
    assert float(variants.framework_fsdp_bytes(weights, 8)) == 3 * weights * 7 / 8
    activation = 4096 * 8192 * 2
    assert float(variants.framework_tp_bytes(activation, 80)) == 2 * activation * 80
    assert float(variants.framework_pp_bytes(activation)) == activation
    # The first two are the account's own.
    assert variants.framework_fsdp_bytes(weights, 8) == textbook.fsdp_traffic_bytes(8.75e9, 8)
    assert variants.framework_dp_bytes(gradients, 8) == textbook.gradient_traffic_bytes(8.75e9, 8)


def test_the_frameworks_throughput_and_cost() -> None:
    assert float(textbook.flops(1, 1)) == 6.0 == 2.0 + 4.0
    hours = textbook.gpu_hours(64, 7200)
    assert float(hours) == 128.0
    assert float(textbook.cost_usd(hours, 2.5)) == 320.0


@pytest.mark.parametrize("row", TYPICAL, ids=lambda row: f"{row.name}-{row.gpus}")
def test_typical_configurations_fit_with_full_recomputation(row: Typical) -> None:
    assert row.tp * row.pp * row.dp == row.gpus
    state = textbook.state_bytes(row.parameters / (row.tp * row.pp), 3, row.dp)
    kept = textbook.activation_bytes(
        4096,
        1,
        row.hidden,
        textbook.stage_layers(row.layers, row.pp),
        row.tp,
        full_recompute=True,
        in_flight=row.pp,
    )
    assert float(state + kept) <= 80e9 * 0.9


def test_typical_configurations_as_printed() -> None:
    table = [(row.name, row.gpus, row.tp, row.pp, row.dp, row.sharding) for row in TYPICAL]
    assert table == [
        ("7B", 8, 1, 1, 8, "FSDP"),
        ("13B", 16, 2, 1, 8, "FSDP"),
        ("70B", 64, 8, 1, 8, "FSDP"),
        ("70B", 128, 8, 2, 8, "FSDP"),
        ("405B", 16_384, 8, 16, 128, "FSDP"),
    ]
