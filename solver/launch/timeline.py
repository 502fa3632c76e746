"""``trace``: one step of a plan as a timeline for Chrome's and Perfetto's viewers.

The events are those of the schedule's simulation, so that what is shown is what was estimated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from topology.errors import InputError, Problem

from ..cost.schedule import spared_seconds
from ..cost.simulate import Event, Piece, Timeline, simulate
from ..cost.simulate_split import simulate_split
from ..job.job import PlanningProblem
from ..plan import Plan
from .stage_seconds import Pass, StageSeconds, stage_seconds

TRACE_SCHEMA = "shardplan.trace/1"
COMPUTE, TRAFFIC = 0, 1
"""Lanes of a stage."""
LANES = {COMPUTE: "compute", TRAFFIC: "exposed communication"}
IN_FLIGHT = "micro-batches in flight"
DRAIN = "gradients and optimizer"
MICROSECONDS = 1e6
MOST_PIECES = 200_000
"""Passes that are drawn; a viewer takes about ten times as many events."""


@dataclass(frozen=True, slots=True)
class Step:
    """A simulated step and its closed form.

    Attributes
    ----------
    timeline, stages
        Passes, and what they are made of.
    vpp, microbatches
        Virtual stages and micro-batches that were simulated.
    closed_form_s
        (m - 1/v) · slowest + sum / v, less what a schedule spares of the fill, and the longest
        drain. No less than the simulation for stages as transformers have them (docs/launch.md has
        the range); where some stages hardly forward and others hardly backward, it can be.
    """

    timeline: Timeline
    stages: tuple[StageSeconds, ...]
    vpp: int
    microbatches: int
    closed_form_s: float

    @property
    def simulated_s(self) -> float:
        """When the last stage has drained, counted as the closed form does."""
        return self.timeline.makespan_s + max(stage.drain_s for stage in self.stages)

    @property
    def bubble(self) -> float:
        """Idle share of the busiest stage while the pipeline runs."""
        busy = max(self.timeline.busy_s(stage) for stage in range(len(self.stages)))
        return 1 - busy / self.timeline.makespan_s


def simulate_plan(problem: PlanningProblem, plan: Plan, microbatches: int | None = None) -> Step:
    """Simulate a step of a plan.

    Parameters
    ----------
    problem, plan
        What was solved.
    microbatches
        In place of the plan's, e.g. a few to look at.

    Raises
    ------
    InputError
        SP108 where an interleaved schedule does not divide them, SP109 for too many.
    """
    layout = plan.layout
    count = microbatches or plan.batch.microbatches
    if layout.vpp > 1 and count % layout.pp:
        message = f"{count} is no multiple of pp {layout.pp}, as interleaving needs."
        hint = f"Use {-(-count // layout.pp) * layout.pp}."
        raise InputError(Problem("--microbatches", 0, 0, "", "SP108", message, hint))
    each = 2 if plan.options.schedule == "1f1b" else 3
    pieces = each * count * layout.vpp * layout.pp
    if pieces > MOST_PIECES:
        message = f"{count} micro-batches are {pieces:,} passes, more than {MOST_PIECES:,}."
        hint = f"Use --microbatches {4 * layout.pp}."
        raise InputError(Problem("--microbatches", 0, 0, "", "SP109", message, hint))
    return simulate_stages(stage_seconds(problem, plan), layout.vpp, count)


def simulate_stages(stages: tuple[StageSeconds, ...], vpp: int, microbatches: int) -> Step:
    """Simulate a step of given stages."""
    forward = [stage.forward.total_s for stage in stages]
    backward = [stage.backward.total_s for stage in stages]
    late = [stage.weight.total_s for stage in stages if stage.weight is not None]
    if late:
        timeline = simulate_split(forward, backward, late, microbatches)
    else:
        timeline = simulate(forward, backward, vpp, microbatches)
    drain = max(stage.drain_s for stage in stages)
    return Step(
        timeline, stages, vpp, microbatches, _closed_form(stages, vpp, microbatches) + drain
    )


def _closed_form(stages: Sequence[StageSeconds], vpp: int, microbatches: int) -> float:
    """Return what ``solver.cost.schedule.pipeline_grains`` says, before rounding."""
    pp, count = np.array(len(stages)), np.array(microbatches)
    late = [stage.weight.total_s if stage.weight is not None else 0.0 for stage in stages]
    passes = [(stage.forward.total_s + stage.backward.total_s) for stage in stages]
    each = np.array([first + last for first, last in zip(passes, late, strict=True)])
    spared = 0.0 * each
    if any(late):
        least = np.array([stage.least_s for stage in stages])
        spared = spared_seconds(pp, count, np.array(late), least)
    fill = each / vpp - spared
    return float((microbatches * each - fill).max() + fill.sum())


def trace(step: Step) -> dict[str, Any]:
    """Return a step in the trace event format: times in microseconds, a process a stage."""
    events = [*_names(len(step.stages)), *_passes(step), *_counters(step), *_drains(step)]
    events += _arrows(step)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "schema": TRACE_SCHEMA,
            "microbatches": step.microbatches,
            "simulated_s": step.simulated_s,
            "closed_form_s": step.closed_form_s,
            "simulated_bubble": step.bubble,
        },
    }


def _names(stages: int) -> Iterator[dict[str, Any]]:
    for stage in range(stages):
        yield _meta(stage, COMPUTE, "process_name", {"name": f"stage {stage}"})
        yield _meta(stage, COMPUTE, "process_sort_index", {"sort_index": stage})
        for lane, name in LANES.items():
            yield _meta(stage, lane, "thread_name", {"name": name})


def _meta(stage: int, lane: int, name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "pid": stage, "tid": lane, "ts": 0, "name": name, "args": args}


def _pass_of(step: Step, event: Event) -> Pass:
    stage = step.stages[event.stage]
    if event.piece.weight and stage.weight is not None:
        return stage.weight
    return (stage.backward if event.piece.backward else stage.forward).scaled(1 / step.vpp)


def _passes(step: Step) -> Iterator[dict[str, Any]]:
    """Draw each pass: its compute, then what it waits for."""
    for event in step.timeline.events:
        piece, parts = event.piece, _pass_of(step, event)
        letter, kind = _kind(piece)
        name = f"{letter}{piece.microbatch}"
        args = {"microbatch": piece.microbatch, "chunk": piece.chunk}
        ends = [event.start_s + parts.compute_s]
        yield _slice(event.stage, COMPUTE, (name, kind), (event.start_s, ends[0]), args)
        for axis, seconds in parts.waits_s.items():
            if seconds > 0:
                ends.append(min(ends[-1] + seconds, event.end_s))
                span = (ends[-2], ends[-1])
                yield _slice(event.stage, TRAFFIC, (axis.upper(), "communication"), span, args)


def _kind(piece: Piece) -> tuple[str, str]:
    """Return the letter and the name of a pass."""
    if piece.weight:
        return "W", "weight gradients"
    return ("B", "backward") if piece.backward else ("F", "forward")


def _slice(
    stage: int, lane: int, label: tuple[str, str], span: tuple[float, float], args: dict[str, Any]
) -> dict[str, Any]:
    name, kind = label
    start, end = (seconds * MICROSECONDS for seconds in span)
    return {
        "ph": "X", "pid": stage, "tid": lane, "ts": start, "dur": max(end - start, 0.0),
        "name": name, "cat": kind, "args": args,
    }  # fmt: skip


def _counters(step: Step) -> Iterator[dict[str, Any]]:
    """Count the chunks that a stage holds, from the start of forward to the end of all backward."""
    split = any(event.piece.weight for event in step.timeline.events)
    for stage in range(len(step.stages)):
        mine = [event for event in step.timeline.events if event.stage == stage]
        changes = [(e.start_s, 1) for e in mine if not e.piece.backward]
        changes += [(e.end_s, -1) for e in mine if e.piece.backward and e.piece.weight == split]
        held = 0
        for when, change in sorted(changes):
            held += change
            yield {
                "ph": "C", "pid": stage, "tid": COMPUTE, "ts": when * MICROSECONDS,
                "name": IN_FLIGHT, "args": {"chunks": held},
            }  # fmt: skip


def _drains(step: Step) -> Iterator[dict[str, Any]]:
    """Draw gradients and optimizer after the last pass of a stage."""
    for stage, seconds in enumerate(step.stages):
        last = max(event.end_s for event in step.timeline.events if event.stage == stage)
        if seconds.drain_s > 0:
            span = (last, last + seconds.drain_s)
            yield _slice(stage, COMPUTE, (DRAIN, "drain"), span, {})


def _arrows(step: Step) -> Iterator[dict[str, Any]]:
    """Draw what each pass hands to the next virtual stage, where that is another stage."""
    events = {(event.stage, event.piece): event for event in step.timeline.events}
    pp = len(step.stages)
    for number, (event, after) in enumerate(_handed(step.timeline.events, events, pp, step.vpp)):
        kind = "gradients" if event.piece.backward else "activations"
        shared = {"id": number, "name": kind, "cat": "p2p", "tid": COMPUTE}
        # An arrow starts inside the slice that it leaves: its compute, not its very end.
        inside = event.start_s + _pass_of(step, event).compute_s / 2
        yield {**shared, "ph": "s", "pid": event.stage, "ts": inside * MICROSECONDS}
        yield {
            **shared, "ph": "f", "bp": "e", "pid": after.stage, "ts": after.start_s * MICROSECONDS,
        }  # fmt: skip


def _handed(
    order: Sequence[Event], events: dict[tuple[int, Piece], Event], pp: int, vpp: int
) -> Iterator[tuple[Event, Event]]:
    for event in order:
        piece = event.piece
        if piece.weight:  # nothing waits for it
            continue
        place = piece.chunk * pp + event.stage + (-1 if piece.backward else 1)
        if pp > 1 and 0 <= place < pp * vpp:
            chunk, stage = divmod(place, pp)
            yield event, events[stage, Piece(piece.backward, chunk, piece.microbatch)]
