"""Formats, what goes where, and that the same input gives the same bytes."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from solver.job.read import parse_problem
from solver.report.resolved import problem_data
from tests.cli.running import EXAMPLE, ROOT, SMALL, run, shell

LAYOUT = ("--layout", "tp=8,pp=4,zero=1,recompute=full")
CONFIG = str(ROOT / "examples" / "llama3-70b" / "config.json")
ANSWERS = (
    ("solve", *SMALL),
    ("solve", *SMALL, "--pareto", "--objective=cost"),
    ("check", EXAMPLE, *LAYOUT),
    ("memory", EXAMPLE, *LAYOUT),
    ("ledger", EXAMPLE, *LAYOUT),
    ("models", "list"),
    ("models", "show", "deepseek-v3"),
    ("hardware", "list"),
    ("hardware", "show", "h100"),
    ("topology", "show", "8x8xH100"),
)


@pytest.mark.parametrize("command", ANSWERS, ids=lambda c: " ".join(c[:2]))
def test_every_format(command: tuple[str, ...]) -> None:
    table = run(*command, "--format", "table")
    assert table.exit_code == 0, table.output
    assert table.stdout.strip()
    assert "\x1b" not in table.stdout
    json.loads(run(*command, "--format", "json").stdout)
    lines = run(*command, "--format", "jsonl").stdout.splitlines()
    assert lines
    rows = list(csv.DictReader(io.StringIO(run(*command, "--format", "csv").stdout)))
    assert len(rows) == len(lines)
    assert set(rows[0]) >= set(json.loads(lines[0]))
    assert re.search(r"^\| ", run(*command, "--format", "md").stdout, re.MULTILINE)


def test_color_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" in run("models", "list", "--color", "always").stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" not in run("models", "list", "--color", "never").stdout


def test_columns_that_say_nothing_are_left_out_at_any_width_and_when_piped() -> None:
    forms = (("--width", "110"), ("--width", "300"), ("--format", "md"), ())
    texts = [run("solve", *SMALL, *form).stdout for form in forms]
    assert not any(" VPP " in text.split("Plans\n")[1].split("µB")[0] for text in texts)
    tables = [text.split("Plans\n")[1].split("\n\n")[0] for text in texts]
    shown = [set(re.findall(r"[0-9.]+", table)) for table in tables]
    assert all(one == shown[0] for one in shown)
    assert " VPP " in run("solve", *SMALL, "--min", "vpp=2", "--min", "pp=2").stdout


@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize("command", [ANSWERS[0], *ANSWERS[2:-1]], ids=lambda c: " ".join(c[:2]))
def test_no_line_is_longer_than_the_width(command: tuple[str, ...], width: int) -> None:
    """All but drawings, which cannot be wrapped: the front and the tree."""
    result = run(*command, "--width", str(width))
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= width


def test_notes_go_to_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("memory", *LAYOUT)
    assert "packaged example" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert run("memory", *LAYOUT, "-q").stderr == ""
    Path("shardplan.yaml").write_text(Path(EXAMPLE).read_text().replace(
        "llama3-70b/config.json", "llama3-8b"))  # fmt: skip
    result = run("memory", *LAYOUT)
    assert "./shardplan.yaml" in result.stderr
    assert "llama3-8b" in result.stdout


def test_flags_replace_values_of_the_file() -> None:
    flags = ("--model=llama3-8b", "--cluster=4x8xA100", "--price=1.25", "--deadline=30d",
             "--budget=50k", "--precision=fp16", "--seq-len=2048", "--max-comm=0.3",
             "--cost-model=textbook", "--charge-recompute", "--mfu=45%")  # fmt: skip
    result = run("check", EXAMPLE, *LAYOUT[:1], "tp=8", *flags, "--format", "json")
    problem = json.loads(result.stdout)["problem"]
    assert problem["model"]["name"] == "llama3-8b"
    assert problem["cluster"]["gpu"] == "a100-80gb-sxm"
    assert problem["cluster"]["nodes"] == 4
    assert problem["cluster"]["price"]["usd_per_gpu_hour"] == 1.25
    assert problem["limits"]["deadline"] == "2592000.0s"
    assert problem["limits"]["budget"] == 50_000
    assert problem["training"]["precision"] == "fp16"
    assert problem["training"]["seq_len"] == 2048
    assert problem["training"]["tokens"] == 100_000_000_000
    assert problem["limits"]["max_comm"] == 0.3
    assert (problem["cost_model"], problem["charge_recompute"], problem["mfu"]) == (
        "textbook", True, 0.45,
    )  # fmt: skip


def test_the_resolved_problem_is_a_problem_file() -> None:
    data = json.loads(run("solve", *SMALL, "--format", "json").stdout)
    again = problem_data(parse_problem(json.dumps(data["problem"])))
    assert again == data["problem"]


def test_json_of_a_plan() -> None:
    data = json.loads(run("solve", *SMALL, "--format", "json").stdout)
    assert data["schema"] == "shardplan.plan/1"
    assert re.fullmatch("[0-9a-f]{64}", data["problem_sha256"])
    assert {a["field"] for a in data["assumptions"]} >= {"cluster.usable_memory", "cluster.intra"}
    assert data["plans"][0]["rank"] == 1
    assert data["recommended"] in {plan["rank"] for plan in data["plans"]}
    schema = json.loads(run("schema", "plan").stdout)
    assert set(schema["required"]) == set(data)
    assert set(schema["properties"]) == set(data)


def test_json_is_byte_identical_under_three_hash_seeds() -> None:
    runs = [
        shell("solve", *SMALL, "--pareto", "--format", "json", PYTHONHASHSEED=seed)
        for seed in ("0", "1", "4242")
    ]
    assert [r.returncode for r in runs] == [0, 0, 0], runs[0].stderr
    assert len({r.stdout for r in runs}) == 1
    assert list(json.loads(runs[0].stdout)) == sorted(json.loads(runs[0].stdout))


def test_stats_hold_the_times_and_the_plan_does_not(tmp_path: Path) -> None:
    stats, plan = tmp_path / "stats.json", tmp_path / "plan.json"
    run("solve", *SMALL, "--stats", str(stats), "-o", str(plan))
    assert set(json.loads(stats.read_text())) == {"import_s", "solve_s", "certificate"}
    assert "solve_s" not in plan.read_text()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "least wall-clock time"),
        (("--objective=cost",), "least cost"),
        (("--objective=time,gpus",), "least wall-clock time, then fewest GPUs"),
        (("--objective=gpus",), "fewest GPUs, then least wall-clock time"),
    ],
)
def test_the_objective_is_named(flags: tuple[str, ...], said: str) -> None:
    result = run("solve", *SMALL, "--stages=even", *flags)
    assert re.search(rf"^Objective +{said}$", result.stdout, re.MULTILINE)


def test_an_unmeasured_gpu_is_marked() -> None:
    flags = (*SMALL, "--cluster=1x8xMI300X")
    assert "unmeasured" in run("solve", *flags).stdout
    assert json.loads(run("solve", *flags, "--format", "json").stdout)["measured"] is False
    assert "unmeasured" in run("hardware", "show", "mi300x").stdout
    assert "unmeasured" in run("topology", "show", "1x8xMI300X").stdout


def test_the_front_is_drawn() -> None:
    out = run("solve", *SMALL, "--pareto").stdout
    assert "Pareto front" in out
    assert "step s (both axes logarithmic)" in out


@pytest.mark.parametrize(("whole", "of"), [(True, "run, days"), (False, "step s")])
def test_the_front_is_drawn_in_the_units_of_the_table(whole: bool, of: str) -> None:
    small = [flag for flag in SMALL if whole or "tokens" not in flag]
    text = run("solve", *small, "--stages=even", "--pareto").stdout
    assert f"{of} (both axes logarithmic)" in text
    assert "run s" not in text
    top, bottom = re.findall(r"^ *([\d.,]+) │", text.rpartition("logarithmic")[2], re.MULTILINE)
    assert float(top) >= float(bottom)
    assert float(top) < 1 if whole else float(top) > 1


def test_the_cheapest_plan_stands_beside_the_fastest() -> None:
    assert "Fastest" in run("solve", *SMALL, "--objective=cost").stdout


def test_a_config_becomes_a_model_section() -> None:
    text = run("models", "import", CONFIG).stdout
    assert yaml.safe_load(text)["model"]["hidden"] == 8192
    problem = text + "cluster: 8x8xH100\ntraining: {seq_len: 4096, global_batch: 1024seq}\n"
    assert parse_problem(problem).job.transformer.parameters().total == 70_553_706_496


def test_graphs() -> None:
    root = ET.fromstring(run("topology", "show", "2x8xH100", "--format", "graphml").stdout)
    space = "{http://graphml.graphdrawing.org/xmlns}"
    assert len([n for n in root.iter(f"{space}node") if n.get("id", "").startswith("gpu_")]) == 16
    dot = run("topology", "show", "2x8xH100", "--format", "dot").stdout
    assert dot.startswith("graph ")
    assert dot.count("450 GB/s") == 16


def test_the_ledger_prints_the_exercise() -> None:
    layout = "dp=64,zero=3,recompute=full"
    out = run("ledger", EXAMPLE, "--model", "seed-70b", "--layout", layout).stdout
    for figure in ("17.5 GB", "1.76e+18 FLOP", "69.6 s", "413 GB", "8.27 s", "1120.0 GB"):
        assert figure in out
    assert "CL-08" in out
    assert "RF-06" in out
