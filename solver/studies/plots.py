"""PNG and SVG figures through matplotlib, the extra ``plot``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from topology.errors import InputError, Problem
from topology.units import DAY

from ..report.html.sweep_charts import measure_of
from ..report.stored import read_result
from .aims import fastest
from .store import read_store
from .store_file import is_store
from .sweep import stored_sweep

DOTS_PER_INCH = 150
INCHES = (8.0, 5.0)


def plot_of(path: str, target: str) -> None:
    """Draw the plans of a plan JSON by time and cost, or a sweep's best plans point by point.

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
        hint = 'pip install "shardplan[plot]"'
        message = "matplotlib is not installed."
        raise InputError(Problem("--plot", 0, 0, "", "SP119", message, hint)) from None
    matplotlib.use("Agg")
    # The same input gives the same bytes.
    matplotlib.rcParams["svg.hashsalt"] = "shardplan"
    from matplotlib import figure  # noqa: PLC0415

    drawn = figure.Figure(figsize=INCHES, layout="constrained")
    if is_store(path):
        _sweep(drawn.subplots(), path)
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
    result = read_result(path)
    plans = (*result.plans, *result.front)
    priced = all(plan.cost.usd is not None for plan in plans)
    for plan in plans:
        best = plan is plans[0]
        cost = plan.cost.usd if priced else plan.gpus
        axes.scatter(plan.cost.wall_clock_s / DAY, cost, color="C2" if best else "C0",
                     s=80 if best else 30)  # fmt: skip
    axes.set(xlabel="wall-clock time, days", ylabel="cost, USD" if priced else "GPUs")


def _sweep(axes: Any, path: str) -> None:
    store = read_store(path)
    result = stored_sweep(store)
    store.close()
    measure = measure_of(result.rows, fastest(result.spec))
    found = ((i, measure.of(row)) for i, row in enumerate(result.rows))
    places = [(i, value) for i, value in found if value is not None]
    if places:
        axes.plot(*zip(*places, strict=True), ".")
    axes.set(xlabel="point", ylabel=measure.name)
