"""Figures of pages: scales, labels, tornado, launch files."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.report.html.drawing import NARROW, TICK_WIDTH, WIDE, Scale, key, words
from solver.report.html.launch_section import launch_section
from solver.report.html.scatter_chart import Dot, scatter, unit_of
from solver.report.html.sweep_charts import maps_of
from solver.report.html.tornado_chart import Bar, tornado
from solver.search.search import solve
from tests.search.helpers import problem


@given(
    st.lists(st.floats(1e-6, 1e12), min_size=1, max_size=20),
    st.floats(200, 1200),
    st.booleans(),
)
def test_ticks_lie_on_the_scale_and_apart(values: list[float], end: float, zero: bool) -> None:
    scale = Scale(values, 50, end, zero=zero)
    places = [scale.at(value) for value in scale.ticks(TICK_WIDTH)]
    assert len(places) >= 1
    assert all(49 <= place <= end + 1 for place in places)
    assert places == sorted(set(places))


def test_two_ticks_at_least_on_a_linear_scale() -> None:
    assert len(Scale([4.2, 5.9], 80, 340).ticks(TICK_WIDTH)) >= 2


def test_a_key_keeps_within_its_width() -> None:
    drawn, end = key([("fa", "a rather long name of a curve")] * 5, 20, NARROW)
    ends = [float(x) + 13 for x in re.findall(r'<rect x="([\d.]+)"', drawn)]
    assert max(ends) < NARROW
    assert end > 20 + 3 * 22


def test_words_are_cut_to_their_room() -> None:
    assert "…" in words(0, 0, "x" * 100, room=100)
    assert len(re.sub("<[^>]+>", "", words(0, 0, "x" * 100, room=100))) < 100 / 8


@pytest.mark.parametrize(
    ("seconds", "unit"), [(3e6, "days"), (4000, "hours"), (59, "seconds"), (0.5, "ms"), (0, "ms")]
)
def test_times_are_in_a_unit_that_they_fill(seconds: float, unit: str) -> None:
    assert unit_of([seconds])[1] == unit


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_only_plans_of_the_front_are_named(width: int) -> None:
    kinds = ("best", "front", "feasible", "infeasible")
    dots = [Dot(1e5 * n, 100.0 - n, 8 * n, kind, "<why>") for n, kind in enumerate(kinds, 1)]
    drawn = scatter(dots, "wall-clock time", width)
    assert re.findall(r">(\d+ GPUs)<", drawn) == ["8 GPUs", "16 GPUs"]
    assert "&lt;why&gt;" in drawn
    assert scatter([], "wall-clock time", width) == ""


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_tornado_draws_both_sides(width: int) -> None:
    bars = [Bar("GPUs", ("32", 1.0), ("128", -0.5)), Bar("memory", None, ("<30 %", None))]
    drawn = tornado(bars, width)
    for said in ("32: +100.0%", "128: −50.0%", "&lt;30 %: nothing fits"):
        assert said in drawn
    less, more = (
        tuple(map(float, re.findall(rf'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" '
                                    rf'height="13.0" class="{kind}"><title>', drawn)[0]))
        for kind in ("fa", "fb")
    )  # fmt: skip
    assert more[0] + more[1] == pytest.approx(less[0], abs=0.2)  # both start where nothing changes
    assert less[1] == pytest.approx(2 * more[1], abs=0.2)
    assert tornado([], width) == ""


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("length", [2, 20, 45])
def test_bars_of_a_tornado_point_the_way_of_their_sign(length: int, width: int) -> None:
    label = "x" * length
    bars = [Bar("GPUs, 64", (label, 0.978), (label, -0.494)), Bar("b", (label, 0.0), None)]
    drawn = tornado(bars, width)
    zero = float(re.findall(r'class="axis" d="M([\d.]+)', drawn)[0])
    found = re.findall(
        r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" class="f[ab]">'
        r"<title>.*: (.)[\d.]+%</title>",
        drawn,
    )
    assert [sign for *_, sign in found] == ["+", "−", "+"]
    for x, _, wide, _, sign in found:
        start, end = float(x), float(x) + float(wide)
        assert 0 <= start < end <= width
        assert start >= zero - 0.2 if sign == "+" else end <= zero + 0.2
    # A line of text above a bar ends before it begins.
    lines = [float(y) for y in re.findall(r'<text x="0.0" y="([\d.]+)"[^>]*>x', drawn)]
    assert all(base + 3 < float(bar[1]) for base, bar in zip(lines, found, strict=False))


def test_launch_files_are_those_of_export_and_refusals_say_why() -> None:
    asked = problem("llama3-8b", nodes=1, batch=64)
    html = launch_section(asked, solve(asked, top=1, explain=False).plans[0])
    assert "<summary>slurm: job.sbatch</summary>" in html
    assert "#SBATCH --nodes=1" in html
    assert "Targets without words for this plan" not in html
    staged = problem("llama3-70b", nodes=8)
    refused = launch_section(staged, solve(staged, top=1, explain=False).plans[0])
    assert "<summary>megatron: megatron.args</summary>" in refused
    assert re.search(r"Targets without words for this plan.*accelerate</dt>", refused)


def test_maps_are_drawn_as_far_as_a_page_holds_them() -> None:
    labels = [{"a": a, "b": b, "c": c} for a in range(30) for b in range(10) for c in range(10)]
    rows = [{"labels": label, "plan": {}} for label in labels]
    assert maps_of(rows, ("a", "b", "c")) == (16, 30)
    assert maps_of(rows, ("a",)) == (0, 0)
