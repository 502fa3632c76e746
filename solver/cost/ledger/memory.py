"""Memory and decision-tree sections of the ledger."""

from __future__ import annotations

from .. import textbook_variants as variants
from ..decision_tree import DecisionPath, Typical, memory_order
from ..textbook import ACTIVATION_BYTES, RECOMPUTED_ACTIVATION_BYTES
from ..textbook_estimate import TextbookEstimate
from ..textbook_inputs import TextbookInputs
from .line import CHAPTER, FRAMEWORK, Line, written


def memory_lines(inputs: TextbookInputs, figures: TextbookEstimate) -> tuple[Line, ...]:
    """Model state, activations, total and verdict of the fullest GPU."""
    section, layout, job = "memory", inputs.layout, inputs.job
    psi, d = written(figures.parameters_local), layout.shard
    state = {
        0: f"16·ψ = 16 × {psi}",
        1: f"4·ψ + 12·ψ/d = 4 × {psi} + 12 × {psi} / {d}",
        2: f"2·ψ + 14·ψ/d = 2 × {psi} + 14 × {psi} / {d}",
        3: f"16·ψ/d = 16 × {psi} / {d}",
    }[layout.zero]
    per_layer, symbols = f"{written(ACTIVATION_BYTES)}", "34·s·b·h/t"
    divisor = f" / {layout.tp}"
    if layout.recompute == "full":
        per_layer, symbols = f"{written(RECOMPUTED_ACTIVATION_BYTES)}", "2·s·b·h/t"
    elif not layout.sequence_parallel:
        per_layer, symbols, divisor = f"(10 + 24/{layout.tp})", "s·b·h·(10 + 24/t)", ""
    kept = (
        f"{symbols}·L_stage·p = {per_layer} × {written(job.seq_len)} × {layout.micro_batch} × "
        f"{written(inputs.shape.hidden)}{divisor} × {written(figures.stage_layers)} × {layout.pp}"
    )
    room = (
        f"capacity·(1 - headroom) = {written(inputs.machine.capacity_bytes)} × "
        f"(1 - {written(inputs.limits.mem_headroom)})"
    )
    return (
        Line(
            section,
            "parameters per GPU group, ψ",
            f"P/(t·p) = {written(inputs.shape.parameters)} / ({layout.tp} × {layout.pp})",
            figures.parameters_local,
            "parameters",
            CHAPTER,
        ),
        Line(section, f"model state, ZeRO-{layout.zero}", state, figures.state_bytes, "B", CHAPTER),
        Line(section, "activations", kept, figures.activation_bytes, "B", CHAPTER),
        Line(section, "total", "state + activations", figures.memory_bytes, "B", CHAPTER),
        Line(section, "room", room, figures.room_bytes, "B", FRAMEWORK),
        Line(
            section,
            "verdict",
            f"{written(figures.memory_bytes)} against {written(figures.room_bytes)}",
            "fits" if figures.fits else "does not fit",
            "",
            CHAPTER,
        ),
    )


def table_lines(inputs: TextbookInputs, figures: TextbookEstimate) -> tuple[Line, ...]:
    """List the planner framework's memory table for ψ parameters, before any ZeRO sharding."""
    section, psi = "memory, planner framework's table (unsharded)", figures.parameters_local
    job, shape, mbs = inputs.job, inputs.shape, inputs.layout.micro_batch
    lines = []
    for precision, size in variants.FRAMEWORK_BYTES.items():
        name, plain = (
            precision.upper(),
            f"params × {written(size)} = {written(psi)} × {written(size)}",
        )
        weights = float(variants.framework_weight_bytes(psi, precision))
        gradients = float(variants.framework_gradient_bytes(psi, precision))
        lines.append(Line(section, f"weights, {name}", plain, weights, "B", FRAMEWORK))
        lines.append(Line(section, f"gradients, {name}", plain, gradients, "B", FRAMEWORK))
    adam = float(variants.framework_adam_bytes(psi))
    lines.append(
        Line(section, "Adam m + v", f"params × 4 × 2 = {written(psi)} × 8", adam, "B", FRAMEWORK)
    )
    activations = float(
        variants.framework_activation_bytes(job.seq_len, mbs, shape.hidden, shape.layers)
    )
    formula = (
        f"seq_len × batch × hidden × layers × 2 = {written(job.seq_len)} × {mbs} × "
        f"{written(shape.hidden)} × {written(shape.layers)} × 2"
    )
    lines.append(Line(section, "activations, estimate", formula, activations, "B", FRAMEWORK))
    return tuple(lines)


def measure_lines(inputs: TextbookInputs) -> tuple[Line, ...]:
    """List the planner framework's order of measures where memory runs out."""
    return tuple(
        Line(
            "measures in the planner framework's order",
            name,
            "fits" if fits else "does not fit",
            need,
            "B",
            FRAMEWORK,
        )
        for name, need, fits in memory_order(inputs)
    )


def tree_lines(path: DecisionPath, row: Typical | None) -> tuple[Line, ...]:
    """List the decision tree's questions, its suggestion, and the typical table's row beside it."""
    section = "decision tree"
    lines = [
        Line(section, step.question, step.reason, f"{step.answer}: {step.action}", "", FRAMEWORK)
        for step in path.steps
    ]
    tree = f"TP {path.tp}, PP {path.pp}, DP {path.dp}, {path.sharding}"
    held = "" if path.holds else " (does not fit)"
    lines.append(Line(section, "the tree suggests", "", tree + held, "", FRAMEWORK))
    if row is not None:
        table = f"TP {row.tp}, PP {row.pp}, DP {row.dp}, {row.sharding}"
        label = "its typical table agrees" if table == tree else "its typical table differs"
        lines.append(Line(section, label, f"{row.name} on {row.gpus:,}", table, "", FRAMEWORK))
    return tuple(lines)
