"""Expected errors of the profiles: how far runs are missed that the fit has not seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from benchmarks._fit import Constant
from solver.calibration.runs import Run

LEAST_RUNS = 6
"""Runs, or groups of layouts, of a stack that say something of its own error."""


def expected_errors(runs: Sequence[Run], errors: npt.NDArray[np.float64]) -> list[Constant]:
    """Mean absolute errors by stack, of steps and of ratios of layouts; dense and with experts.

    ``errors`` are relative, of constants that never saw the run's family. Stacks with few runs take
    the figure of all.
    """
    found = []
    for suffix, mixture in (("", False), ("_moe", True)):
        chosen = [
            i for i, run in enumerate(runs) if (run.job.transformer.moe is not None) is mixture
        ]
        size: dict[str, list[float]] = defaultdict(list)
        for i in chosen:
            for owner in ("", runs[i].stack):
                size[owner].append(abs(float(errors[i])))
        between = _between(runs, errors, chosen)
        for name, table in (("expected_error", size), ("expected_difference", between)):
            for owner, values in sorted(table.items()):
                if not owner or len(values) >= LEAST_RUNS:
                    kind, value = ("stack" if owner else "shared"), float(np.mean(values))
                    found.append(Constant(kind, owner, name + suffix, value, 1.0, 0.0, 1.0))
    return found


def _between(
    runs: Sequence[Run], errors: npt.NDArray[np.float64], chosen: Sequence[int]
) -> dict[str, list[float]]:
    """Mean error of the ratio of two layouts, one figure a group of runs that share the problem."""
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for i in chosen:
        run = runs[i]
        software = run.profile.software
        key = (
            run.stack, run.labels["model"], run.labels["gpu"], run.labels["precision"],
            run.group.gpus, run.job.global_batch, run.job.seq_len, software.released,
            software.cuda_graphs, software.deduplicated, software.static_routing,
            software.fp8_scaling,
        )  # fmt: skip
        groups[key].append(i)
    found: dict[str, list[float]] = defaultdict(list)
    for rows in groups.values():
        pairs = [abs((1 + errors[a]) / (1 + errors[b]) - 1) for a, b in combinations(rows, 2)]
        if pairs:
            for owner in ("", runs[rows[0]].stack):
                found[owner].append(float(np.mean(pairs)))
    return found
