"""Which plans a search looks at."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from ..degrees import BoolArray, IntArray
from .frozen import Frozen
from .recipe import Precision
from .rules import Rule
from .schedules import SCHEDULES, PipelineSchedule

MAX_GPUS = 1_000_000

Offload = Literal["none", "optimizer", "optimizer+activations"]
OFFLOADS: tuple[Offload, ...] = ("none", "optimizer", "optimizer+activations")
"""What lives on the host; each takes in the ones before it."""

Recompute = Literal["none", "selective", "full"]
RECOMPUTE: tuple[Recompute, ...] = ("none", "selective", "full")


CpComm = Literal["ring", "all_to_all"]
CP_COMMS: tuple[CpComm, ...] = ("ring", "all_to_all")
RECOMPUTE_MODULES = ("core_attn", "mla_up_proj", "moe_act", "layernorm", "mlp", "moe")
"""Modules that selective recomputation can repeat, by Megatron-LM's names."""


class Variants(Frozen):
    """Alternatives that the search may choose among; empty leaves the single value."""

    precision: tuple[Precision, ...] = ()
    offload: tuple[Offload, ...] = ()
    cp_comm: tuple[CpComm, ...] = ()
    recompute_modules: tuple[tuple[str, ...], ...] = ()
    schedule: tuple[PipelineSchedule, ...] = ()


class Search(Frozen):
    """Which plans are looked at; None takes every legal degree.

    Attributes
    ----------
    tp, pp, vpp, cp, ep, etp, zero, micro_batch
        Allowed values, ascending.
    recompute
        Allowed kinds.
    recompute_by_stage
        First, middle and last stages may recompute differently; else all by one kind, as the flags
        of frameworks have it.
    hsdp
        Look at shard groups smaller than DP.
    order
        Allowed orders of the axes, innermost first (``topology.placement.ORDERS``).
    gpus
        Use exactly so many GPUs.
    max_gpus
        Use at most so many GPUs.
    rules
        Constraints on single axes that every plan keeps.
    stages
        ``even`` spreads layers by rule; ``refine`` also chooses layers and recomputed layers stage
        by stage for the best plan; ``free`` does so for every layout.
    offload
        What lives in the nodes' memory in every plan: nothing, the optimizer's states, or kept
        activations as well.
    cp_comm
        How context parallelism exchanges: keys and values round a ring, or heads against sequence
        (all-to-all).
    recompute_modules
        What selective recomputation repeats; None takes the software stack's.
    schedule
        Order of a pipeline's passes (``solver.job.schedules``).
    variants
        Alternatives of precision and of the four fields above; each is searched.
    """

    tp: tuple[int, ...] | None = None
    pp: tuple[int, ...] | None = None
    vpp: tuple[int, ...] | None = None
    cp: tuple[int, ...] | None = None
    ep: tuple[int, ...] | None = None
    etp: tuple[int, ...] | None = None
    zero: tuple[int, ...] | None = None
    micro_batch: tuple[int, ...] | None = None
    recompute: tuple[Recompute, ...] = RECOMPUTE
    recompute_by_stage: bool = False
    hsdp: bool = True
    order: tuple[str, ...] | None = None
    gpus: int | None = Field(default=None, ge=1, le=MAX_GPUS)
    max_gpus: int | None = Field(default=None, ge=1, le=MAX_GPUS)
    rules: tuple[Rule, ...] = ()
    stages: Literal["even", "refine", "free"] = "refine"
    offload: Offload = "none"
    cp_comm: CpComm = "ring"
    recompute_modules: tuple[str, ...] | None = None
    schedule: PipelineSchedule = "1f1b"
    variants: Variants = Variants()

    @property
    def zero_bubble(self) -> bool:
        """Whether weight gradients wait: every plan then has a pipeline of whole stages."""
        return self.schedule == "zb-h1"

    @property
    def schedules(self) -> tuple[PipelineSchedule, ...]:
        """Schedules to look at: those listed, else those that a rule fixes, less what rules forbid.

        A rule counts them by their place in ``SCHEDULES``.
        """
        fixed = [r.value for r in self.rules if r.axis == "schedule" and r.relation == "="]
        named = tuple(SCHEDULES[place] for place in fixed) or (self.schedule,)
        listed = self.variants.schedule or named
        kept = self.keeps("schedule", np.array([SCHEDULES.index(name) for name in listed]))
        return tuple(name for name, keep in zip(listed, kept, strict=True) if keep)

    def allows(self, axis: str, degrees: IntArray) -> BoolArray:
        """Mark the degrees of an axis that its list and its rules allow."""
        listed = getattr(self, axis)
        inside = np.isin(degrees, listed) if listed is not None else np.ones(degrees.shape, bool)
        return np.asarray(inside & self.keeps(axis, degrees))

    def keeps(self, axis: str, degrees: IntArray) -> BoolArray:
        """Mark the degrees of an axis that its rules allow."""
        allowed = np.ones(np.shape(degrees), bool)
        for rule in self.rules:
            if rule.axis == axis:
                allowed &= rule.keeps(degrees)
        return allowed
