"""Rows of published runs become problems, or are refused with a reason; nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.calibration.rows import RefusedError
from solver.calibration.runs import model_of, predict, run_of

DENSE = {
    "id": "a", "series": "s-1", "step_s": "5.0", "n_gpu": "H100-80GB", "gpus": "64",
    "gpus_per_node": "8", "nvlink_domain": "8", "intra_gb_per_s": "450",
    "inter_gb_per_s_per_gpu": "50", "n_stack": "megatron-core", "n_precision": "bf16",
    "n_layers": "32.0", "n_hidden": "4096.0", "n_heads": "32.0", "n_kv_heads": "8.0",
    "n_vocab": "128256", "n_head_dim": "128", "n_ffn_dense": "14336", "gated_mlp": "1.0",
    "seq_len": "8192", "global_batch_seqs": "128", "micro_batch": "1", "n_tp": "2", "n_pp": "2",
    "n_cp": "1", "n_ep": "1", "n_vpp": "1", "n_etp": "1", "n_sp": "1", "n_num_microbatches": "8",
    "n_zero": "1", "n_recompute": "none", "n_task": "pretrain", "n_representable": "yes",
}  # fmt: skip
MIXTURE = DENSE | {
    "num_experts": "64", "top_k": "4", "moe_ffn_hidden": "1536", "n_moe_layers": "32",
    "n_ffn_dense": "0", "n_ep": "8", "n_moe_dispatcher": "hybridep",
}  # fmt: skip


@pytest.mark.parametrize("row", [DENSE, MIXTURE])
def test_a_row_is_priced(row: dict[str, str]) -> None:
    assert 0.1 < predict(run_of(row)) < 100


def test_measured_columns_are_not_read() -> None:
    other = DENSE | {"step_s": "50", "mfu_pct": "99", "tokens_per_s_per_gpu": "1"}
    assert predict(run_of(other)) == predict(run_of(DENSE))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"n_representable": "hybrid"}, "Mamba"),
        ({"n_task": "distillation"}, "only pretrain, sft, lora"),
        ({"step_s": ""}, "step_s is missing"),
        ({"n_layers": "many"}, "n_layers is not a number"),
        ({"n_hidden": "nan"}, "n_hidden is out of range"),
        ({"gpus": "1e400"}, "gpus is out of range"),
        ({"n_tp": "3"}, "does not divide"),
        ({"n_gpu": "TPU"}, "not a known GPU"),
        ({"n_stack": "own"}, "no profile"),
        ({"n_precision": "int4"}, "precision"),
        ({"n_num_microbatches": "7"}, "is not the batch"),
    ],
)
def test_a_bad_row_is_refused_with_its_reason(change: dict[str, str], reason: str) -> None:
    with pytest.raises(RefusedError, match=reason):
        run_of(DENSE | change)


VALUES = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["", "0", "-1", "1e9", "nan", "inf", "0.5", "None", "1.0", "full", "hsdp"]),
    st.integers(-5, 10**13).map(str),
)


@given(st.dictionaries(st.sampled_from(sorted(MIXTURE)), VALUES, max_size=4))
def test_a_damaged_row_is_priced_or_refused(change: dict[str, str]) -> None:
    try:
        run = run_of(MIXTURE | change)
    except RefusedError:
        return
    assert np.isfinite(predict(run))


@pytest.mark.parametrize("row", [DENSE, MIXTURE])
def test_switches_only_help(row: dict[str, str]) -> None:
    run = run_of(row)

    def seconds(**switches: object) -> float:
        software = run.profile.software.model_copy(update=switches)
        return predict(run, run.profile.model_copy(update={"software": software}))

    plain = seconds()
    assert seconds(tp_overlap=False) > plain
    assert seconds(released=2024.5) > seconds(released=2025.5) > plain
    assert seconds(schedule="zb-2p") < seconds(schedule="zb-1p") < plain
    assert seconds(cuda_graphs="full") <= seconds(cuda_graphs="partial") <= plain
    assert seconds(ep_overlap=True) <= plain


@pytest.mark.parametrize("row", [DENSE, MIXTURE])
@pytest.mark.parametrize("zero", ["0", "1", "2", "3"])
def test_the_bound_is_admissible(row: dict[str, str], zero: str) -> None:
    run = run_of(row | {"n_zero": zero})
    model = model_of(run)
    tables = model.tables(run.shapes)
    step, memory = model.bounds(run.shapes)
    total = tables.pace.max(axis=1) + tables.share.sum(axis=1) + tables.tail.max(axis=1)
    assert step[0] <= -(-total.min() // 10_000)
    assert memory[0] <= tables.memory.max(axis=1).min()
