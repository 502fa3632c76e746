"""Write docs/accuracy.md and its scatter plot from what the benchmarks measured.

``python benchmarks/accuracy_page.py DIR``: DIR holds the ``--json`` files of accuracy.py
(``fit.json``, ``family.json``, ``model.json``), calibration.py and regret.py.
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.accuracy import score
from benchmarks.scale import scale_table

DOCS = Path(__file__).resolve().parents[1] / "docs"
REASONS = Path(__file__).resolve().parent / "accuracy_reasons.yaml"
TEMPLATE = REASONS.with_name("accuracy_page.md")
WORST = 10
LEAST_ROWS = 8
"""Rows of a series from which its bias is stated."""
SIZE, MARGIN = 420, 40
LEAST_S, MOST_S = 0.1, 2000.0
COLOURS = {"megatron-core dense": "#1f77b4", "megatron-core moe": "#d62728"}
OTHER = "#7f7f7f"
CLASSES = {
    "Megatron-core, dense": ("megatron-core dense", "megatron-core-mlperf dense"),
    "Megatron-core, mixture of experts": ("megatron-core moe",),
    "classic Megatron": ("megatron-classic dense",),
    "Megatron-DeepSpeed": ("megatron-deepspeed dense",),
    "zero-bubble Megatron": ("zero-bubble-megatron dense",),
    "FSDP 1": ("fsdp1 dense",),
    "torchtitan": ("torchtitan dense",),
    "nanotron": ("nanotron dense",),
    "DeepSpeed ZeRO-3": ("deepspeed-zero3 dense",),
    "MaxText": ("maxtext dense",),
    "Meta's": ("meta dense",),
}
Rows = list[dict[str, Any]]


def errors(rows: Rows, classes: tuple[str, ...]) -> dict[str, float]:
    """Score the rows of some classes."""
    return score(row["error"] for row in rows if row["class"] in classes)


def class_table(parts: dict[str, Rows]) -> list[str]:
    """Errors by class, in sample and left out."""
    lines = [
        "| stack | rows | in sample | bias | family left out | model left out |",
        "|-|-|-|-|-|-|",
    ]
    every = tuple({row["class"] for row in parts["fit"]})
    for name, classes in {**CLASSES, "all": every}.items():
        fit, family, model = (errors(parts[k], classes) for k in ("fit", "family", "model"))
        lines.append(
            f"| {name} | {fit['n']} | {fit['mape']:.1f} % | {fit['bias']:+.1f} % | "
            f"{family['mape']:.1f} % | {model['mape']:.1f} % |"
        )
    return lines


def series_table(rows: Rows) -> list[str]:
    """Errors of each series of eight or more rows, in sample."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        found[row["series"]].append(row["error"])
    lines = ["| series | rows | error | bias |", "|-|-|-|-|"]
    for name, values in sorted(found.items()):
        s = score(values)
        if s["n"] >= 8:
            lines.append(f"| {name} | {s['n']} | {s['mape']:.1f} % | {s['bias']:+.1f} % |")
    return lines


def worst_table(rows: Rows) -> list[str]:
    """Rows with the largest errors, and why."""
    reasons = yaml.safe_load(REASONS.read_text("utf-8"))
    lines = ["| run | model | error | reason |", "|-|-|-|-|"]
    for row in sorted(rows, key=lambda r: -abs(r["error"]))[:WORST]:
        why = reasons.get(row["id"], "not known")
        lines.append(f"| {row['id']} | {row['model']} | {100 * row['error']:+.0f} % | {why} |")
    return lines


def calibration_table(table: dict[str, dict[str, float]]) -> list[str]:
    """What calibration gains on families left out."""
    lines = ["| family | runs | shipped | calibrated | profile kept |", "|-|-|-|-|-|"]
    for name, s in sorted(table.items()):
        lines.append(
            f"| {name} | {s['n']} | {s['before']:.1f} % | {s['after']:.1f} % | "
            f"{100 * s['kept']:.0f} % |"
        )
    return lines


def scatter(rows: Rows) -> str:
    """Predicted against measured, both logarithmic, as SVG."""

    def at(seconds: float) -> float:
        share = math.log(seconds / LEAST_S) / math.log(MOST_S / LEAST_S)
        return MARGIN + share * (SIZE - 2 * MARGIN)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIZE}" height="{SIZE}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{SIZE}" height="{SIZE}" fill="white"/>',
        f'<path d="M{MARGIN} {SIZE - MARGIN}L{SIZE - MARGIN} {MARGIN}" stroke="#bbb"/>',
    ]
    for tick in (0.1, 1, 10, 100, 1000):
        x, y = at(tick), SIZE - at(tick)
        parts.append(f'<text x="{x:.0f}" y="{SIZE - 24}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<text x="34" y="{y + 4:.0f}" text-anchor="end">{tick:g}</text>')
    parts.append(
        f'<text x="{SIZE / 2:.0f}" y="{SIZE - 8}" text-anchor="middle">measured step, s</text>'
    )
    parts.append(
        f'<text x="12" y="{SIZE / 2:.0f}" text-anchor="middle" '
        f'transform="rotate(-90 12 {SIZE / 2:.0f})">predicted, family left out, s</text>'
    )
    for row in rows:
        x = at(row["measured_s"])
        y = SIZE - at(row["measured_s"] * (1 + row["error"]))
        colour = COLOURS.get(row["class"], OTHER)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{colour}"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Write the page and the plot."""
    data = {
        name: json.loads((folder / f"{name}.json").read_text("utf-8"))
        for name in ("fit", "family", "model", "calibration", "regret")
    }
    parts: dict[str, Rows] = {k: data[k]["rows"] for k in ("fit", "family", "model")}
    refused = data["fit"]["refused"]
    reasons = sorted({row["reason"] for row in refused})
    page = TEMPLATE.read_text("utf-8").format(
        classes="\n".join(class_table(parts)),
        series="\n".join(series_table(parts["fit"])),
        scale="\n".join(scale_table(parts["fit"], parts["family"])),
        worst="\n".join(worst_table(parts["fit"])),
        calibration="\n".join(calibration_table(data["calibration"])),
        fit=data["fit"]["overall"],
        family=data["family"]["overall"],
        regret=data["regret"]["overall"],
        refused=len(refused),
        total=len(refused) + len(parts["fit"]),
        share=100 * len(refused) / (len(refused) + len(parts["fit"])),
        why="; ".join(reasons) or "none",
    )
    (DOCS / "accuracy.md").write_text(page, encoding="utf-8")
    (DOCS / "accuracy.svg").write_text(scatter(parts["family"]), encoding="utf-8")


if __name__ == "__main__":
    main()
