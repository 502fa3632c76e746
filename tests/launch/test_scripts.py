"""Scripts for shells and schedulers: their syntax, their times, hostile names."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from solver.checklist import review
from solver.job.reliability import Reliability
from solver.launch.describe import run_of
from solver.launch.description import Run
from solver.launch.errors import LaunchError
from solver.launch.export import export
from solver.launch.schedule import DAY_S, clock, late, times
from solver.launch.targets.base import Wanted
from solver.launch.targets.shell import job_name
from solver.layout_check import LayoutRequest, check
from solver.report.checked import layout_facts
from topology import InputError

from .plans import problem_of

MEGATRON: tuple[str, dict[str, Any]] = (
    "megatron",
    {"tp": 8, "pp": 4, "vpp": 5, "dp": 2, "zero": 1},
)
FSDP: tuple[str, dict[str, Any]] = ("fsdp", {"dp": 64, "zero": 3, "recompute": "full"})
HOSTILE = 'a b\'; rm -rf "$HOME" `id` $(id) \\ #'


def written(to: str, case: tuple[str, dict[str, Any]] = MEGATRON, nodes: int = 8,
            **wanted: Any) -> str:  # fmt: skip
    problem = problem_of("llama3-70b", nodes, case[0])
    return export(problem, check(problem, LayoutRequest(**case[1])), to, Wanted(**wanted)).text


def commands(to: str, case: tuple[str, dict[str, Any]]) -> str:
    text = written(to, case)
    return str(yaml.safe_load(text)["run"]) if to == "skypilot" else text


@pytest.mark.parametrize("case", [MEGATRON, FSDP], ids=["megatron", "fsdp"])
@pytest.mark.parametrize("to", ["torchrun", "slurm", "skypilot"])
def test_a_shell_understands_it(to: str, case: tuple[str, dict[str, Any]]) -> None:
    text = commands(to, case)
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    if shutil.which("shellcheck"):
        found = subprocess.run(["shellcheck", "--shell=bash", "-"], input=text, text=True,
                               capture_output=True, check=False)  # fmt: skip
        assert found.returncode == 0, found.stdout


def test_the_arguments_that_a_shell_passes_are_those_of_the_framework() -> None:
    """The command is run with a torchrun that prints what it was given."""
    script = written("torchrun")
    fake = 'torchrun() { printf "%s\\n" "$@"; }\nexec() { "$@"; }\n'
    env = {"NODE_RANK": "3", "HEAD": "n0", "MODEL_ARGS": "--num-layers 80", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["bash"], input=fake + script, text=True, capture_output=True, env=env,
                          check=True)  # fmt: skip
    words = done.stdout.splitlines()
    assert words[:6] == ["--nnodes", "8", "--nproc-per-node", "8", "--node-rank", "3"]
    plain = written("megatron").replace("\n", " ")
    assert words[words.index("pretrain_gpt.py") + 1 :] == [
        "--num-layers",
        "80",
        *shlex.split(plain),
    ]


def test_every_task_of_slurm_takes_its_nodes_rank() -> None:
    text = written("slurm")
    fake = (
        'srun() { shift 2; SLURM_NODEID=5 "$@"; }\nscontrol() { printf "n1\\nn2\\n"; }\n'
        'torchrun() { printf "%s\\n" "$@"; }\nexport -f torchrun\n'
    )
    text = text.replace("exec torchrun", "torchrun")
    env = {"SLURM_JOB_NODELIST": "n[1-2]", "MODEL_ARGS": "--seed 1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["bash"], input=fake + text, text=True, capture_output=True, env=env,
                          check=True)  # fmt: skip
    words = done.stdout.splitlines()
    assert words[:2] == ["--node-rank", "5"]
    assert words[words.index("--master-addr") + 1] == "n1"


def test_one_hardware_queue_where_tensor_parallel_traffic_needs_it() -> None:
    assert "export CUDA_DEVICE_MAX_CONNECTIONS=1" in written("slurm")
    sharded = ("megatron", {"tp": 8, "dp": 8, "zero": 3})
    assert "CUDA_DEVICE_MAX_CONNECTIONS" not in written("slurm", sharded)
    assert "CUDA_DEVICE_MAX_CONNECTIONS" not in written("slurm", FSDP)


def test_hostile_names_stay_words() -> None:
    line = next(w for w in written("slurm", name=HOSTILE).splitlines() if "--job-name" in w)
    assert shlex.split(line.removeprefix("#SBATCH ")) == [f"--job-name={HOSTILE}"]
    with pytest.raises(InputError, match="SP114"):
        written("slurm", name="a\n#SBATCH --uid=0")
    with pytest.raises(InputError, match="SP114"):
        written("skypilot", name=HOSTILE)


@given(st.text(max_size=20))
def test_a_name_is_one_word_in_one_line_or_refused(name: str) -> None:
    try:
        quoted = job_name(name)
    except InputError:
        return
    assert "\n" not in quoted
    assert shlex.split(quoted) == [name]


def run(**changes: Any) -> Run:
    values: dict[str, Any] = {
        "nodes": 8, "gpus_per_node": 8, "gpu": "h100-80gb-sxm", "framework": "megatron",
        "step_s": 10.0, "wall_clock_s": 1e6, "write_s": 104.0, "interval_s": 24_000.0,
    }  # fmt: skip
    return Run(**{**values, **changes})


def test_the_interval_is_youngs() -> None:
    """8 nodes at 3.79 failures per 1,000 node-days and 10 minutes to be back; 14 bytes a weight."""
    problem = problem_of("llama3-70b", 8, "megatron")
    found = run_of(problem, check(problem, LayoutRequest(**MEGATRON[1])))
    saving = 14 * problem.job.transformer.parameters().total / (1.2e9 * 8)
    assert found.write_s == pytest.approx(saving)
    between = DAY_S / (0.00379 * 8) + 600
    assert found.interval_s == pytest.approx((2 * between * saving) ** 0.5)


def test_failures_are_counted_once() -> None:
    problem = problem_of("llama3-70b", 8, "megatron")
    given = replace(problem, reliability=Reliability())
    plain, counted = (
        run_of(p, check(p, LayoutRequest(**MEGATRON[1]))).wall_clock_s for p in (problem, given)
    )
    assert plain == pytest.approx(counted, rel=1e-5)
    step = check(problem, LayoutRequest(**MEGATRON[1])).cost.wall_clock_s
    assert plain is not None
    assert 1.001 < plain / step < 1.1
    never = replace(problem, reliability=Reliability(failures=0.0))
    assert run_of(never, check(never, LayoutRequest(**MEGATRON[1]))).interval_s == DAY_S


def test_checkpoints_come_every_so_many_steps() -> None:
    assert times(run(), Wanted()).save_steps == 2400
    assert times(run(), Wanted(save_every_s=60.0)).save_steps == 6
    assert times(run(), Wanted(save_every_s=1.0)).save_steps == 1


def test_the_time_limit_is_the_prediction_and_a_margin() -> None:
    found = times(run(), Wanted(margin=0.5))
    assert (found.limit_s, found.jobs) == (1_500_000, 1)
    assert times(run(), Wanted(time_s=3600.0)).limit_s == 3600


def test_a_long_run_is_cut_into_jobs_that_reach_its_end() -> None:
    found = times(run(), Wanted(longest_s=2.0 * DAY_S, save_every_s=3600.0))
    assert found.limit_s == 2 * DAY_S
    assert found.jobs * (2 * DAY_S - 3600) >= 1e6 * 1.2 > (found.jobs - 1) * (2 * DAY_S - 3600)
    text = written("slurm", longest_s=24 * 3600.0)
    assert "#SBATCH --array=1-" in text
    assert "#SBATCH --time=1-00:00:00" in text
    # Megatron-LM saves and ends by itself before the queue ends it.
    minutes = int(text.partition("--exit-duration-in-mins ")[2].split()[0])
    assert 24 * 60 - 10 < minutes < 24 * 60 - 5
    assert "--exit-duration-in-mins" not in written("slurm")


def test_jobs_that_end_before_they_save_are_warned_of() -> None:
    hour = 3600.0
    assert late(times(run(), Wanted(longest_s=2 * hour)))[0].startswith("jobs of 2.00 h end before")
    for fine in (
        Wanted(longest_s=2 * hour, save_every_s=hour),
        Wanted(longest_s=24 * hour),
        Wanted(time_s=2 * hour),
    ):
        assert late(times(run(), fine)) == ()


def test_check_and_export_say_the_same_interval() -> None:
    problem = problem_of("llama3-70b", 8, "megatron")
    for reliability in (None, Reliability(failures=20.0), Reliability(interval_s=1800.0)):
        given = replace(problem, reliability=reliability)
        plan = check(given, LayoutRequest(**MEGATRON[1]))
        saved = times(run_of(given, plan), Wanted(time_s=1e6))
        rules = {rule.id: rule for rule in review(layout_facts(given, plan))}
        assert f"every {saved.save_steps:,} steps" in rules["CL-06"].advice
        assert rules["CL-06"].limit == pytest.approx(saved.save_every_s / 3600)


def test_a_run_without_a_length_asks_for_a_time() -> None:
    with pytest.raises(InputError, match=r"SP113.*Solve with --tokens"):
        times(run(wall_clock_s=None), Wanted())
    assert times(run(wall_clock_s=None), Wanted(time_s=60.0)).limit_s == 60


@pytest.mark.parametrize(
    ("seconds", "text"), [(59, "0-00:00:59"), (3600, "0-01:00:00"), (190_061, "2-04:47:41")]
)
def test_times_as_slurm_reads_them(seconds: int, text: str) -> None:
    assert clock(seconds) == text


def test_a_task_of_skypilot() -> None:
    data = yaml.safe_load(written("skypilot"))
    assert data["num_nodes"] == 8
    assert data["resources"] == {"accelerators": "H100:8"}
    assert '--node-rank "$SKYPILOT_NODE_RANK"' in data["run"]


def test_a_gpu_that_skypilot_has_no_name_for() -> None:
    problem = problem_of("llama3-8b", 1, "megatron")
    plan = check(problem, LayoutRequest(dp=8))
    group = problem.cluster.groups[0]
    other = replace(group, gpu=replace(group.gpu, id="gb300-288gb"))
    moved = replace(problem, cluster=replace(problem.cluster, groups=(other,)))
    with pytest.raises(LaunchError, match="no name of gb300-288gb"):
        export(moved, plan, "skypilot")
