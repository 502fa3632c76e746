"""What is varied: lists, ranges, scenarios, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from solver.studies.points import read_sweep, tree
from solver.studies.vary import Axis, parse_vary
from topology.errors import InputError


@pytest.mark.parametrize(
    ("text", "field", "values"),
    [
        ("cluster.nodes=4,8,16", "cluster.nodes", (4, 8, 16)),
        ("seq_len=4096..32768*2", "training.seq_len", (4096, 8192, 16384, 32768)),
        ("--seq-len=1..3", "training.seq_len", (1, 2, 3)),
        ("gpus=64", "search.gpus", (64,)),
        ("cluster.inter.per_gpu=25GB/s..100GB/s*2", "cluster.inter.per_gpu",
         ("25GB/s", "50GB/s", "100GB/s")),
        ("cluster.inter.per_gpu=10..30GB/s+10", "cluster.inter.per_gpu",
         ("10GB/s", "20GB/s", "30GB/s")),
        ("mem_headroom=0.1..0.2+0.05", "limits.mem_headroom", (0.1, 0.15, 0.2)),
        ("model=llama2-7b,llama3-8b", "model", ("llama2-7b", "llama3-8b")),
        ("fused_loss=true", "training.fused_loss", None),
        ("training.fused_loss=true,false", "training.fused_loss", (True, False)),
    ],
)  # fmt: skip
def test_values(text: str, field: str, values: tuple[Any, ...] | None) -> None:
    if values is None:
        with pytest.raises(InputError, match="SP101"):
            parse_vary(text)
    else:
        assert parse_vary(text) == Axis(field, values)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("cluster.nodes", "SP114"),
        ("cluster.nodes=", "SP114"),
        ("clster.nodes=4", "SP101"),
        ("cluster.nodes=8..4", "SP109"),
        ("cluster.nodes=4..8*1", "SP109"),
        ("cluster.nodes=1..100000", "SP109"),
        ("cluster.inter.per_gpu=1GB/s..2TB/s", "SP114"),
        ("sweep=1", "SP101"),
    ],
)
def test_refused(text: str, code: str) -> None:
    with pytest.raises(InputError, match=code):
        parse_vary(text)


def test_a_cluster_in_shorthand_is_spelled_out() -> None:
    fields = {"cluster": "2x8xH100", "cluster.inter.per_gpu": "25GB/s", "cluster.nodes": 4}
    found = tree(fields)["cluster"]
    assert (found["nodes"], found["inter"]) == (4, {"per_gpu": "25GB/s"})


BASE = """\
model: llama3-8b
cluster: {gpu: h100, nodes: 1, price: 2}
training: {seq_len: 4096, global_batch: 64seq, tokens: 1B}
scenarios:
  small: {training.global_batch: 32seq}
  large: {global_batch: 128seq, cluster.nodes: 2}
sweep: {cluster.inter.per_gpu: [25GB/s, 50GB/s]}
"""


def test_scenarios_and_axes_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(BASE)
    spec = read_sweep(str(tmp_path / "base.yaml"), {}, (), ())
    points = list(spec.points())
    assert spec.columns == ("scenario", "cluster.inter.per_gpu")
    assert [p.labels["scenario"] for p in points] == ["small", "small", "large", "large"]
    assert [p.problem.job.global_batch for p in points if p.problem] == [32, 32, 128, 128]
    assert [p.problem.cluster.gpus for p in points if p.problem] == [8, 8, 16, 16]
    assert {p.problem.search.stages for p in points if p.problem} == {"even"}
    one = read_sweep(str(tmp_path / "base.yaml"), {}, (Axis("model", ("llama2-7b",)),), ("small",))
    assert [p.labels for p in one.points()] == [{"scenario": "small", "model": "llama2-7b"}]
    with pytest.raises(InputError, match="It has: small, large"):
        read_sweep(str(tmp_path / "base.yaml"), {}, (), ("tiny",))


def test_equal_problems_share_a_key_and_others_do_not(tmp_path: Path) -> None:
    path = tmp_path / "base.yaml"
    path.write_text(BASE.replace("scenarios", "# scenarios").replace("  small", "  # s")
                    .replace("  large", "  # l"))  # fmt: skip
    nodes = Axis("cluster.nodes", (1, 2, 1))
    keys = [p.key for p in read_sweep(str(path), {}, (nodes,), ()).points()]
    assert keys[0] == keys[2] != keys[1]
