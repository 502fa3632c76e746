"""Rank files from a plan JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from solver.job.read import parse_problem
from solver.layout_check import LayoutRequest, check
from solver.plan import Plan
from solver.report.plans import plans_data
from solver.report.ranks import write_ranks
from solver.report.render import to_json
from solver.result import Certificate, Result
from topology import InputError

PROBLEM = """
model: llama3-8b
cluster: {gpu: h100, nodes: 8, leaf_nodes: 4}
training: {seq_len: 4096, global_batch: 64seq}
"""


@pytest.fixture
def plan(tmp_path: Path) -> str:
    problem = parse_problem(PROBLEM)
    found = check(problem, LayoutRequest(tp=8, pp=2, dp=2, zero=1))
    path = tmp_path / "plan.json"
    path.write_text(to_json(plans_data(problem, result_of(found))))
    return str(path)


def result_of(plan: Plan) -> Result:
    proof = Certificate(
        shapes=1, dropped={}, opened=1, models=1, closed=1, incumbent=1.0, next_bound=None,
        bound=1.0, gap=0.0,
    )  # fmt: skip
    return Result(
        status="optimal", objective="time", plans=(plan,), recommended=1, fastest=None, front=(),
        profile="p", expected_error=0.1, tolerance=0.02, measured=True, gpu_counts_considered=(32,),
        certificate=proof,
    )  # fmt: skip


@pytest.fixture
def hosts(tmp_path: Path) -> str:
    path = tmp_path / "hosts"
    path.write_text("# leaf a\nn[0-3]\n# leaf b\nn4,n5\nn6\nn7\n")
    return str(path)


def text(plan: str, hosts: str, to: str, free: str | None = None) -> list[str]:
    return write_ranks(plan, hosts, to, 1, free).texts["text"]().splitlines()


def test_each_launcher_gets_its_form(plan: str, hosts: str) -> None:
    slurm = text(plan, hosts, "slurm")
    assert len(slurm) == 32
    assert slurm[7:9] == ["n0", "n1"]
    assert text(plan, hosts, "openmpi")[9] == "rank 9=n1 slot=1"
    assert text(plan, hosts, "torchrun") == ["n0", "n1", "n2", "n3"]


def test_free_hosts_under_one_leaf_are_taken(plan: str, hosts: str) -> None:
    assert text(plan, hosts, "torchrun", "n[2-7]") == ["n4", "n5", "n6", "n7"]


@pytest.mark.parametrize(
    ("free", "names", "said"),
    [
        ("n[1-3]", "n[0-7]", "4 nodes are needed, 3 are free"),
        ("m1", "n[0-7]", "'m1' is not among"),
        (None, "n[0-6]", "names 7 hosts, the plan's cluster has 8 nodes"),
        (None, "", "names no host"),
        (None, "n[0-7", "left out"),
    ],
)
def test_what_cannot_be_used_is_said(
    plan: str, tmp_path: Path, free: str | None, names: str, said: str
) -> None:
    path = tmp_path / "other"
    path.write_text(names + "\n")
    with pytest.raises(InputError, match=said):
        write_ranks(plan, str(path), "slurm", 1, free)


def test_sliced_experts_keep_the_ranks_of_their_stage(tmp_path: Path, hosts: str) -> None:
    problem = parse_problem(PROBLEM.replace("llama3-8b", "mixtral-8x7b"))
    layout = LayoutRequest(tp=2, cp=2, pp=2, dp=4, ep=2, etp=2, zero=1, order="tp-cp-ep-pp-dp")
    path = tmp_path / "plan.json"
    path.write_text(to_json(plans_data(problem, result_of(check(problem, layout)))))
    assert text(str(path), hosts, "torchrun") == ["n0", "n1", "n2", "n3"]
