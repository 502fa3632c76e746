"""Communication sections of the ledger."""

from __future__ import annotations

from .. import textbook_variants as variants
from ..textbook import PARAMETER_BYTES, SHARD_WEIGHTS, Floats
from ..textbook_estimate import TextbookEstimate
from ..textbook_inputs import TextbookInputs
from .line import CHAPTER, EXERCISE, FRAMEWORK, Line, written


def _data_formula(inputs: TextbookInputs, figures: TextbookEstimate) -> str:
    d, psi = inputs.layout.shard, written(figures.parameters_local)
    times = 3 if inputs.layout.zero == SHARD_WEIGHTS else 2
    return f"{times}·(d-1)/d·2·P_local = {times} × {d - 1}/{d} × 2 × {psi}"


def communication_lines(inputs: TextbookInputs, figures: TextbookEstimate) -> tuple[Line, ...]:
    """Bytes that one GPU sends in a step by axis, the seconds, and their share of compute."""
    section, layout, job = "communication", inputs.layout, inputs.job
    hidden, t, m = inputs.shape.hidden, layout.tp, inputs.micro_batches
    replicas = layout.dp // layout.shard
    tensor = (
        f"4·L_stage·2·(t-1)/t·tokens·h·2 B = 4 × {written(figures.stage_layers)} × 2 × "
        f"{t - 1}/{t} × {written(inputs.tokens_per_step / layout.dp)} × {written(hidden)} × 2"
    )
    pipeline = (
        f"2·m·s·b·h·2 B/t = 2 × {m} × {written(job.seq_len)} × {layout.micro_batch} × "
        f"{written(hidden)} × 2 / {t}"
    )
    replica = (
        f"2·(r-1)/r·2·P_local/d = 2 × {replicas - 1}/{replicas} × 2 × "
        f"{written(figures.parameters_local)} / {layout.shard}"
    )
    data = "FSDP" if layout.zero == SHARD_WEIGHTS else f"data parallel, ZeRO-{layout.zero}"
    rows = [
        (data, _data_formula(inputs, figures), figures.shard_bytes, figures.shard_seconds, True),
        ("HSDP replicas", replica, figures.replica_bytes, figures.replica_seconds, replicas > 1),
        ("tensor parallel", tensor, figures.tensor_bytes, figures.tensor_seconds, t > 1),
        (
            "pipeline, one boundary",
            pipeline if layout.pp > 1 else "no boundary",
            figures.pipeline_bytes,
            figures.pipeline_seconds,
            layout.pp > 1,
        ),
    ]
    lines = []
    for label, formula, size, seconds, used in rows:
        if used:
            rate = (
                f"bytes/bandwidth = {written(size)} / {written(size / seconds)}" if seconds else "0"
            )
            lines.append(Line(section, label, formula, size, "B", EXERCISE))
            lines.append(Line(section, f"{label}, time", rate, seconds, "s", EXERCISE))
    total = figures.communication_ratio * figures.compute_seconds
    ratio = f"all axes/compute = {written(total)} / {written(figures.compute_seconds)}"
    lines.append(
        Line(section, "communication ratio", ratio, figures.communication_ratio, "share", EXERCISE)
    )
    return tuple(lines)


def variant_lines(inputs: TextbookInputs, figures: TextbookEstimate) -> tuple[Line, ...]:
    """List the other two texts' own counts of the same volumes."""
    section, layout = "communication, as the other texts count", inputs.layout
    psi, s, b = figures.parameters_local, inputs.job.seq_len, layout.micro_batch
    h, layers = inputs.shape.hidden, inputs.shape.layers
    weights = float(variants.framework_weight_bytes(psi))
    d, sbh = layout.shard, f"{written(s)} × {b} × {written(h)}"
    # The planner framework's activation is one bf16 tensor of a micro-batch.
    activation = float(variants.chapter_pp_bytes(s, b, h)) * PARAMETER_BYTES
    low, high = (float(end) for end in variants.chapter_dp_bytes(psi))

    def line(label: str, formula: str, value: Floats | float, source: str) -> Line:
        return Line(section, label, formula, float(value), "B", source)

    return (
        line(
            "data parallel all-reduce",
            f"2·gradients·(N-1)/N = 2 × {written(weights)} × {d - 1}/{d}",
            variants.framework_dp_bytes(weights, d),
            FRAMEWORK,
        ),
        line(
            "FSDP",
            f"3·weights·(N-1)/N = 3 × {written(weights)} × {d - 1}/{d}",
            variants.framework_fsdp_bytes(weights, d),
            FRAMEWORK,
        ),
        line(
            "tensor parallel, one micro-batch",
            f"2·activation·layers = 2 × {written(activation)} × {written(layers)}",
            variants.framework_tp_bytes(activation, layers),
            FRAMEWORK,
        ),
        line(
            "pipeline, one boundary",
            f"activation = {written(activation)}",
            variants.framework_pp_bytes(activation),
            FRAMEWORK,
        ),
        line("data parallel, low end", f"2·Ψ = 2 × {written(psi)}", low, CHAPTER),
        line("data parallel, high end", f"3·Ψ = 3 × {written(psi)}", high, CHAPTER),
        line(
            "tensor parallel, one layer",
            f"4·s·b·h = 4 × {sbh}",
            variants.chapter_tp_bytes(s, b, h),
            CHAPTER,
        ),
        line(
            "pipeline, one micro-batch",
            f"s·b·h = {sbh}",
            variants.chapter_pp_bytes(s, b, h),
            CHAPTER,
        ),
    )
