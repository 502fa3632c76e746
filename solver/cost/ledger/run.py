"""Time and cost sections of the ledger."""

from __future__ import annotations

from ..textbook import RECOMPUTE_FACTOR
from ..textbook_estimate import TextbookEstimate
from ..textbook_inputs import TextbookInputs
from .line import CHAPTER, EXERCISE, FRAMEWORK, Line, written

PASSES = (("forward", 2), ("backward", 4), ("total", 6))
"""FLOPs per parameter and token (planner framework, step 4)."""


def time_lines(inputs: TextbookInputs, figures: TextbookEstimate) -> tuple[Line, ...]:
    """FLOPs of a step, compute at the utilisation, bubble, step, and what it realises."""
    section, layout, machine = "time", inputs.layout, inputs.machine
    parameters, tokens = written(inputs.shape.parameters), written(inputs.tokens_per_step)
    lines = [
        Line(
            section,
            f"FLOPs per step, {name}",
            f"{times}·P·tokens = {times} × {parameters} × {tokens}",
            float(times) * inputs.shape.parameters * inputs.tokens_per_step,
            "FLOP",
            FRAMEWORK,
        )
        for name, times in PASSES
    ]
    compute = (
        f"FLOPs/(GPUs·peak·MFU) = {written(figures.step_flops)} / ({layout.gpus} × "
        f"{written(machine.peak_flops)} × {written(inputs.job.mfu)})"
    )
    lines.append(Line(section, "compute", compute, figures.compute_seconds, "s", CHAPTER))
    charged = figures.recompute_factor * figures.compute_seconds
    if figures.recompute_factor > 1.0:
        formula = f"4/3·compute = {written(RECOMPUTE_FACTOR)} × {written(figures.compute_seconds)}"
        lines.append(Line(section, "compute with recomputation", formula, charged, "s", CHAPTER))
    m, v, idle = inputs.micro_batches, layout.vpp, layout.pp - 1
    bubble = f"(p-1)/(v·m + p-1) = {idle}/({v} × {m} + {idle})"
    step = (
        f"compute/(1 - bubble) + exposed TP and PP = {written(charged)} / "
        f"(1 - {written(figures.bubble)}) + {written(figures.exposed_seconds)}"
    )
    realised = (
        f"FLOPs/(step·GPUs·peak) = {written(figures.step_flops)} / "
        f"({written(figures.step_seconds)} × {layout.gpus} × {written(machine.peak_flops)})"
    )
    lines.append(Line(section, "pipeline bubble", bubble, figures.bubble, "share", EXERCISE))
    lines.append(Line(section, "step", step, figures.step_seconds, "s", EXERCISE))
    lines.append(Line(section, "realised MFU", realised, figures.realised_mfu, "share", CHAPTER))
    return tuple(lines)


def cost_lines(inputs: TextbookInputs, figures: TextbookEstimate) -> tuple[Line, ...]:
    """Training time both ways, GPU-hours and dollars; empty without a token count."""
    job, layout, machine = inputs.job, inputs.layout, inputs.machine
    if (
        job.tokens is None
        or figures.steps is None
        or figures.training_seconds is None
        or figures.wall_seconds is None
        or figures.gpu_hours is None
    ):
        return ()
    section = "training run"
    plain = (
        f"6·P·D/(GPUs·peak·MFU) = 6 × {written(inputs.shape.parameters)} × {written(job.tokens)} / "
        f"({layout.gpus} × {written(machine.peak_flops)} × {written(job.mfu)})"
    )
    steps = f"D/tokens = {written(job.tokens)} / {written(inputs.tokens_per_step)}"
    wall = f"steps × step = {written(figures.steps)} × {written(figures.step_seconds)}"
    hours = f"GPUs·s/3600 = {figures.held_gpus} × {written(figures.wall_seconds)} / 3600"
    lines = [
        Line(
            section, "time at the utilisation alone", plain, figures.training_seconds, "s", CHAPTER
        ),
        Line(section, "steps", steps, figures.steps, "steps", FRAMEWORK),
        Line(
            section,
            "time with bubble and exposed communication",
            wall,
            figures.wall_seconds,
            "s",
            EXERCISE,
        ),
        Line(section, "GPU-hours of whole nodes", hours, figures.gpu_hours, "GPU-h", FRAMEWORK),
    ]
    if figures.usd is not None and machine.usd_per_gpu_hour is not None:
        price = (
            f"GPU-h × price = {written(figures.gpu_hours)} × {written(machine.usd_per_gpu_hour)}"
        )
        lines.append(Line(section, "cost", price, figures.usd, "USD", FRAMEWORK))
    return tuple(lines)
