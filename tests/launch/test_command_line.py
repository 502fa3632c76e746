"""``export``, ``trace`` and ``check --from`` on the command line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.running import SMALL, run

ARGUMENTS = "--micro-batch-size 1 --tensor-model-parallel-size 8 --sequence-parallel --bf16"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("plan") / "plan.json")
    assert run("solve", *SMALL, "--stages", "even", "--fix", "zero=1", "-o", path).exit_code == 0
    return path


def test_a_plan_is_exported(plan: str, tmp_path: Path) -> None:
    result = run("export", plan, "--to", "megatron", "-o", str(tmp_path / "args"))
    assert result.exit_code == 0, result.output
    assert "--micro-batch-size" in shlex.split(result.stdout)
    assert (tmp_path / "args").read_text() == result.stdout
    assert "yours to add" in result.stderr
    data = json.loads(run("export", plan, "--to", "slurm", "--format", "json").stdout)
    assert data["schema"] == "shardplan.export/1"
    assert data["text"].startswith("#!/usr/bin/env bash\n#SBATCH --job-name=train\n")


def test_what_a_target_cannot_say_is_7(plan: str) -> None:
    result = run("export", plan, "--to", "torchtitan", "--format", "json")
    assert result.exit_code == 7
    [error, *_] = json.loads(result.stdout)["errors"]
    assert error["code"] == "SP160"
    assert error["hint"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--margin", "a lot"), "--margin"),
        (("--time", "5"), "--time"),
        (("--rank", "77"), "no plan 77"),
        (("--name", "a\nb"), "is no name of a job"),
    ],
)
def test_flags_that_make_no_sense_are_2(plan: str, flags: tuple[str, str], says: str) -> None:
    result = run("export", plan, "--to", "slurm", *flags)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_problem_file_is_no_plan(tmp_path: Path) -> None:
    file = tmp_path / "problem.yaml"
    file.write_text("model: llama3-8b\n")
    result = run("export", str(file), "--to", "slurm")
    assert result.exit_code == 2
    assert "holds no plan" in result.stderr


def test_a_parser_that_is_not_there_is_named(plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDPLAN_CLIENTS", "/nowhere/python")
    result = run("export", plan, "--to", "megatron", "--check")
    assert result.exit_code == 2
    assert "megatron is not installed" in result.stderr
    assert "SHARDPLAN_CLIENTS" in result.stderr
    other = run("export", plan, "--to", "slurm", "--check")
    assert other.exit_code == 2
    assert "no parser of slurm" in other.stderr


def test_a_step_is_drawn(plan: str, tmp_path: Path) -> None:
    result = run("trace", plan, "--microbatches", "2", "-o", str(tmp_path / "trace.json"))
    assert result.exit_code == 0, result.output
    drawn = json.loads(result.stdout)
    assert drawn == json.loads((tmp_path / "trace.json").read_text())
    assert {event["ph"] for event in drawn["traceEvents"]} >= {"M", "X", "C"}
    figures = json.loads(run("trace", plan, "--format", "json").stdout)
    assert figures["simulated_s"] <= figures["closed_form_s"] * (1 + 1e-9)
    assert "Closed form" in run("trace", plan, "--format", "table").stdout


def test_an_existing_launch_is_checked_and_a_better_plan_named() -> None:
    result = run("check", *SMALL, "--from", "megatron", ARGUMENTS)
    assert result.exit_code == 0, result.output
    assert "tp=8,dp=1" in result.stdout
    assert "Better" in result.stdout
    data = json.loads(run("check", *SMALL, "--from", "megatron", ARGUMENTS, "--format=json").stdout)
    step = data["plan"]["estimate"]["time"]["step_s"]
    assert data["better"]["estimate"]["time"]["step_s"] < step
    assert data["launch"]["tp"] == 8


ACCELERATE = """\
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 2
num_processes: 16
fsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: true,
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP, fsdp_activation_checkpointing: true}
"""


def test_plans_that_a_framework_can_say_are_found_though_the_best_are_none(tmp_path: Path) -> None:
    """The best without a pipeline have ZeRO 1 with CP, which Accelerate has no words for."""
    file = tmp_path / "accelerate.yaml"
    file.write_text(ACCELERATE)
    flags = ("--model", "llama3-8b", "--cluster", "2x8xH100", "--global-batch", "512",
             "--seq-len", "4096", "--layout", "micro_batch=1")  # fmt: skip
    result = run("check", *flags, "--from", "accelerate", str(file))
    assert result.exit_code == 6, result.output  # the micro-batch makes it wait for traffic
    assert "no plan keeps" not in result.stdout
    data = json.loads(
        run("check", *flags, "--from", "accelerate", str(file), "--format=json").stdout
    )
    own, mine = data["better_within_framework"], data["plan"]
    assert own["layout"]["zero"] in (2, 3)
    assert own["estimate"]["time"]["step_s"] < mine["estimate"]["time"]["step_s"]


def test_that_no_plan_fits_is_said_with_the_reason() -> None:
    limits = ("--max-bubble", "0.1%", "--mem-headroom", "90%")
    result = run("check", *SMALL, *limits, "--from", "megatron", ARGUMENTS)
    assert result.exit_code == 6
    assert "proved that no plan keeps every limit: memory" in " ".join(result.stdout.split())


def test_parts_of_what_was_read_are_replaced() -> None:
    flags = ("--from", "megatron", ARGUMENTS, "--layout", "micro_batch=2")
    data = json.loads(run("check", *SMALL, *flags, "--format", "json").stdout)
    assert data["plan"]["batch"]["micro_batch"] == 2


def test_a_launch_that_breaks_a_limit_is_6_and_a_mistyped_one_2() -> None:
    broken = run("check", *SMALL, "--max-comm", "1%", "--from", "megatron", ARGUMENTS)
    assert broken.exit_code == 6
    wrong = run("check", *SMALL, "--from", "megatron", f"{ARGUMENTS} --recompute-granularty full")
    assert wrong.exit_code == 2
    assert "Did you mean '--recompute-granularity'" in wrong.stderr
