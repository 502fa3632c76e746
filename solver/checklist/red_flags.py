"""The six red flags of the planner framework."""

from __future__ import annotations

from .facts import ROUNDING, Check, LayoutFacts, Rule, Severity
from .items import memory_fits

MAX_TP = 8
MAX_STAGES = 32
MAX_BATCH_TOKENS = 10_000_000
MIN_UTILISATION = 0.30
MAX_PARAMETERS_WITHOUT_RECOMPUTE = 13_000_000_000
MIN_BATCH_SAMPLES = 256


def tensor_parallel_wide(facts: LayoutFacts) -> Check:
    """RF-01: TP > 8. Advice only where NVLink joins that many GPUs (NVL72)."""
    severity: Severity = "pass"
    advice = ""
    if facts.tp > facts.nvlink_domain:
        severity = "warn"
        advice = (
            f"TP {facts.tp} leaves the NVLink domain of {facts.nvlink_domain} GPUs: pipeline "
            "stages are almost always faster there."
        )
    elif facts.tp > MAX_TP:
        severity = "advice"
        advice = f"TP above {MAX_TP} stays on NVLink here; measure TP {MAX_TP} beside it."
    return Check("RF-01", "TP above 8", severity, facts.tp, MAX_TP, "GPUs", advice)


def many_stages(facts: LayoutFacts) -> Check:
    """RF-02: more than 32 pipeline stages."""
    red = facts.pp > MAX_STAGES
    advice = "The bubble grows even with many micro-batches: use fewer stages." if red else ""
    severity: Severity = "warn" if red else "pass"
    return Check("RF-02", "many stages", severity, facts.pp, MAX_STAGES, "stages", advice)


def huge_batch(facts: LayoutFacts) -> Check:
    """RF-03: an effective batch above 10M tokens."""
    tokens = facts.global_batch * facts.seq_len
    red = tokens > MAX_BATCH_TOKENS
    advice = "Returns diminish and convergence may suffer: use a smaller batch." if red else ""
    severity: Severity = "warn" if red else "pass"
    return Check("RF-03", "huge batch", severity, tokens, MAX_BATCH_TOKENS, "tokens", advice)


def low_utilisation(facts: LayoutFacts) -> Check:
    """RF-04: utilisation below 30 %."""
    red = facts.utilisation < MIN_UTILISATION * (1.0 - ROUNDING)
    advice = "Bound by communication or bubble: choose another strategy." if red else ""
    severity: Severity = "warn" if red else "pass"
    return Check(
        "RF-04", "low utilisation", severity, facts.utilisation, MIN_UTILISATION, "share", advice
    )


def no_recompute(facts: LayoutFacts) -> Check:
    """RF-05: no activation checkpointing above 13B.

    Where the estimate fits without it (the ledger chapter's TP 8 × PP 4 plan of a 70B model does)
    the flag is advice: CL-01 decides.
    """
    red = not facts.recompute and facts.parameters > MAX_PARAMETERS_WITHOUT_RECOMPUTE
    severity: Severity = "pass"
    advice = ""
    if red and memory_fits(facts).severity == "pass":
        severity = "advice"
        advice = "The estimate fits without recomputation; keep it at hand for a longer sequence."
    elif red:
        severity = "warn"
        advice = "The backward pass runs out of memory: recompute activations."
    return Check(
        "RF-05",
        "no recomputation",
        severity,
        facts.parameters,
        MAX_PARAMETERS_WITHOUT_RECOMPUTE,
        "parameters",
        advice,
    )


def no_accumulation(facts: LayoutFacts) -> Check:
    """RF-06: no gradient accumulation with a small batch; aim at 256 samples or more."""
    batch = facts.micro_batch * facts.dp * facts.accumulation
    red = facts.accumulation == 1 and batch < MIN_BATCH_SAMPLES
    advice = (
        f"Accumulate to {MIN_BATCH_SAMPLES} sequences or more: gradient noise is high."
        if red
        else ""
    )
    severity: Severity = "warn" if red else "pass"
    return Check(
        "RF-06",
        "no accumulation, small batch",
        severity,
        batch,
        MIN_BATCH_SAMPLES,
        "sequences",
        advice,
    )


RED_FLAGS: tuple[Rule, ...] = (
    tensor_parallel_wide,
    many_stages,
    huge_batch,
    low_utilisation,
    no_recompute,
    no_accumulation,
)
