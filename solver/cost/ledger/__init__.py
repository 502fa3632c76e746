"""The textbook account of one layout, line by line, each formula with its numbers written out."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...checklist import Check, LayoutFacts, review
from ..decision_tree import DecisionPath, Typical, decide, typical
from ..textbook import micro_batches_for_bubble
from ..textbook_estimate import TextbookEstimate, estimate
from ..textbook_inputs import TextbookInputs
from .line import Line
from .memory import measure_lines, memory_lines, table_lines, tree_lines
from .run import cost_lines, time_lines
from .traffic import communication_lines, variant_lines

__all__ = ["Ledger", "Line", "facts", "ledger"]


@dataclass(frozen=True, slots=True)
class Ledger:
    """The account of one layout.

    Attributes
    ----------
    inputs
        What was asked.
    estimate
        The figures that the lines print.
    lines
        In reading order; values in base units.
    path
        The planner framework's decision tree for this model and machine.
    typical
        Its table's row for the same, None where it has none.
    checks
        The eight checklist items and the six red flags.
    """

    inputs: TextbookInputs
    estimate: TextbookEstimate
    lines: tuple[Line, ...]
    path: DecisionPath
    typical: Typical | None
    checks: tuple[Check, ...]

    @property
    def sections(self) -> tuple[str, ...]:
        """Names of the sections, in order."""
        return tuple(dict.fromkeys(line.section for line in self.lines))


def facts(inputs: TextbookInputs, figures: TextbookEstimate) -> LayoutFacts:
    """Hand the textbook figures to the checklist."""
    layout, job, limits = inputs.layout, inputs.job, inputs.limits
    need = None
    if limits.max_bubble > 0.0:
        need = micro_batches_for_bubble(layout.pp, limits.max_bubble, layout.vpp)
    return LayoutFacts(
        memory_bytes=figures.memory_bytes,
        capacity_bytes=inputs.machine.capacity_bytes,
        micro_batch=layout.micro_batch,
        accumulation=inputs.micro_batches,
        dp=layout.dp,
        global_batch=job.global_batch,
        seq_len=job.seq_len,
        communication_ratio=figures.communication_ratio,
        bubble=figures.bubble,
        utilisation=figures.realised_mfu,
        tp=layout.tp,
        nvlink_domain=inputs.machine.domain,
        pp=layout.pp,
        parameters=inputs.shape.parameters,
        # Selective recomputation is activation checkpointing too, for the flag's purpose.
        recompute=layout.recompute != "none",
        micro_batches_for_limit=need,
        total_steps=None if figures.steps is None else math.ceil(figures.steps),
        learning_rate_scaled=job.learning_rate_scaled,
        checkpoint_hours=job.checkpoint_hours,
        gradient_clip=job.gradient_clip,
        warmup_steps=job.warmup_steps,
        mem_headroom=limits.mem_headroom,
        max_communication=limits.max_comm,
        max_bubble=limits.max_bubble,
    )


def ledger(inputs: TextbookInputs) -> Ledger:
    """Write the textbook account of one layout."""
    figures = estimate(inputs)
    path = decide(inputs)
    row = typical(inputs.shape.parameters, inputs.machine.gpus)
    lines = (
        *memory_lines(inputs, figures),
        *table_lines(inputs, figures),
        *measure_lines(inputs),
        *tree_lines(path, row),
        *communication_lines(inputs, figures),
        *variant_lines(inputs, figures),
        *time_lines(inputs, figures),
        *cost_lines(inputs, figures),
    )
    return Ledger(inputs, figures, lines, path, row, review(facts(inputs, figures)))
