"""Figures of a plan: scatter of plans, memory of the stages, parts of a step, pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from topology.offers import KINDS
from topology.units import GB, show_bytes, show_seconds, show_usd

from ...cost.simulate import simulate
from ...cost.simulate_split import simulate_split
from ...estimate import Stage
from ...plan import Plan
from ..cells import gigabytes
from .drawing import BOTTOM, LEFT, RIGHT, TOP, WIDTH, Scale, axes, box, key, svg, words
from .page import text

ITEMS = ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "reserve")
SHAPES = ("●", "■", "▲")
"""Of the kinds of price in a scatter that has several."""
MOST_MICROBATCHES = 32
"""Micro-batches of the timeline; more would be too narrow to see."""
FORWARD, FORWARD_RECOMPUTED = 1 / 3, 1 / 4
"""Share of a micro-batch that is forward: backward takes twice as long, three times with full
recomputation (Narayanan et al. 2021, arXiv 2104.04473, section 3)."""


@dataclass(frozen=True)
class Dot:
    """A plan in a scatter: ``kind`` is best, feasible or infeasible; ``why`` shows on hover.

    ``price`` is the kind of its price, which chooses the shape where there are several.
    """

    seconds: float
    usd: float | None
    gpus: int
    kind: str
    why: str
    price: str = ""


def scatter(dots: Sequence[Dot]) -> str:
    """Draw wall-clock time against cost, or against GPUs where no price is known."""
    if not dots:
        return ""
    priced = all(d.usd is not None for d in dots)
    cost = [d.usd if d.usd is not None else float(d.gpus) for d in dots]
    x = Scale([d.seconds for d in dots], LEFT, WIDTH - RIGHT)
    y = Scale(cost, 330, TOP + 20)
    kinds = [kind for kind in KINDS if any(dot.price == kind for dot in dots)]
    marks = []
    for dot, value in sorted(zip(dots, cost, strict=True), key=lambda pair: pair[0].kind == "best"):
        mark = _mark(dot, kinds, x.at(dot.seconds), y.at(value))
        marks.append(f"<g><title>{text(dot.why)}</title>{mark}</g>")
    show = show_usd if priced else lambda v: f"{v:,.0f}"
    frame = axes(x, y, ("wall-clock time", "cost" if priced else "GPUs"), (show_seconds, show))
    names = [("fc", "best"), ("fa", "feasible"), ("fe", "over a limit (hover: which)")]
    if len(kinds) > 1:
        said = ", ".join(f"{SHAPES[n]} {kind}" for n, kind in enumerate(kinds))
        frame += words(WIDTH - RIGHT, TOP + 12, said, "end", "dim")
    return svg(410, "plans by time and cost", frame, *marks, key(names, 400))


def _mark(dot: Dot, kinds: Sequence[str], x: float, y: float) -> str:
    """Draw a cross, or a circle; a square and a triangle for the second and third kind of price."""
    if dot.kind == "infeasible":
        return f'<path class="bad" d="M{x - 5:.1f} {y - 5:.1f}l10 10m-10 0l10 -10"/>'
    color, size = ("fc", 8) if dot.kind == "best" else ("fa", 5)
    shape = kinds.index(dot.price) if dot.price in kinds else 0
    if shape == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" class="{color}"/>'
    corner, side = f"M{x - size:.1f} {y + size:.1f}", 2 * size
    path = f"h{side}v-{side}h-{side}z" if shape == 1 else f"h{side}l-{size} -{side}z"
    return f'<path class="{color}" d="{corner}{path}"/>'


def memory_bars(plan: Plan) -> str:
    """Draw what fills a GPU of each kind of stage, against limit and usable memory."""
    stages = plan.estimate.stages
    most = max(max(s.memory.usable_bytes, s.memory.total_bytes) for s in stages)
    x = Scale([0.0, most], 200, WIDTH - RIGHT, zero=True)
    parts, y = [], TOP
    for stage in stages:
        parts.append(words(190, y + 22, _stage_name(stage), "end"))
        start = 0.0
        for number, name in enumerate(ITEMS):
            size = getattr(stage.memory, f"{name}_bytes")
            width = x.at(start + size) - x.at(start)
            title = f"{name}: {show_bytes(size)}"
            if size > 0:
                parts.append(box(x.at(start), y, width, 32, f"f{'abcdefgh'[number]}", title))
            start += size
        for kind, size in (
            ("limit", stage.memory.limit_bytes),
            ("axis", stage.memory.usable_bytes),
        ):
            parts.append(f'<path class="{kind}" d="M{x.at(size):.1f} {y - 3}v38"/>')
        y += 48
    for value in x.ticks():
        parts.append(words(x.at(value), y + 8, f"{value / GB:,.0f} GB", "middle", "dim"))
    parts.append(key([(f"f{'abcdefgh'[n]}", name) for n, name in enumerate(ITEMS)], y + 36, 30))
    return svg(y + 65, "memory of a GPU by stage", *parts)


def _stage_name(stage: Stage) -> str:
    last = stage.index + stage.count - 1
    if stage.count == 1:
        return f"stage {stage.index} ({stage.layers} layers)"
    if stage.name in ("light", "heavy"):
        return f"{stage.count} {stage.name} stages ({stage.layers} layers)"
    return f"stages {stage.index}–{last} ({stage.layers} layers)"


def step_waterfall(plan: Plan) -> str:
    """Draw what a step is made of, one part after the other."""
    time = plan.estimate.time
    exposed = [
        (f"{axis.upper()} communication", part.exposed_s, f"of {show_seconds(part.total_s)} in all")
        for axis, part in sorted(time.communication.items())
    ]
    rows = [
        ("compute", time.compute_s, ""), ("recompute", time.recompute_s, ""), *exposed,
        ("pipeline bubble", time.bubble_s, ""), ("optimizer", time.optimizer_s, ""),
        ("overhead", time.overhead_s, ""),
    ]  # fmt: skip
    rows = [row for row in rows if row[1] > 0]
    x = Scale([0.0, time.step_s], 220, WIDTH - 120, zero=True)
    parts, y, start = [], TOP, 0.0
    for number, (name, seconds, note) in enumerate(rows):
        left, width = x.at(start), x.at(start + seconds) - x.at(start)
        share = f"{show_seconds(seconds)} ({seconds / time.step_s:.1%})"
        parts += [
            words(210, y + 16, name, "end"),
            box(
                left, y, max(width, 1.5), 22, f"f{'abcdefgh'[number % 8]}", f"{name} {share} {note}"
            ),
            words(min(left + width + 6, WIDTH - 118), y + 16, share, "start", "dim"),
        ]
        start += seconds
        y += 30
    parts.append(words(210, y + 18, "step", "end"))
    parts.append(box(x.at(0), y + 2, x.at(time.step_s) - x.at(0), 22, "fg"))
    parts.append(words(WIDTH - 114, y + 18, show_seconds(time.step_s)))
    return svg(y + 40, "parts of a step", *parts)


def stages_of(plan: Plan) -> list[Stage]:
    """Return the kind of every stage of the pipeline, first to last."""
    slots: list[Stage | None] = [None] * plan.layout.pp
    by_name = {stage.name: stage for stage in plan.estimate.stages}
    for stage in plan.estimate.stages:
        for place in range(stage.index, min(stage.index + stage.count, len(slots))):
            if slots[place] is None:
                slots[place] = stage
    fallback = by_name.get("heavy") or plan.estimate.stages[0]
    return [slot or fallback for slot in slots]


def timeline(plan: Plan) -> str:
    """Draw the pipeline's first micro-batches as the simulated schedule runs them."""
    stages, vpp = stages_of(plan), plan.layout.vpp
    if len(stages) == 1:
        return ""
    shown = min(plan.batch.microbatches, MOST_MICROBATCHES)
    if vpp > 1:
        shown = max(shown // len(stages), 1) * len(stages)
    forward = [s.microbatch_s * _forward(s) for s in stages]
    # What a stage spares is W, and up to W again as micro-batches fill the pipeline.
    again = (min(plan.batch.microbatches, len(stages)) - 1) / (len(stages) - 1)
    late = [s.spared_s / (1 + again) for s in stages]
    backward = [s.microbatch_s - f - w for s, f, w in zip(stages, forward, late, strict=True)]
    split = plan.options.schedule == "zb-h1"
    if split:
        run = simulate_split(forward, backward, late, shown)
    else:
        run = simulate(forward, backward, vpp, shown)
    x = Scale([0.0, run.makespan_s], LEFT, WIDTH - RIGHT, zero=True)
    height = 22 if len(stages) <= 16 else 12  # noqa: PLR2004 - what fits on a page
    parts = [
        words(
            LEFT - 8, TOP + number * (height + 3) + height * 0.75, f"stage {number}", "end", "dim"
        )
        for number in range(len(stages))
    ]
    paths: dict[str, list[str]] = {n: [] for n in ("fa", "fb", "ff", "fh", "fc", "fg")}
    for event in run.events:
        kind = ("fb", "fh") if event.piece.backward else ("fa", "ff")
        kind = ("fc", "fg") if event.piece.weight else kind
        y = TOP + event.stage * (height + 3)
        left, right = x.at(event.start_s), x.at(event.end_s)
        width = max(right - left - 0.6, 0.3)
        path = f"M{left:.1f} {y}h{width:.1f}v{height}h-{width:.1f}z"
        paths[kind[event.piece.microbatch % 2]].append(path)
    parts += [f'<path class="{kind}" d="{"".join(d)}"/>' for kind, d in paths.items() if d]
    bottom = TOP + len(stages) * (height + 3)
    for value in x.ticks():
        parts.append(words(x.at(value), bottom + 16, show_seconds(value), "middle", "dim"))
    names = [("fa", "forward"), ("fb", "backward"), ("ff", "forward, odd"), ("fh", "backward, odd")]
    if split:
        names += [("fc", "weight gradients"), ("fg", "weight gradients, odd")]
    return svg(bottom + BOTTOM, "pipeline timeline", *parts, key(names, bottom + 40))


def _forward(stage: Stage) -> float:
    return FORWARD_RECOMPUTED if stage.recompute == "full" else FORWARD


def peak_text(plan: Plan) -> str:
    """Say how full the fullest GPU is."""
    worst = max(plan.estimate.stages, key=lambda s: s.memory.fill).memory
    return f"{gigabytes(worst.total_bytes)} of {gigabytes(worst.limit_bytes)} GB, {worst.verdict}"
