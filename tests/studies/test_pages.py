"""Pages: whole, without network or script, safe against names, small."""

from __future__ import annotations

import base64
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.cli.running import EXAMPLE, run

FIGURES = ("plans by time and cost", "memory of a GPU by stage", "parts of a step",
           "pipeline timeline")  # fmt: skip
QUICK = "--no-sensitivity"
VOID = {"meta", "link", "br", "img", "input", "hr", "wbr"}


class Page(HTMLParser):
    """Collects elements, and raises where they do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.inside.append(data)


def checked(text: str) -> Page:
    """Hold a page against what every page must keep."""
    page = Page(text)
    assert len(text.encode()) <= 1_000_000
    scripts = [attrs for tag, attrs in page.tags if tag == "script"]
    assert [s.get("type") for s in scripts] == ["application/json"]
    for _, attrs in page.tags:
        assert not any(name.startswith("on") for name in attrs)
        for name in ("src", "href", "action", "data"):
            assert (attrs.get(name) or "data:").startswith("data:")
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    return page


@pytest.fixture(scope="module")
def seventy(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "plan.json"
    assert run("solve", EXAMPLE, "--pareto", "-o", str(path)).exit_code == 0
    return str(path)


def test_the_page_of_70b_on_64_gpus(seventy: str, tmp_path: Path) -> None:
    target = tmp_path / "r.html"
    assert run("report", seventy, QUICK, "--html", str(target)).exit_code == 0
    text = target.read_text()
    page = checked(text)
    drawn = {attrs.get("aria-label") for tag, attrs in page.tags if tag == "svg"}
    assert drawn == set(FIGURES)
    data = json.loads("".join(page.inside))
    assert data == json.loads(Path(seventy).read_text())
    for word in ("over a limit", "skypilot", "Taken, not given", "Solver", "recommended"):
        assert word in text
    picture = next(attrs["src"] or "" for tag, attrs in page.tags if tag == "img")
    assert "NVLink" in base64.b64decode(picture.partition(",")[2]).decode()
    again = run("report", seventy, QUICK)
    assert again.stdout == text
    checks = [run("check", file, "--format", "json").stdout for file in (str(target), seventy)]
    assert checks[0] == checks[1] != ""


def test_a_front_that_would_swell_the_page_is_drawn_but_not_embedded(
    seventy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solver.report.html.plan_page.MOST_EMBEDDED", 2)
    text = run("report", seventy, QUICK).stdout
    data = json.loads("".join(checked(text).inside))
    whole = json.loads(Path(seventy).read_text())
    assert len(whole["front"]) > 2
    assert data["front"] == []
    assert data["plans"] == whole["plans"]
    assert data["notes"] == ["the front's 6 plans are in the plan JSON; this page draws them"]


def test_flip_points_are_added_where_asked_for(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    small = ("--model=llama3-8b", "--cluster=1x8xH100", "--seq-len=4096", "--global-batch=64seq")
    assert run("solve", *small, "--stages=even", "-o", str(plan)).exit_code == 0
    assert "<h2>Flip points</h2>" not in run("report", str(plan), QUICK).stdout
    text = run("report", str(plan), "--flips").stdout
    checked(text)
    assert "<h2>Flip points</h2>" in text
    assert "<h2>Sensitivity</h2>" in text
    assert "best of all layouts with evenly spread layers" in text


def test_rejected_plans_say_which_limit_they_break(seventy: str) -> None:
    text = run("report", seventy, QUICK).stdout
    titles = re.findall(r"<g><title>([^<]*)</title><path class=\"bad\"", text)
    assert titles
    assert all(re.search(r"(memory|communication|bubble): ", title) for title in titles)


def test_a_mixed_cluster_is_named_whole(tmp_path: Path) -> None:
    problem, plan = tmp_path / "mixed.yaml", tmp_path / "plan.json"
    problem.write_text(
        "model: llama3-8b\ncluster:\n  groups:\n"
        "    - {nodes: 1, gpus_per_node: 8, gpu: h100-80gb-sxm, price: 2.5}\n"
        "    - {nodes: 1, gpus_per_node: 4, gpu: a100-80gb-sxm, price: 1.2}\n"
        "training: {seq_len: 4096, global_batch: 64seq}\nsearch: {stages: even}\n"
    )
    solved = run("solve", str(problem), "-o", str(plan), "--width=500")
    assert solved.exit_code == 0
    page = run("report", str(plan), QUICK).stdout
    assert "llama3-8b on 8 × NVIDIA H100 SXM5 80GB + 4 × NVIDIA A100 SXM4 80GB</h1>" in page
    stars = re.findall(r"(?:NVLink|usable) [\d.]+ (?:GB/s|GiB)[*]", solved.stdout)
    assert len(stars) == 4
    assert all(star in page for star in stars)
    for said in (solved.stdout, page):
        assert "profile megatron-core/h100 + megatron-core/a100 · expected error" in said


def test_hostile_names_are_text(tmp_path: Path) -> None:
    name = "</script><script>alert(1)</script>\"'&" + "x" * 10_000
    plan = tmp_path / "plan.json"
    small = ("--model=llama3-8b", "--cluster=1x8xH100", "--seq-len=4096", "--global-batch=64seq")
    assert run("solve", *small, "--tokens=1B", "--price=2", "-o", str(plan)).exit_code == 0
    data = json.loads(plan.read_text())
    data["problem"]["model"]["name"] = name
    data["problem"]["cluster"]["name"] = "<script>'\""
    data["notes"] = ["<b>" + "y" * 10_000]
    plan.write_text(json.dumps(data))
    result = run("report", str(plan), QUICK)
    assert result.exit_code == 0, result.stderr
    page = checked(result.stdout)
    assert "<script>alert" not in result.stdout
    assert json.loads("".join(page.inside))["problem"]["model"]["name"] == name


def test_the_page_of_a_sweep(tmp_path: Path) -> None:
    base = tmp_path / "base.yaml"
    base.write_text(
        "model: llama3-8b\ncluster: {gpu: h100, nodes: 1, price: 2}\n"
        "training: {seq_len: 4096, global_batch: 64seq, tokens: 1B}\n"
        "scenarios: {'<script>': {training.seq_len: 2048}, plain: {training.seq_len: 4096}}\n"
        "sweep: {cluster.nodes: [1, 2, 4], model: [llama2-7b, llama3-70b]}\n"
    )
    store = str(tmp_path / "s.sqlite")
    assert run("sweep", str(base), "-o", store, "--engine=serial").exit_code == 0
    result = run("report", store)
    page = checked(result.stdout)
    drawn = [attrs.get("aria-label") for tag, attrs in page.tags if tag == "svg"]
    cost = "cost of the fastest plan, USD"
    both = (f"{cost} over cluster.nodes and model", f"{cost} along cluster.nodes: model llama2-7b")
    assert drawn == [name for name in both for _ in range(2)]  # for much room and for little
    assert 'class="bad"' in result.stdout  # 70B does not fit one node
    assert len(json.loads("".join(page.inside))["points"]) == 12


def test_a_sweep_names_its_objective(tmp_path: Path) -> None:
    base = tmp_path / "base.yaml"
    base.write_text(
        "model: llama3-8b\ncluster: {gpu: h100, nodes: 1, price: 2}\n"
        "training: {seq_len: 4096, global_batch: 64seq, tokens: 1B}\n"
        "scenarios: {fast: {training.tokens: 1B}, frugal: {objective.minimise: cost}}\n"
    )
    nodes = "--vary=cluster.nodes=1,2"
    quickly, cheaply = "least wall-clock time", "least cost"
    for asked, aim, figure in (
        (["--scenario=fast", nodes], quickly, "cost of the fastest plan, USD: "),
        (["--scenario=frugal", nodes], cheaply, "least cost, USD: "),
        ([nodes], f"{quickly} or {cheaply}", "least cost, USD: "),
        (["--scenario=fast", "--vary=objective=time,cost"], f"{quickly} or {cheaply}",
         "least cost, USD: "),
    ):  # fmt: skip
        store = str(tmp_path / f"{len(list(tmp_path.iterdir()))}.sqlite")
        result = run("sweep", str(base), *asked, "-o", store, "--engine=serial")
        assert result.exit_code == 0, result.stderr
        assert re.search(rf"Objective +{aim}\n", result.stdout)
        page = run("report", store).stdout
        assert f"<dt>Objective</dt><dd>{aim}</dd>" in page
        assert figure in page


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    wrong = tmp_path / "plan.json"
    wrong.write_text('{"schema": "shardplan.plan/1", "plans": 3}')
    result = run("report", str(wrong))
    assert result.exit_code == 2
    assert "is damaged" in result.stderr


def test_a_plan_that_cannot_be_is_refused(seventy: str, tmp_path: Path) -> None:
    data = json.loads(Path(seventy).read_text())
    data["plans"][1]["layout"]["pp"] = 3
    wrong = tmp_path / "plan.json"
    wrong.write_text(json.dumps(data))
    result = run("report", str(wrong), QUICK)
    assert result.exit_code == 2
    assert "plans[1]: is damaged" in result.stderr


def test_a_problem_file_holds_no_plan() -> None:
    result = run("report", EXAMPLE)
    assert result.exit_code == 2
    assert "holds no plan" in result.stderr
    assert "solve -o" in result.stderr


@pytest.mark.parametrize("form", ["png", "svg"])
def test_plots(seventy: str, tmp_path: Path, form: str) -> None:
    pytest.importorskip("matplotlib")
    files = [tmp_path / f"{n}.{form}" for n in range(2)]
    for file in files:
        assert run("report", seventy, "--plot", str(file)).exit_code == 0
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_plot_of_plans_names_them(seventy: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "p.svg"
    assert run("report", seventy, "--plot", str(file)).exit_code == 0
    drawn = file.read_text()
    for said in ("llama3-70b on 64 × NVIDIA H100 SXM5 80GB", "wall-clock time, days", "cost, USD",
                 "best plan", "Pareto front", "64 GPUs"):  # fmt: skip
        assert f">{said}<" in drawn


def test_a_plot_of_a_sweep_has_the_lines_of_its_page(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    base, store, file = (tmp_path / name for name in ("base.yaml", "s.sqlite", "s.svg"))
    base.write_text(
        "model: llama3-8b\ncluster: {gpu: h100, nodes: 1, price: 2000}\n"
        "training: {seq_len: 4096, global_batch: 64seq, tokens: 100B}\n"
        "sweep: {model: [llama3-8b, llama2-7b], cluster.nodes: [1, 2]}\n"
    )
    assert run("sweep", str(base), "-o", str(store), "--engine=serial").exit_code == 0
    assert run("report", str(store), "--plot", str(file)).exit_code == 0
    drawn = file.read_text()
    for said in ("cluster.nodes", "cost of the fastest plan, USD", "model llama3-8b",
                 "model llama2-7b"):  # fmt: skip
        assert f">{said}<" in drawn
    assert "1e6" not in drawn
    assert re.search(r">[456],[05]00,000<", drawn)
    # Nothing along a line: the points by name.
    assert run("sweep", str(base), "--vary=model=llama3-8b,llama2-7b", "-o", str(store),
               "--engine=serial").exit_code == 0  # fmt: skip
    assert run("report", str(store), "--plot", str(file)).exit_code == 0
    assert ">model llama3-8b<" in file.read_text()


def test_a_missing_extra_says_both_ways_to_install_it(
    seventy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("report", seventy, "--plot", str(tmp_path / "p.svg"))
    assert result.exit_code == 2
    assert 'pip install "shardplan[plot]", or in the sources pip install ".[plot]"' in result.stderr
