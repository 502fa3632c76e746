"""Whether the layout predicted fastest is the one that ran fastest.

``python benchmarks/regret.py --runs CSV [--profile STACK] [--json FILE]``

Groups of measured runs that differ in their layout only: one model, GPU count, batch, sequence,
precision and software. Of several runs of one layout the median counts. Measured differences under
2 % are ties: they neither count for nor against the order.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from solver.calibration.rows import RefusedError, Row, read_rows
from solver.calibration.runs import predict, run_of

TIE = 0.02
"""Relative difference of measured steps below which two layouts are equally fast."""
LEAST_LAYOUTS = 3
SAME = (
    "model", "n_gpu", "gpus", "global_batch_seqs", "seq_len", "n_precision", "n_fp8_recipe",
    "n_stack", "n_stack_version", "n_layers", "n_hidden", "n_heads", "n_cuda_graph",
    "n_moe_dispatcher", "n_token_drop", "n_task", "intra_gb_per_s", "inter_gb_per_s_per_gpu",
)  # fmt: skip
"""What the runs of a group share."""
LAYOUT = (
    "n_tp", "n_pp", "n_vpp", "n_cp", "n_ep", "n_etp", "n_sp", "micro_batch", "n_zero",
    "n_state_shard_ranks", "n_recompute", "n_recompute_modules", "n_schedule", "n_layer_split",
    "n_offload",
)  # fmt: skip
"""What makes two runs of a group different layouts."""


@dataclass(frozen=True)
class Measured:
    """One layout of a group, seconds a step."""

    id: str
    measured_s: float
    predicted_s: float


def groups_of(
    path: Path, profile: str | None
) -> tuple[dict[tuple[str, ...], list[Measured]], list[dict[str, str]]]:
    """Price every row; return the groups of enough layouts, and the refused rows."""
    found: dict[tuple[str, ...], dict[tuple[str, ...], list[Measured]]] = defaultdict(
        lambda: defaultdict(list)
    )
    refused: list[dict[str, str]] = []
    for number, values in enumerate(read_rows(path), start=2):
        row = Row(values)
        try:
            run = run_of(values, profile)
            one = Measured(run.id, run.measured_s, predict(run))
        except RefusedError as why:
            refused.append({"row": str(number), "reason": str(why)})
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as why:
            reason = f"not priced: {type(why).__name__} {why}"[:160]
            refused.append({"row": str(number), "reason": reason})
        else:
            group = tuple(_plain(row, name) for name in SAME)
            found[group][tuple(_plain(row, name) for name in LAYOUT)].append(one)
    chosen = {
        key: [_middle(runs) for runs in layouts.values()]
        for key, layouts in found.items()
        if len(layouts) >= LEAST_LAYOUTS
    }
    return chosen, refused


def _plain(row: Row, name: str) -> str:
    return row.text(name, name.removeprefix("n_")).removesuffix(".0").lower()


def _middle(runs: list[Measured]) -> Measured:
    """Return the median of several runs of one layout."""
    ids = "+".join(sorted(run.id for run in runs))
    return Measured(ids, median(r.measured_s for r in runs), median(r.predicted_s for r in runs))


def regret(layouts: Sequence[Measured]) -> float:
    """Return what the predicted best loses against the measured best; ties lose nothing."""
    chosen = min(layouts, key=lambda one: (one.predicted_s, one.measured_s))
    loss = chosen.measured_s / min(one.measured_s for one in layouts) - 1
    return 0.0 if loss < TIE else loss


def tau(layouts: Sequence[Measured]) -> float | None:
    """Return Kendall's tau over the pairs that differ; None where none does."""
    score, pairs = 0, 0
    for a, b in combinations(layouts, 2):
        if abs(a.measured_s - b.measured_s) < TIE * min(a.measured_s, b.measured_s):
            continue
        pairs += 1
        order = (a.predicted_s - b.predicted_s) * (a.measured_s - b.measured_s)
        score += (order > 0) - (order < 0)
    return score / pairs if pairs else None


def report(
    groups: dict[tuple[str, ...], list[Measured]], refused: list[dict[str, str]]
) -> dict[str, Any]:
    """Print the groups and the summary line; return them as data."""
    rows: list[dict[str, Any]] = []
    click.echo(f"{'group':<64}{'layouts':>8}{'regret %':>10}{'tau':>7}")
    for key, layouts in sorted(groups.items()):
        name = " ".join(part for part in key[:8] if part)
        loss, order = regret(layouts), tau(layouts)
        rows.append({"group": name, "layouts": len(layouts), "regret": loss, "tau": order})
        shown = "      -" if order is None else f"{order:>7.2f}"
        click.echo(f"{name[:63]:<64}{len(layouts):>8}{100 * loss:>10.1f}{shown}")
    losses = [float(r["regret"]) for r in rows]
    orders = [float(r["tau"]) for r in rows if r["tau"] is not None]
    mean = sum(losses) / len(losses) if losses else 0.0
    order = sum(orders) / len(orders) if orders else 0.0
    click.echo(
        f"largest regret {100 * max(losses, default=0.0):.1f} %, rows refused {len(refused)}"
    )
    click.echo(f"groups={len(rows)} top1_regret={100 * mean:.2f} tau={order:.3f}")
    overall = {
        "groups": len(rows), "top1_regret": 100 * mean, "tau": order,
        "worst_regret": 100 * max(losses, default=0.0), "refused": len(refused),
    }  # fmt: skip
    return {"overall": overall, "groups": rows, "refused": refused}


@click.command()
@click.option("--runs", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True)
@click.option("--profile", help="stack whose profile prices every row; default: the row's stack")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path))
def main(runs: Path, profile: str | None, json_file: Path | None) -> None:
    """Compare the predicted with the measured order of layouts."""
    result = report(*groups_of(runs, profile))
    if json_file:
        json_file.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
