"""What a framework does not have is not searched: the best plan can be launched."""

from __future__ import annotations

from pathlib import Path

import pytest

from solver.job.read import parse_problem
from tests.cli.running import run
from topology import InputError

FSDP = ("--framework", "fsdp", "--seq-len=4096", "--tokens=100B", "--price=2.5")


@pytest.mark.parametrize(
    ("model", "cluster", "batch"),
    [
        ("llama3-8b", "2x8xH100", 512),
        ("llama3-70b", "8x8xH100", 1024),
        ("mixtral-8x7b", "4x8xH100", 256),
    ],
)
def test_the_best_plan_of_fsdp_is_one_that_torchtitan_runs(
    model: str, cluster: str, batch: int, tmp_path: Path
) -> None:
    plan = str(tmp_path / "plan.json")
    asked = (f"--model={model}", f"--cluster={cluster}", f"--global-batch={batch}seq")
    assert run("solve", *asked, *FSDP, "-o", plan).exit_code == 0
    for target in ("torchtitan", "slurm"):
        assert run("export", "--to", target, plan).exit_code == 0


def fsdp(search: str) -> str:
    return (
        "model: llama3-8b\ncluster: 1x8xH100\nframework: fsdp\n"
        f"training: {{seq_len: 4096, global_batch: 64seq}}\nsearch: {{{search}}}\n"
    )


def test_what_is_left_open_is_narrowed_and_what_is_asked_stays() -> None:
    search = parse_problem(fsdp("tp: 1")).search
    assert (search.zero, search.order, search.etp) == ((2, 3), ("tp-cp-ep-dp-pp",), (1,))
    assert parse_problem(fsdp("zero: 0")).search.zero == (0,)
    assert parse_problem(fsdp("fix: zero=0")).search.zero == (0, 2, 3)
    assert parse_problem(fsdp("tp: 1").replace("fsdp", "megatron")).search.zero is None
    with pytest.raises(InputError, match=r"search\.zero: FSDP has no ZeRO 1"):
        parse_problem(fsdp("zero: [1, 3]"))
