"""Mutated problems all the way through ``solve``: an answer, or one clear refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.running import run
from tests.job.test_hostile import HOSTILE, PROBLEM, mutated

SMALL: dict[str, Any] = {
    **PROBLEM,
    "model": {"layers": 8, "hidden": 1024, "heads": 16, "kv_heads": 4, "ffn": 4096, "vocab": 32000},
    "cluster": {"nodes": 2, "gpus_per_node": 8, "gpu": "h100-80gb-sxm", "price": 2.5},
    "training": {"seq_len": 2048, "global_batch": "64seq", "tokens": "1B"},
    "search": {"tp": [1, 2], "pp": "1..4", "zero": [0, 3], "recompute": ["none", "full"]},
}

MILD = st.one_of(
    st.integers(1, 10_000),
    st.sampled_from([1, 2, 3, 7, 64, 4096, 10**6, "1B", "3seq", "8x8xA100", "99%", "fp8", "1d"]),
    HOSTILE,
)
ANSWERED = {0, 2, 3, 4}
"""A plan, bad input, proved infeasible, no plan in time."""


@settings(max_examples=max(40, settings().max_examples), deadline=None)
@given(seed=st.integers(0, 2**32), values=st.lists(MILD, min_size=1, max_size=4))
def test_mutated_problems_end_in_an_answer(
    tmp_path_factory: Any, seed: int, values: list[Any]
) -> None:
    path: Path = tmp_path_factory.mktemp("hostile") / "problem.yaml"
    data = mutated(SMALL, seed, values)
    path.write_text(json.dumps(data, default=str), encoding="utf-8")
    result = run("solve", str(path), "--format=json", "--time-limit=5s", "--top=1")
    assert result.exit_code in ANSWERED, (result.exit_code, result.output, data)
    if result.exit_code == 2:
        faults = json.loads(result.stdout)["errors"]
        assert all(f["code"].startswith("SP") and f["message"] for f in faults)
        assert all(f["field"] or f["hint"] or f["path"] for f in faults)
    else:
        assert json.loads(result.stdout)["status"] in {
            "optimal", "feasible", "infeasible", "unknown",
        }  # fmt: skip
