"""The eight checklist items of the planner framework, step 5."""

from __future__ import annotations

import math

from .facts import ROUNDING, Check, LayoutFacts, Rule, Severity

MIN_CHECKPOINT_HOURS = 1.0
MAX_CHECKPOINT_HOURS = 2.0
"""Save every 1–2 hours in large runs."""

GRADIENT_CLIP = 1.0
"""Typical for large models."""

WARMUP_SHARE = (0.001, 0.01)
"""Warm-up is typically 0.1–1 % of all steps."""


def _within(value: float, limit: float) -> bool:
    return value <= limit * (1.0 + ROUNDING)


def memory_fits(facts: LayoutFacts) -> Check:
    """CL-01: per-GPU memory fits within the hardware limit, with headroom."""
    limit = facts.capacity_bytes * (1.0 - facts.mem_headroom)
    over = facts.memory_bytes - limit
    fits = _within(facts.memory_bytes, limit)
    advice = (
        ""
        if fits
        else f"{over / 1e9:.1f} GB too much a GPU: shard more of the state, recompute activations, "
        "or raise TP or PP."
    )
    severity: Severity = "pass" if fits else "fail"
    return Check("CL-01", "memory fits", severity, facts.memory_bytes, limit, "B", advice)


def batch_matches(facts: LayoutFacts) -> Check:
    """CL-02: per-GPU batch × DP × accumulation equals the target."""
    batch = facts.micro_batch * facts.dp * facts.accumulation
    right = batch == facts.global_batch
    advice = (
        ""
        if right
        else f"{facts.micro_batch} × DP {facts.dp} × {facts.accumulation} micro-batches = {batch} "
        f"sequences, the target is {facts.global_batch}: choose a DP × micro-batch that divides it."
    )
    severity: Severity = "pass" if right else "fail"
    return Check(
        "CL-02", "effective batch", severity, batch, facts.global_batch, "sequences", advice
    )


def communication_within(facts: LayoutFacts) -> Check:
    """CL-03: communication over compute is below 20 %."""
    fits = _within(facts.communication_ratio, facts.max_communication)
    advice = (
        ""
        if fits
        else "Accumulate more gradients, overlap with compute, use larger micro-batches or a "
        "sharding stage that communicates less."
    )
    return Check(
        "CL-03",
        "communication ratio",
        "pass" if fits else "fail",
        facts.communication_ratio,
        facts.max_communication,
        "share",
        advice,
    )


def bubble_within(facts: LayoutFacts) -> Check:
    """CL-04: the pipeline bubble is below 15 %."""
    fits = _within(facts.bubble, facts.max_bubble)
    need = facts.micro_batches_for_limit
    more = f"Use at least {need} micro-batches" if need else "Use more micro-batches"
    advice = "" if fits else f"{more}, fewer stages or interleaved stages."
    severity: Severity = "pass" if fits else "fail"
    return Check(
        "CL-04", "pipeline bubble", severity, facts.bubble, facts.max_bubble, "share", advice
    )


def learning_rate_scaled(facts: LayoutFacts) -> Check:
    """CL-05: the learning rate is scaled for the effective batch size."""
    known = facts.learning_rate_scaled
    severity: Severity = "advice" if known is None else "pass" if known else "warn"
    tokens = facts.global_batch * facts.seq_len
    advice = "" if known else f"Scale the learning rate for a batch of {tokens:,} tokens."
    return Check("CL-05", "learning rate", severity, None, None, "", advice)


def checkpoint_interval(facts: LayoutFacts) -> Check:
    """CL-06: checkpoints account for the failure probability.

    As often as loses least where it is known how often runs fail, else every 1–2 hours.
    """
    hours, most = facts.checkpoint_hours, facts.save_hours or MAX_CHECKPOINT_HOURS
    severity: Severity = "advice"
    if hours is not None:
        severity = "pass" if hours > 0.0 and _within(hours, most) else "warn"
    advice = f"Save every {MIN_CHECKPOINT_HOURS:g}–{MAX_CHECKPOINT_HOURS:g} hours."
    if facts.save_steps is not None:
        advice = f"Save every {facts.save_steps:,} steps, {most:.3g} h: failures and writing lose "
        advice += "least."
    shown = "" if severity == "pass" else advice
    return Check("CL-06", "checkpoint interval", severity, hours, most, "h", shown)


def gradient_clipping(facts: LayoutFacts) -> Check:
    """CL-07: gradient clipping is set, typically to 1.0 for large models."""
    clip = facts.gradient_clip
    severity: Severity = "advice" if clip is None else "pass" if clip > 0.0 else "warn"
    advice = "" if severity == "pass" else f"Clip gradients, typically at {GRADIENT_CLIP:.1f}."
    return Check("CL-07", "gradient clipping", severity, clip, GRADIENT_CLIP, "norm", advice)


def warmup_steps(facts: LayoutFacts) -> Check:
    """CL-08: warm-up is proportional to all steps, typically 0.1–1 %."""
    low, high = WARMUP_SHARE
    value = facts.warmup_steps
    if not facts.total_steps:
        advice = f"Warm up over {low:.1%}–{high:.0%} of all steps (give tokens to get the steps)."
        return Check("CL-08", "warm-up", "advice", value, None, "steps", advice)
    # At least one step, so that a short run has a range at all.
    first = max(1, math.ceil(low * facts.total_steps))
    last = max(first, math.floor(high * facts.total_steps))
    severity: Severity = "advice"
    if value is not None:
        severity = "pass" if first <= value <= last else "warn"
    advice = (
        ""
        if severity == "pass"
        else f"Warm up over {first:,}–{last:,} of {facts.total_steps:,} steps."
    )
    return Check("CL-08", "warm-up", severity, value, last, "steps", advice)


CHECKLIST: tuple[Rule, ...] = (
    memory_fits,
    batch_matches,
    communication_within,
    bubble_within,
    learning_rate_scaled,
    checkpoint_interval,
    gradient_clipping,
    warmup_steps,
)
