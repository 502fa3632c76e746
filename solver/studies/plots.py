"""PNG and SVG figures through matplotlib, the extra ``plot``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from topology.errors import InputError, Problem
from topology.faults import installing

from ..plan import Plan
from ..report.html.drawing import COLORS, Scale, plain
from ..report.html.line_charts import MOST_TICKS, Plot, plots, shown
from ..report.html.plan_page import plan_title
from ..report.html.scatter_chart import unit_of
from ..report.html.sweep_charts import Measure, Row, measure_of
from ..report.html.sweep_page import labels_of
from ..report.stored import read_problem_or_plan, read_result
from .aims import fastest
from .store import read_store
from .store_file import is_store
from .sweep import stored_sweep

DOTS_PER_INCH = 150
INCHES = (8.0, 5.0)
LEGEND_INCHES = 0.24
"""Height of a name in a legend."""
MOST_BARS, LONGEST = 30, 50
"""Points that are drawn as bars, and characters of the name of one."""


def plot_of(path: str, target: str) -> None:
    """Draw the plans of a plan JSON by time and cost, or the lines of a sweep's page.

    Raises
    ------
    InputError
        Where matplotlib is not installed, or the target is neither .png nor .svg.
    """
    if Path(target).suffix.lower() not in (".png", ".svg"):
        message = f"{target!r}: unknown form."
        raise InputError(Problem("--plot", 0, 0, "", "SP112", message, "Write .png or .svg."))
    try:
        import matplotlib  # noqa: PLC0415 - an extra
    except ImportError:
        hint = installing("plot")
        message = "matplotlib is not installed."
        raise InputError(Problem("--plot", 0, 0, "", "SP119", message, hint)) from None
    matplotlib.use("Agg")
    # The same input gives the same bytes.
    matplotlib.rcParams["svg.hashsalt"] = "shardplan"
    matplotlib.rcParams["svg.fonttype"] = "none"  # letters that can be searched and copied
    matplotlib.rcParams["text.parse_math"] = False  # a name may hold dollar signs
    from matplotlib import figure  # noqa: PLC0415

    drawn = figure.Figure(figsize=INCHES, layout="constrained")
    if is_store(path):
        _sweep(drawn, path)
    else:
        _plans(drawn.subplots(), path)
    kind = Path(target).suffix.lower().lstrip(".")
    stamp = {"Date": None} if kind == "svg" else {"Software": None}
    try:
        drawn.savefig(target, dpi=DOTS_PER_INCH, metadata=stamp)
    except OSError as error:
        message = f"cannot be written: {error.strerror or error}."
        raise InputError(Problem(target, 0, 0, "", "SP100", message)) from None


def _plans(axes: Any, path: str) -> None:
    """Draw the best plan, those of the front with their GPUs, and the others."""
    result = read_result(path)
    best = result.plans[:1]
    kinds = (("other plans", result.plans[1:], "C7", 25), ("Pareto front", result.front, "C0", 35),
             ("best plan", best, "C2", 80))  # fmt: skip
    plans = [plan for _, some, _, _ in kinds for plan in some]
    priced = all(plan.cost.usd is not None for plan in plans)
    unit, name = unit_of([plan.cost.wall_clock_s for plan in plans])

    def place(plan: Plan) -> tuple[float, float]:
        cost = plan.cost.usd if priced else None
        return plan.cost.wall_clock_s / unit, plan.gpus if cost is None else cost

    for said, some, color, size in kinds:
        if some:
            x, y = zip(*map(place, some), strict=True)
            axes.scatter(x, y, color=color, s=size, label=said)
    for at, gpus in {place(plan): plan.gpus for plan in (*result.front, *best)}.items():
        axes.annotate(f"{gpus:,} GPUs", at, xytext=(6, 6), textcoords="offset points")
    run = any(plan.cost.steps is not None for plan in plans)
    axes.set(xlabel=f"{'wall-clock time' if run else 'time of a step'}, {name}",
             ylabel="cost, USD" if priced else "GPUs")  # fmt: skip
    axes.set_title(plan_title(read_problem_or_plan(path, {}, {})), wrap=True)
    _readable(axes.yaxis)
    axes.margins(0.12)
    if plans:
        axes.legend()


def _sweep(drawn: Any, path: str) -> None:
    store = read_store(path)
    result = stored_sweep(store)
    store.close()
    columns = result.spec.columns
    measure = measure_of(result.rows, fastest(result.spec))
    found = shown(plots(result.rows, columns, measure))
    if not found:
        _bars(drawn.subplots(), result.rows, measure)
        return
    names = sum(len(plot.curves) for plot in found)
    drawn.set_size_inches(INCHES[0], (INCHES[1] - 1) * len(found) + LEGEND_INCHES * names)
    for axes, plot in zip(drawn.subplots(len(found), squeeze=False).flat, found, strict=True):
        _lines(axes, plot, measure)


def _lines(axes: Any, plot: Plot, measure: Measure) -> None:
    """Draw the lines of one figure; rings mark where the plan changes."""
    for curve in plot.curves:
        x, y, layouts = zip(*curve.known, strict=True)
        color = f"C{COLORS.index(curve.color)}"
        axes.plot(x, y, ".-", color=color, label=curve.name)
        changes = [n for n in range(1, len(x)) if layouts[n] != layouts[n - 1]]
        axes.plot(x, y, "o", color=color, mfc="none", ms=10, markevery=changes)
    axes.set(xlabel=plot.along, ylabel=measure.name)
    axes.set_title(plot.name or f"{measure.name} along {plot.along}", wrap=True)
    for axis, scale, values in (
        (axes.xaxis, axes.set_xscale, [a for c in plot.curves for a, _, _ in c.known]),
        (axes.yaxis, axes.set_yscale, [b for c in plot.curves for _, b, _ in c.known]),
    ):
        if Scale(values, 0, 1).log:
            scale("log")
        _readable(axis)
    places = sorted({a for curve in plot.curves for a, _, _ in curve.known})
    if len(places) <= MOST_TICKS:
        axes.set_xticks(places)
    # Below the figure, where it covers no line.
    axes.legend(fontsize="small", title="a ring: another plan than at the point before",
                loc="upper center", bbox_to_anchor=(0.5, -0.13))  # fmt: skip


def _bars(axes: Any, rows: Sequence[Row], measure: Measure) -> None:
    """Draw the first points with a plan as bars: nothing is varied along a line."""
    known = [(labels_of(row), value) for row in rows if (value := measure.of(row)) is not None]
    names, values = zip(*known[:MOST_BARS], strict=True) if known else ((), ())
    axes.barh(range(len(names)), values, tick_label=[name[:LONGEST] for name in names])
    axes.invert_yaxis()
    part = f": the first {MOST_BARS} of {len(known):,} points" if len(known) > MOST_BARS else ""
    axes.set(xlabel=measure.name, title=f"{measure.name}{part}")
    _readable(axes.xaxis)


def _readable(axis: Any) -> None:
    """Write numbers whole, without a power that stands apart; some on a logarithmic axis too."""
    from matplotlib import ticker  # noqa: PLC0415

    if axis.get_scale() == "log":
        axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: plain(value)))
