"""Figures of a plan: memory of the stages, parts of a step, pipeline."""

from __future__ import annotations

from itertools import accumulate

from topology.units import GB, show_bytes, show_seconds

from ...cost.simulate import Event, Timeline, simulate
from ...cost.simulate_split import simulate_split
from ...estimate import Stage
from ...plan import Plan
from ..cells import gigabytes
from ..plan_lines import INVISIBLE
from .drawing import GAP, SLIM, TICK_WIDTH, TOP, Scale, beside, box, key, plain, svg, words
from .scatter_chart import unit_of

ITEMS = ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "reserve")
MICROBATCHES = {False: 16, True: 6}
"""Micro-batches of the timeline, much room and little: more would be too narrow to see."""
FORWARD, FORWARD_RECOMPUTED = 1 / 3, 1 / 4
"""Share of a micro-batch that is forward: backward takes twice as long, three times with full
recomputation (Narayanan et al. 2021, arXiv 2104.04473, section 3)."""
BAR, ROW = 30, 46
"""Pixels of a bar, and from one to the next."""
ABOVE = 18
"""Pixels of a label above its bar."""
THIN, TALL, CROWDED = 12, 22, 16
"""Pixels of a stage of the timeline, from so many stages on and below."""


def memory_bars(plan: Plan, width: int) -> str:
    """Draw what fills a GPU of each kind of stage, against limit and usable memory."""
    stages = plan.estimate.stages
    most = max(max(s.memory.usable_bytes, s.memory.total_bytes) for s in stages)
    names = [f"{_stage_name(s)}: {gigabytes(s.memory.total_bytes)} GB" for s in stages]
    slim = width < SLIM
    x = Scale([0.0, most], 1 if slim else beside(names), width - 24, zero=True)
    parts, y = [], float(TOP)
    for stage, name in zip(stages, names, strict=True):
        if slim:
            parts.append(words(0, y + 10, name))
            y += ABOVE
        else:
            parts.append(words(x.start - 8, y + 20, name, "end"))
        parts += _memory_bar(stage, x, y)
        y += ROW
    for value in x.ticks(TICK_WIDTH):
        anchor = "middle" if value else "start"
        parts.append(words(x.at(value), y + 4, f"{value / GB:,.0f} GB", anchor, "dim"))
    kinds = [(f"f{'abcdefgh'[n]}", name) for n, name in enumerate(ITEMS)]
    legend, end = key([*kinds, ("fbad", "limit"), ("fink", "usable")], y + 34, width)
    return svg(width, end, "memory of a GPU by stage", *parts, legend)


def _memory_bar(stage: Stage, x: Scale, y: float) -> list[str]:
    parts, start = [], 0.0
    for number, name in enumerate(ITEMS):
        size = getattr(stage.memory, f"{name}_bytes")
        wide = x.at(start + size) - x.at(start)
        if size > 0:
            kind, title = f"f{'abcdefgh'[number]}", f"{name}: {show_bytes(size)}"
            parts.append(box(x.at(start), y, wide, BAR, kind, title))
        start += size
    for kind, size in (("limit", stage.memory.limit_bytes), ("edge", stage.memory.usable_bytes)):
        parts.append(f'<path class="{kind}" d="M{x.at(size):.1f} {y - 3:.1f}v{BAR + 6}"/>')
    return parts


def _stage_name(stage: Stage) -> str:
    last = stage.index + stage.count - 1
    if stage.count == 1:
        return f"stage {stage.index}, {stage.layers} layers"
    if stage.name in ("light", "heavy"):
        return f"{stage.count} inner stages, {stage.layers} layers"
    return f"stages {stage.index}–{last}, {stage.layers} layers"


def step_waterfall(plan: Plan, width: int) -> str:
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
    rows = [row for row in rows if row[1] > INVISIBLE * time.step_s]
    shares = [f"{show_seconds(s)} ({s / time.step_s:.1%})" for _, s, _ in rows]
    slim = width < SLIM
    left = 0 if slim else beside(name for name, _, _ in rows)
    x = Scale([0.0, time.step_s], left, width - (0 if slim else beside(shares)), zero=True)
    ends = list(accumulate(seconds for _, seconds, _ in rows))
    parts, y = [], float(TOP)
    rows.append(("step", time.step_s, ""))
    shares.append(show_seconds(time.step_s))
    for number, ((name, seconds, note), share, start) in enumerate(
        zip(rows, shares, [0.0, *ends[:-1], 0.0], strict=True)
    ):
        wide = max(x.at(start + seconds) - x.at(start), 1.5)
        at = min(x.at(start), width - 1.5)
        kind = "fg" if name == "step" else f"f{'abcdefh'[number % 7]}"
        if slim:
            parts += [words(0, y + 10, name), words(width, y + 10, share, "end", "dim")]
            y += ABOVE
        else:
            parts.append(words(left - 8, y + 16, name, "end"))
            parts.append(words(at + wide + 8, y + 16, share, "start", "dim"))
        parts.append(box(at, y, wide, TALL, kind, f"{name} {share} {note}"))
        y += TALL + 10
    return svg(width, y, "parts of a step", *parts)


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


def timeline(plan: Plan, width: int) -> str:
    """Draw the pipeline's first micro-batches as the simulated schedule runs them."""
    stages, vpp = stages_of(plan), plan.layout.vpp
    if len(stages) == 1:
        return ""
    shown = min(plan.batch.microbatches, max(MICROBATCHES[width < SLIM], len(stages)))
    if vpp > 1:
        shown = max(shown // len(stages), 1) * len(stages)
    run = _run(plan, stages, shown)
    names = [f"stage {number}" for number in range(len(stages))]
    unit, of = unit_of([run.makespan_s])
    x = Scale([0.0, run.makespan_s / unit], beside(names), width - GAP, zero=True)
    height = TALL if len(stages) <= CROWDED else THIN
    parts = [
        words(x.start - 8, TOP + n * (height + 3) + height * 0.75, name, "end", "dim")
        for n, name in enumerate(names)
    ]
    kinds = ("fa", "fa odd", "fb", "fb odd", "fc", "fc odd")
    paths: dict[str, list[str]] = {kind: [] for kind in kinds}
    for event in run.events:
        y = TOP + event.stage * (height + 3)
        left, right = x.at(event.start_s / unit), x.at(event.end_s / unit)
        wide = max(right - left - 0.6, 0.3)
        paths[_kind(event)].append(f"M{left:.1f} {y}h{wide:.1f}v{height}h-{wide:.1f}z")
    parts += [f'<path class="{kind}" d="{"".join(d)}"/>' for kind, d in paths.items() if d]
    bottom = TOP + len(stages) * (height + 3)
    for value in x.ticks(TICK_WIDTH):
        parts.append(words(x.at(value), bottom + 16, plain(value), "middle", "dim"))
    parts.append(words((x.start + x.end) / 2, bottom + 36, of, "middle"))
    passes = [("fa", "forward"), ("fb", "backward")]
    if plan.options.schedule == "zb-h1":
        passes.append(("fc", "weight gradients"))
    legend, end = key(passes, bottom + 62, width)
    return svg(width, end, "pipeline timeline", *parts, legend)


def _run(plan: Plan, stages: list[Stage], shown: int) -> Timeline:
    """Simulate the first micro-batches under the plan's schedule."""
    forward = [s.microbatch_s * _forward(s) for s in stages]
    # What a stage spares is W, and up to W again as micro-batches fill the pipeline.
    again = (min(plan.batch.microbatches, len(stages)) - 1) / (len(stages) - 1)
    late = [s.spared_s / (1 + again) for s in stages]
    backward = [s.microbatch_s - f - w for s, f, w in zip(stages, forward, late, strict=True)]
    if plan.options.schedule == "zb-h1":
        return simulate_split(forward, backward, late, shown)
    return simulate(forward, backward, plan.layout.vpp, shown)


def _kind(event: Event) -> str:
    color = "fc" if event.piece.weight else "fb" if event.piece.backward else "fa"
    return f"{color}{' odd' * (event.piece.microbatch % 2)}"


def _forward(stage: Stage) -> float:
    return FORWARD_RECOMPUTED if stage.recompute == "full" else FORWARD


def peak_text(plan: Plan) -> str:
    """Say how full the fullest GPU is."""
    worst = max(plan.estimate.stages, key=lambda s: s.memory.fill).memory
    return f"{gigabytes(worst.total_bytes)} of {gigabytes(worst.limit_bytes)} GB, {worst.verdict}"
