"""Figures of pages: scales, labels, tornado, launch files."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.report.html.drawing import (
    COLORS,
    LETTER,
    NARROW,
    TICK_WIDTH,
    WIDE,
    Scale,
    key,
    words,
)
from solver.report.html.launch_section import launch_section
from solver.report.html.line_charts import MOST_PLOTS, lines, plots, shown
from solver.report.html.scatter_chart import Dot, scatter, unit_of
from solver.report.html.style import STYLE
from solver.report.html.sweep_charts import maps_of, measure_of
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


SHADES = re.compile(r"--([a-h]): #([0-9a-f]{6})")
LEAST_APART = 20
"""CIE 1976 colour difference: two lines side by side are told apart from about 10 on."""


def lab(code: str) -> list[float]:
    """A colour of sRGB (IEC 61966-2-1) in CIE L*a*b*, white point D65."""
    linear = [v / 12.92 if (v := int(code[i : i + 2], 16) / 255) <= 0.04045
              else ((v + 0.055) / 1.055) ** 2.4 for i in (0, 2, 4)]  # fmt: skip
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    x, y, z = (
        (sum(a * b for a, b in zip(row, linear, strict=True)) / white) ** (1 / 3)
        for row, white in zip(rows, (0.9505, 1.0, 1.089), strict=True)
    )
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)]


def test_colours_of_lines_are_told_apart() -> None:
    found = SHADES.findall(STYLE)
    assert len(found) == 2 * len(COLORS)
    for theme in (found[: len(COLORS)], found[len(COLORS) :]):
        for (one, a), (other, b) in itertools.combinations(theme, 2):
            assert math.dist(lab(a), lab(b)) > LEAST_APART, (one, other)


def points(**fields: list[Any]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Points of a sweep with a plan each, whose cost grows."""
    rows = [
        {"labels": dict(zip(fields, values, strict=True)), "status": "optimal", "reason": None,
         "plan": {"usd": 1.0 + n, "layout": "tp=1", "wall_clock_s": 9.0, "step_s": 1.0}}
        for n, values in enumerate(itertools.product(*fields.values()))
    ]  # fmt: skip
    return rows, tuple(fields)


@pytest.mark.parametrize("models", [2, 3, 8])
@pytest.mark.parametrize("batches", [2, 4, 9])
def test_lines_are_drawn_for_every_value_of_the_first_field(models: int, batches: int) -> None:
    names = [f"m{n}" for n in range(models)]
    rows, columns = points(
        model=names, nodes=[1, 2, 4], net=["25GB/s", "50GB/s"], batch=list(range(batches))
    )
    measure = measure_of(rows, fastest=False)
    every = plots(rows, columns, measure)
    assert sum(len(plot.curves) for plot in every) == models * 2 * batches or batches > len(COLORS)
    drawn = shown(every)
    assert len(drawn) <= MOST_PLOTS
    for plot in drawn:
        legend = re.findall(r'<rect [^>]*height="13.0" class="f([a-h])"', lines(plot, measure, 358))
        assert len(legend) == len(set(legend)) == len(plot.curves) <= len(COLORS)
        assert len({curve.name for curve in plot.curves}) == len(plot.curves)
    said = " ".join([p.name for p in drawn] + [c.name for p in drawn for c in p.curves])
    assert all(f"model {name}" in said for name in names)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_names_of_a_key_are_whole_and_in_columns(width: int) -> None:
    names = [f"per_gpu {n}GB/s, seq_len 4096, global_batch {2**n}seq" for n in range(8)]
    drawn, end = key([("fa", name) for name in names], 20, width)
    texts = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)<', drawn)
    assert " ".join(said for *_, said in texts) == " ".join(names)
    assert all(float(x) + LETTER * len(said) <= width for x, _, said in texts)
    assert len({x for x, *_ in texts}) == (2 if width == WIDE else 1)
    assert end > max(float(y) for _, y, _ in texts)
