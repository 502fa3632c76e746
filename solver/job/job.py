"""A training job, its limits and what to look for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..degrees import BoolArray, IntArray
from .finetune import Finetune, trainable_parameters
from .recipe import Recipe
from .rules import Rule
from .step_flops import training_flops
from .transformer import MAX_TOKENS, Transformer

if TYPE_CHECKING:
    from topology.cluster import Cluster

MAX_SEQUENCES = 10_000_000
MAX_BATCH_TOKENS = 10**10
MAX_RUN_TOKENS = 10**17  # a thousand times the largest known pretraining run (about 1e14 tokens)
MAX_GPUS = 1_000_000
MAX_DEADLINE_S = 3.2e9  # a century
MAX_USD = 1e15
MAX_TOP = 100

Recompute = Literal["none", "selective", "full"]
RECOMPUTE: tuple[Recompute, ...] = ("none", "selective", "full")


class Frozen(BaseModel):
    """Base of the input models: frozen, strict types, no unknown key, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Job(Frozen):
    """What is trained and on how much data.

    Attributes
    ----------
    transformer
        Shape of the model.
    seq_len
        Tokens a sequence.
    global_batch
        Sequences an optimizer step.
    tokens
        Tokens of the whole run; None where only the step matters.
    recipe
        Precision and optimizer.
    attention
        ``flash`` never stores the score matrix, ``unfused`` does.
    fused_loss
        The loss is computed without holding all logits.
    attention_span
        Mean keys that a query sees where documents are packed and masked; None for the causal
        sequence, whose mean is half of it.
    finetune
        What is trained, where that is not the whole model.
    """

    transformer: Transformer
    seq_len: int = Field(ge=1, le=MAX_TOKENS)
    global_batch: int = Field(ge=1, le=MAX_SEQUENCES)
    tokens: int | None = Field(default=None, ge=1, le=MAX_RUN_TOKENS)
    recipe: Recipe = Recipe()
    attention: Literal["flash", "unfused"] = "flash"
    fused_loss: bool = False
    attention_span: float | None = Field(default=None, gt=0, le=MAX_TOKENS)
    finetune: Finetune | None = None

    @model_validator(mode="after")
    def _step_is_bounded(self) -> Job:
        if self.global_batch * self.seq_len > MAX_BATCH_TOKENS:
            raise ValueError(
                f"global_batch {self.global_batch} x seq_len {self.seq_len} is "
                f"{self.global_batch * self.seq_len} tokens a step, more than the 1e10 that this "
                "version plans for"
            )
        if self.trainable < 1:
            raise ValueError("finetune freezes every parameter: nothing is left to train")
        return self

    @property
    def trainable(self) -> int:
        """Parameters that are trained."""
        return trainable_parameters(self.transformer, self.finetune)

    @property
    def step_flops(self) -> float:
        """Model FLOPs of one optimizer step, causal attention."""
        return training_flops(self.transformer, self.seq_len, self.finetune) * self.step_tokens

    @property
    def document_tokens(self) -> float:
        """Tokens that attention runs over: the sequence, or a packed document."""
        span = self.attention_span
        return float(self.seq_len) if span is None else min(2 * span, float(self.seq_len))

    @property
    def step_tokens(self) -> int:
        """Tokens of one optimizer step."""
        return self.global_batch * self.seq_len

    @property
    def steps(self) -> int | None:
        """Optimizer steps of the run, the last one may be short; None without a token count."""
        return None if self.tokens is None else -(-self.tokens // self.step_tokens)


class Limits(Frozen):
    """What a plan must keep.

    Attributes
    ----------
    mem_headroom
        Fraction of usable memory that stays free.
    max_bubble
        Largest pipeline bubble, (p-1)/(v m + p-1).
    max_comm
        Largest ratio of communication to compute.
    comm_metric
        Count the exposed communication only, or all of it.
    tp_within_node
        Tensor-parallel groups stay inside a node.
    max_stages
        Largest number of pipeline stages.
    deadline_s
        Longest wall-clock time in seconds.
    budget_usd
        Largest cost in USD.
    """

    mem_headroom: float = Field(default=0.10, ge=0, lt=1)
    max_bubble: float = Field(default=0.15, ge=0, le=1)
    max_comm: float = Field(default=0.20, ge=0, le=10)
    comm_metric: Literal["exposed", "total"] = "exposed"
    tp_within_node: bool = True
    max_stages: int = Field(default=32, ge=1, le=10_000)
    deadline_s: float | None = Field(default=None, gt=0, le=MAX_DEADLINE_S)
    budget_usd: float | None = Field(default=None, gt=0, le=MAX_USD)


class Search(Frozen):
    """Which plans are looked at; None takes every legal degree.

    Attributes
    ----------
    tp, pp, vpp, cp, ep, zero, micro_batch
        Allowed values, ascending.
    recompute
        Allowed kinds.
    hsdp
        Look at shard groups smaller than DP.
    gpus
        Use exactly so many GPUs.
    max_gpus
        Use at most so many GPUs.
    rules
        Constraints on single axes that every plan keeps.
    """

    tp: tuple[int, ...] | None = None
    pp: tuple[int, ...] | None = None
    vpp: tuple[int, ...] | None = None
    cp: tuple[int, ...] | None = None
    ep: tuple[int, ...] | None = None
    zero: tuple[int, ...] | None = None
    micro_batch: tuple[int, ...] | None = None
    recompute: tuple[Recompute, ...] = RECOMPUTE
    hsdp: bool = True
    gpus: int | None = Field(default=None, ge=1, le=MAX_GPUS)
    max_gpus: int | None = Field(default=None, ge=1, le=MAX_GPUS)
    rules: tuple[Rule, ...] = ()

    def keeps(self, axis: str, degrees: IntArray) -> BoolArray:
        """Mark the degrees of an axis that its rules allow."""
        allowed = np.ones(np.shape(degrees), bool)
        for rule in self.rules:
            if rule.axis == axis:
                allowed &= rule.keeps(degrees)
        return allowed


class Objective(Frozen):
    """What the best plan has least of.

    Attributes
    ----------
    minimise
        Wall-clock time or USD.
    pareto
        Return every plan that is not dominated in time, cost and GPUs.
    top
        Plans to return.
    tolerance
        Relative difference below which plans count as equal; None takes the profile's error.
    """

    minimise: Literal["time", "cost"] = "time"
    pareto: bool = False
    top: int = Field(default=5, ge=1, le=MAX_TOP)
    tolerance: float | None = Field(default=None, ge=0, le=1)


class Account(Frozen):
    """How time and memory are reckoned.

    Attributes
    ----------
    cost_model
        ``calibrated`` from measured runs, or the ``textbook`` formulas.
    profile
        Fitted constants; None chooses by GPU and framework.
    mfu
        Model-FLOPs utilisation that the textbook account takes.
    charge_recompute
        The textbook account adds a third to compute for full recomputation.
    """

    cost_model: Literal["calibrated", "textbook"] = "calibrated"
    profile: str | None = None
    mfu: float = Field(default=0.40, gt=0, le=1)
    charge_recompute: bool = False


@dataclass(frozen=True, slots=True)
class PlanningProblem:
    """One checked problem: everything a search needs.

    Attributes
    ----------
    job, cluster, limits, search, objective, account, framework
        The parts.
    path
        File that the problem came from, for messages.
    positions
        Dotted field name to line and column in that file.
    schema
        Version of the problem format.
    """

    job: Job
    cluster: Cluster
    limits: Limits = field(default_factory=Limits)
    search: Search = field(default_factory=Search)
    objective: Objective = field(default_factory=Objective)
    account: Account = field(default_factory=Account)
    framework: Literal["megatron", "fsdp"] = "megatron"
    path: str = ""
    positions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    schema: int = 1
