"""The benchmarks of memory, cases and order: last line, refusals, no traceback for any row."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import field_cases, memory, regret
from benchmarks._cases import row_of
from benchmarks._memory_rows import memory_run
from benchmarks._oracle import oracle_run, predicted_bytes
from solver.calibration.rows import RefusedError, read_rows
from solver.job.finetune import Finetune

LAST = {
    "memory": r"n=\d+ mape=[\d.]+ median=[\d.]+ oom_recall=[\d.]+ false_oom=[\d.]+ "
    r"tight_recall=[\d.]+ refused=\d+",
    "cases": r"verdicts=\d+ right=\d+ oom_recall=[\d.]+ false_oom=[\d.]+ pairs=\d+ "
    r"right_pairs=\d+ refused=\d+",
    "regret": r"groups=\d+ top1_regret=[\d.]+ tau=-?[\d.]+",
}
COMMANDS = {
    ("memory", "--runs"): memory.main,
    ("memory", "--oracle"): memory.main,
    ("cases", "--cases"): field_cases.main,
    ("regret", "--runs"): regret.main,
}
RUN = {
    "id": "x-1", "series": "x", "model": "llama3-8b", "n_layers": "32", "n_hidden": "4096",
    "n_heads": "32", "n_kv_heads": "8", "n_ffn_dense": "14336", "gated_mlp": "1",
    "n_vocab": "128256", "seq_len": "4096", "n_gpu": "H100-80GB", "gpus": "64",
    "gpus_per_node": "8", "n_tp": "2", "n_pp": "2", "n_cp": "1", "micro_batch": "1",
    "global_batch_seqs": "128", "n_num_microbatches": "8", "n_zero": "1",
    "n_recompute": "none", "n_stack": "megatron-core", "n_precision": "bf16", "step_s": "2.5",
    "mem_gib_per_gpu": "30", "oom": "", "n_gpu_mem_gib": "79.6",
}  # fmt: skip
ORACLE = {
    "kind": "whole", "model": "m", "hidden": "4096", "layers": "4", "heads": "32",
    "kv_heads": "8", "ffn_hidden": "14336", "vocab": "32000", "tied_embeddings": "0",
    "impl": "own", "fused": "1", "ac": "full", "mode": "fsdp2", "world": "8", "seq": "1024",
    "mbs": "1", "peak_bytes": "1e9", "grad_reduce": "fp32",
}  # fmt: skip
CASE = {
    "id": "c1", "model": "llama3-8b", "layers": "32", "hidden": "4096", "heads": "32",
    "kv_heads": "8", "ffn": "14336", "gated_mlp": "1", "vocab": "128256", "gpu": "H100-80GB-SXM",
    "gpu_mem_gib": "80", "gpus": "8", "gpus_per_node": "8", "framework": "Megatron-LM",
    "precision": "bf16", "optimizer": "adam (distributed)", "seq_len": "4096",
    "micro_batch": "1", "global_batch": "64", "tp": "2", "pp": "1", "dp": "4",
    "recompute": "none", "tuning": "full", "outcome": "fits", "peak_mem_gib": "60",
    "completeness": "A", "beats": "c2", "planner_check": "fits",
}  # fmt: skip
ROWS = {"--runs": RUN, "--oracle": ORACLE, "--cases": CASE}
BAD = ["", "nan", "inf", "-1", "1e400", "9" * 400, "0", "x", "1.5", "\0", "é", "[1]", "1e12"]


def shared(name: str) -> Path:
    root = os.environ.get("SHARDPLAN_SHARED", str(Path(__file__).parents[2] / ".." / "shared"))
    path = Path(root) / name
    if not path.is_file():
        pytest.skip(f"no {name}")
    return path


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, names)
        writer.writeheader()
        writer.writerows(rows)
    return path


def last_line(kind: str, option: str, path: Path, *more: str) -> str:
    result = CliRunner().invoke(COMMANDS[kind, option], [option, str(path), *more])
    assert result.exit_code == 0, (result.output, result.exception)
    line = result.output.strip().splitlines()[-1]
    assert re.fullmatch(LAST[kind], line), line
    return line


@pytest.mark.parametrize(("kind", "option"), list(COMMANDS))
def test_good_rows_and_unknown_columns(kind: str, option: str, tmp_path: Path) -> None:
    row = {**ROWS[option], "never heard of": "7"}
    path = write(tmp_path / "rows.csv", [row, {**row, "id": "c2"}])
    line = last_line(kind, option, path, "--json", str(tmp_path / "out.json"))
    assert "overall" in json.loads((tmp_path / "out.json").read_text("utf-8"))
    if kind != "regret":
        assert line.endswith("refused=0")


@pytest.mark.parametrize(("kind", "option"), list(COMMANDS))
@pytest.mark.parametrize("content", [b"", b"\n", b"id\n", b'\xff\xfe\0\0,\n"', b"a,b\n1\n1,2,3\n"])
def test_files_that_hold_nothing(kind: str, option: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    last_line(kind, option, path)


@pytest.mark.parametrize(("kind", "option"), list(COMMANDS))
def test_every_column_spoilt_in_every_way(kind: str, option: str, tmp_path: Path) -> None:
    good = ROWS[option]
    rows = [{**good, name: bad} for name in good for bad in BAD]
    last_line(kind, option, write(tmp_path / "rows.csv", rows))


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*RUN, "num_experts", "top_k", "moe_ffn_hidden", "n_moe_layers", "n_ep",
                         "n_vpp", "n_etp", "n_state_shard_ranks", "n_layer_split"]),
        st.one_of(st.sampled_from(BAD), st.integers(0, 300).map(str)),
        max_size=5,
    )
)  # fmt: skip
def test_a_run_is_priced_or_refused(changes: dict[str, str]) -> None:
    try:
        run = memory_run({**RUN, **changes})
    except RefusedError:
        return  # the reasons are printed by the benchmark
    assert run.predicted_bytes("device") > 0


def test_an_outcome_is_needed() -> None:
    with pytest.raises(RefusedError, match="neither a peak nor an outcome"):
        memory_run({**RUN, "step_s": "", "mem_gib_per_gpu": ""})


def test_ties_do_not_count_and_groups_need_three_layouts(tmp_path: Path) -> None:
    rows = [
        {**RUN, "n_tp": tp, "n_num_microbatches": m, "step_s": step}
        for tp, m, step in (("1", "4", "2.0"), ("2", "8", "2.02"), ("4", "16", "2.6"))
    ]
    assert last_line("regret", "--runs", write(tmp_path / "a.csv", rows)).startswith("groups=1")
    assert last_line("regret", "--runs", write(tmp_path / "b.csv", rows[:2])).startswith("groups=0")
    first, second, third = (regret.Measured(str(i), 1.0 + d, 1.0 - d) for i, d in
                            enumerate((0.0, 0.01, 0.3)))  # fmt: skip
    assert regret.regret([first, second]) == 0
    assert regret.tau([first, second]) is None
    assert regret.tau([first, second, third]) == -1
    assert regret.regret([first, second, third]) == pytest.approx(0.3)


def test_the_oracle_is_met() -> None:
    """Real PyTorch models under a memory tracker, every row within 1.5 %."""
    for values in read_rows(shared("truth/torch_memory_oracle.csv")):
        run = oracle_run(values)
        assert predicted_bytes(run)[0] == pytest.approx(run.measured_bytes, rel=0.015), run.label


def test_new_configurations_are_met() -> None:
    """98 more, measured by benchmarks/memory_oracle.py (PyTorch 2.14, transformers 5.24).

    The largest errors, up to 2.6 %, are of peaks inside the backward of an activation that the
    measured model writes in several operations, and of experts that are not spread.
    """
    rows = list(read_rows(Path(__file__).with_name("memory_oracle.csv")))
    errors: dict[str, list[float]] = {}
    for values in rows:
        run = oracle_run(values)
        error = abs(predicted_bytes(run)[0] / run.measured_bytes - 1)
        errors.setdefault(str(values["mode"]), []).append(error)
    every = [error for part in errors.values() for error in part]
    assert len(every) == len(rows) == 98
    assert max(every) < 0.03
    assert sum(error < 0.02 for error in every) >= len(every) - 4
    assert len(errors["rank"]) >= 30
    assert max(errors["single"]) < 0.015  # adapters, frozen parts, frozen layers
    assert max(errors["rank"]) < 0.015


@pytest.mark.parametrize(
    ("tuning", "trained"),
    [
        ("full", None),
        ("SFT, vision encoder frozen", None),
        ("LoRA r=8 on qkv", Finetune(lora_rank=8)),
        ("QLoRA", Finetune(lora_rank=32, lora_targets=("all",), base_bits=4)),
        ("full DPO", Finetune(reference_model=True)),
    ],
)
def test_what_a_case_trains(tuning: str, trained: Finetune | None) -> None:
    run = memory_run({**row_of({**CASE, "tuning": tuning}), "step_s": "1"})
    assert run.job.finetune == trained


def test_a_model_beside_a_frozen_one_is_refused() -> None:
    with pytest.raises(RefusedError, match="no part of the stated shape"):
        memory_run({**row_of({**CASE, "tuning": "backbone frozen, 1B trained"}), "step_s": "1"})
