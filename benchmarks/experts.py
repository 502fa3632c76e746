"""What experts ran, against the search: is it inside, which limit refuses it, is it ever beaten.

``python benchmarks/experts.py --runs CSV [--json FILE]`` (columns of the table of published runs).
Of the runs that share model, GPUs, batch, precision and stack, the fastest measured one is the
experts' choice. For each, on the same GPUs with the same software: whether its layout is a shape of
the search, or which limit of the defaults leaves it out; and whether the solver's plan is predicted
to be at least as fast. Last line ``n=… inside=… limit=… outside=… slower=… within10=… refused=…``.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.regret import SAME
from solver.calibration.rows import RefusedError, Row, read_rows
from solver.calibration.runs import Run, column_of, model_of, predict, run_of
from solver.cost.calibrated import Calibrated
from solver.cost.ticks import TICK_S
from solver.job.job import Limits
from solver.job.search import Search
from solver.search.best_first import Clock, Searcher, Tally
from solver.search.cpsat.factory import SolverSettings
from solver.search.instance import LIMIT_NAMES, Instance
from solver.search.pricing import NEVER, Priced
from solver.search.space import build_space

DEGREES = ("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "micro_batch")
CLOSE = 0.10
ROUNDING = 1e-6
"""A plan that is slower by less than a tick of its own is as fast."""


@dataclass(frozen=True)
class Verdict:
    """One expert layout: where it stands, and both predictions in seconds a step."""

    id: str
    layout: str
    where: str
    measured_s: float
    predicted_s: float
    solver_s: float | None

    @property
    def beaten(self) -> bool:
        """Whether the solver's plan is predicted at least as fast."""
        return self.solver_s is not None and self.solver_s <= self.predicted_s * (1 + ROUNDING)

    @property
    def error(self) -> float:
        """Relative error of the prediction."""
        return self.predicted_s / self.measured_s - 1


def experts(path: Path) -> tuple[list[Run], int]:
    """Return the fastest run of each group, and how many rows were refused."""
    best: dict[tuple[str, ...], Run] = {}
    refused = 0
    for values in read_rows(path):
        row = Row(values)
        try:
            run = run_of(values)
        except RefusedError:
            refused += 1
            continue
        key = tuple(row.text(name, default="") for name in SAME)
        if key not in best or run.measured_s < best[key].measured_s:
            best[key] = run
    return list(best.values()), refused


def judge(run: Run) -> Verdict:
    """Look for a run's layout in the search, and for a faster plan."""
    gpus = int(run.shapes.gpus[0])
    search = Search(gpus=gpus, micro_batch=None, stages="even")
    cost = Calibrated(run.job, run.group, Limits(), search, run.profile)
    instance = Instance(run.job, run.group, Limits(), search, cost)
    s = run.shapes.row(0)
    layout = " ".join(f"{name}{s[name]}" for name in DEGREES if s[name] > 1)
    where = position(instance, run)
    best = fastest(instance)
    return Verdict(run.id, layout, where, run.measured_s, predict(run), best)


def contains(instance: Instance, run: Run) -> bool:
    """Whether a run's degrees are a shape of the space."""
    shapes, s = build_space(instance).shapes, run.shapes.row(0)
    same = [getattr(shapes, name) == s[name] for name in DEGREES]
    return bool(np.logical_and.reduce(same).any()) if len(shapes) else False


def position(instance: Instance, run: Run) -> str:
    """Say ``inside``, the limits that leave the layout out, or ``outside``."""
    if not contains(instance, run):
        for name in ("bubble", "tp_within_node", "max_stages"):
            if contains(instance.without(name), run):
                return name
        loose = instance.without(*LIMIT_NAMES)
        return "several limits" if contains(loose, run) else "outside"
    model = model_of(run)
    tables = model.tables(run.shapes, stages=run.stages)
    column = column_of(run, tables.shardings)
    sent, compute = tables.communication[0, 0, column], tables.compute[0]
    if tables.memory[0, :, 0, column].max() > instance.cost.capacity_mib:
        return "memory"
    return "communication" if sent > instance.limits.max_comm * compute else "inside"


def fastest(instance: Instance) -> float | None:
    """Return the proven least step in seconds; None where nothing keeps the limits."""
    space = build_space(instance)
    priced = Priced.of(instance, space.shapes)
    searcher = Searcher(instance, priced, SolverSettings(), Clock(60.0), Tally())
    found = searcher.best(np.flatnonzero(searcher.bounds < NEVER), NEVER)
    return None if found.best is None else found.best.step * TICK_S


def report(verdicts: list[Verdict], refused: int) -> dict[str, Any]:
    """Count the verdicts."""
    where = Counter(v.where for v in verdicts)
    inside = [v for v in verdicts if v.where == "inside"]
    return {
        "n": len(verdicts),
        "inside": where["inside"],
        "limit": sum(count for name, count in where.items() if name not in ("inside", "outside")),
        "outside": where["outside"],
        "slower": sum(not v.beaten for v in inside),
        "within10": sum(abs(v.error) <= CLOSE for v in verdicts),
        "refused": refused,
        "where": dict(sorted(where.items())),
        "rows": [{**v.__dict__, "error": round(v.error, 4), "beaten": v.beaten} for v in verdicts],
    }


@click.command()
@click.option("--runs", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--match", default="", help="Only rows whose id holds this.")
@click.option("--json", "target", type=click.Path(path_type=Path))
def main(runs: Path, match: str, target: Path | None) -> None:
    """Judge every expert layout."""
    started = time.perf_counter()
    chosen, refused = experts(runs)
    verdicts = [judge(run) for run in chosen if match in run.id]
    found = report(verdicts, refused)
    for v in verdicts:
        solver = "      –" if v.solver_s is None else f"{v.solver_s:7.2f}"
        print(f"{v.id[:44]:44} {v.layout[:44]:44} {v.where:15} measured {v.measured_s:8.2f} "
              f"predicted {v.predicted_s:8.2f} ({v.error:+.1%}) solver {solver}")  # fmt: skip
    print(f"where: {found['where']}; {time.perf_counter() - started:.0f} s")
    if target is not None:
        target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    names = ("n", "inside", "limit", "outside", "slower", "within10", "refused")
    print(" ".join(f"{name}={found[name]}" for name in names))


if __name__ == "__main__":
    main()
