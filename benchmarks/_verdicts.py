"""Verdicts against outcomes: the confusion matrix and the figures that the benchmarks print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import click

from benchmarks._memory_rows import MemoryRun
from solver.cost.verdict import oom_probability, verdict
from solver.estimate import Verdict

Truth = Literal["fits", "tight", "oom"]
HEADROOM = 0.10
"""Share of the card that a plan leaves free; runs above the rest are tight."""
CHANCES = (0.0, 0.01, 0.1, 0.5, 0.9, 1.01)
"""Bounds of the groups in which predicted chances are held against outcomes."""
TRUTHS: tuple[Truth, ...] = ("fits", "tight", "oom")
VERDICTS: tuple[Verdict, ...] = ("fits", "tight", "out_of_memory")


@dataclass(frozen=True)
class Judged:
    """One row's verdict beside what happened."""

    id: str
    truth: Truth
    verdict: Verdict
    share: float
    """Predicted need over the card's memory."""
    chance: float
    """Predicted chance of running out."""

    @property
    def right(self) -> bool:
        """Whether the run was told apart from the failures."""
        return (self.truth == "oom") == (self.verdict == "out_of_memory")


def judge(run: MemoryRun) -> Judged:
    """Judge a run's need against its card, and the measured peak by the same limit."""
    need, usable, measured = run.predicted_bytes("device"), run.usable_bytes, run.measured_bytes
    limit = usable * (1 - HEADROOM)
    truth: Truth = "oom" if run.outcome == "oom" else "fits"
    if truth == "fits" and measured is not None and measured > limit:
        truth = "tight"
    verdict_of = verdict(need, limit, usable, run.reclaimable_bytes)
    error = run.profile.memory.expected_error
    chance = oom_probability(need, usable, error, run.reclaimable_bytes)
    return Judged(run.id, truth, verdict_of, need / usable, chance)


def percent(part: int, whole: int) -> float:
    """Return a share in percent; 100 where there is nothing to find."""
    return 100.0 * part / whole if whole else 100.0


def rates(judged: Sequence[Judged]) -> dict[str, float]:
    """Return recall of failures and of tight runs, and the share of runs called failures."""
    failed = [j for j in judged if j.truth == "oom"]
    ran = [j for j in judged if j.truth != "oom"]
    tight = [j for j in judged if j.truth == "tight"]
    wrong = sum(j.verdict == "out_of_memory" for j in ran)
    return {
        "oom_recall": percent(sum(j.verdict == "out_of_memory" for j in failed), len(failed)),
        "false_oom": percent(wrong, len(ran)) if ran else 0.0,
        "tight_recall": percent(sum(j.verdict == "tight" for j in tight), len(tight)),
    }


def show_chances(judged: Sequence[Judged]) -> None:
    """Print how often runs failed, by the chance that was predicted."""
    click.echo(f"{'chance of running out':<22}{'n':>5}{'predicted %':>13}{'failed %':>10}")
    for least, most in pairwise(CHANCES):
        there = [j for j in judged if least <= j.chance < most]
        if there:
            mean = sum(j.chance for j in there) / len(there)
            failed = percent(sum(j.truth == "oom" for j in there), len(there))
            name = f"{100 * least:.0f} to {100 * min(most, 1):.0f} %"
            click.echo(f"{name:<22}{len(there):>5}{100 * mean:>13.1f}{failed:>10.1f}")


def show_together(judged: Sequence[Judged]) -> dict[str, float]:
    """Print the matrix and the rates over published rows and field cases together."""
    click.echo("published rows and field cases together")
    show(judged, misses=False)
    show_chances(judged)
    found = rates(judged)
    click.echo(
        f"together: oom_recall={found['oom_recall']:.1f} false_oom={found['false_oom']:.1f} "
        f"tight_recall={found['tight_recall']:.1f} n={len(judged)}\n"
    )
    return {**found, "n": len(judged)}


def show(judged: Sequence[Judged], *, misses: bool = True) -> dict[str, dict[str, int]]:
    """Print the confusion matrix, and which runs and failures were not told apart; return it."""
    table = {t: {v: 0 for v in VERDICTS} for t in TRUTHS}
    for j in judged:
        table[j.truth][j.verdict] += 1
    click.echo(f"{'measured / predicted':<22}" + "".join(f"{v:>15}" for v in VERDICTS))
    for truth, row in table.items():
        click.echo(f"{truth:<22}" + "".join(f"{n:>15}" for n in row.values()))
    for j in judged:
        if misses and not j.right:
            click.echo(f"  {j.id:<40}{j.truth} called {j.verdict} at {100 * j.share:.0f} %")
    return {str(t): {str(v): n for v, n in row.items()} for t, row in table.items()}
