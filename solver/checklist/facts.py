"""What the rules look at and what they answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["pass", "warn", "fail", "advice"]

MEM_HEADROOM = 0.10
MAX_COMMUNICATION = 0.20
MAX_BUBBLE = 0.15

ROUNDING = 1e-9
"""Relative slack of a comparison, for float rounding only: 3/20 is within 15 %."""


@dataclass(frozen=True, slots=True)
class LayoutFacts:
    """What the rules look at; a caller fills it from its own estimate.

    Attributes
    ----------
    memory_bytes
        Need of the worst GPU.
    capacity_bytes
        What that GPU offers, before headroom.
    micro_batch, accumulation, dp
        Sequences per forward pass, micro-batches per step and replica, data-parallel replicas.
    global_batch, seq_len
        Sequences per step that the job asks for, and tokens in one.
    communication_ratio, bubble, utilisation
        Shares of 1, by the caller's definition.
    tp, nvlink_domain, pp, micro_batches_for_limit
        Degrees; GPUs that NVLink joins; micro-batches that bring the bubble to its limit.
    parameters, recompute
        Of the whole model; whether any activation checkpointing is on.
    total_steps, learning_rate_scaled, checkpoint_hours, gradient_clip, warmup_steps
        Of the run; None where the caller does not know, which gives advice and no verdict.
    save_steps, save_hours
        Steps and hours between checkpoints that lose least; None where nothing says how often runs
        fail.
    mem_headroom, max_communication, max_bubble
        Limits as shares of 1.
    """

    memory_bytes: float
    capacity_bytes: float
    micro_batch: int
    accumulation: int
    dp: int
    global_batch: int
    seq_len: int
    communication_ratio: float
    bubble: float
    utilisation: float
    tp: int
    nvlink_domain: int
    pp: int
    parameters: int
    recompute: bool
    micro_batches_for_limit: int | None = None
    total_steps: int | None = None
    learning_rate_scaled: bool | None = None
    checkpoint_hours: float | None = None
    gradient_clip: float | None = None
    warmup_steps: int | None = None
    save_steps: int | None = None
    save_hours: float | None = None
    mem_headroom: float = MEM_HEADROOM
    max_communication: float = MAX_COMMUNICATION
    max_bubble: float = MAX_BUBBLE


@dataclass(frozen=True, slots=True)
class Check:
    """Verdict of one rule.

    ``value`` and ``limit`` are in ``unit``; None where the rule has no number. ``advice`` says
    what to do, and is empty after a plain pass.
    """

    id: str
    title: str
    severity: Severity
    value: float | None
    limit: float | None
    unit: str
    advice: str = ""


Rule: TypeAlias = Callable[[LayoutFacts], Check]
