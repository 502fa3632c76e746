"""A training job, its limits and what to look for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from topology.offers import PriceKind

from .finetune import Finetune, trainable_parameters
from .frozen import Frozen
from .recipe import Recipe
from .reliability import Reliability
from .search import Search
from .step_flops import PassFlops, pass_flops, training_flops
from .transformer import MAX_TOKENS, Transformer

if TYPE_CHECKING:
    from topology.cluster import Cluster

MAX_SEQUENCES = 10_000_000
MAX_BATCH_TOKENS = 10**10
MAX_RUN_TOKENS = 10**17  # a thousand times the largest known pretraining run (about 1e14 tokens)
MAX_DEADLINE_S = 3.2e9  # a century
MAX_USD = 1e15
MAX_TOP = 100
MAX_CHUNKS = 1_000_000
MAX_IMBALANCE = 1000.0


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
    loss_chunks
        The head and the loss run over so many parts of the tokens, one after the other.
    expert_imbalance
        Routed tokens of the busiest rank over the mean.
    capacity_factor
        Each expert computes so many times its mean share, padded or cut; None drops no token.
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
    loss_chunks: int = Field(default=1, ge=1, le=MAX_CHUNKS)
    expert_imbalance: float = Field(default=1.0, ge=1, le=MAX_IMBALANCE)
    capacity_factor: float | None = Field(default=None, gt=0, le=MAX_IMBALANCE)
    attention_span: float | None = Field(default=None, ge=1, le=MAX_TOKENS)
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
    def routed(self) -> float:
        """Routed tokens that the busiest rank holds, over the mean without a capacity."""
        return self.expert_imbalance if self.capacity_factor is None else self.capacity_factor

    @property
    def trainable(self) -> int:
        """Parameters that are trained."""
        return trainable_parameters(self.transformer, self.finetune)

    @property
    def step_flops(self) -> float:
        """Model FLOPs of one optimizer step, causal attention inside each document."""
        seen = self.document_tokens
        return training_flops(self.transformer, seen, self.finetune) * self.step_tokens

    @property
    def pass_flops(self) -> PassFlops:
        """FLOPs per token of the three passes of a step, all of the model trained."""
        return pass_flops(self.transformer, self.document_tokens)

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
        Largest pipeline bubble, (p-1)/(v m + p-1) under 1F1B.
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


Aim = Literal["time", "cost", "gpus", "memory"]
AIMS: tuple[Aim, ...] = ("time", "cost", "gpus", "memory")


class Objective(Frozen):
    """What the best plan has least of.

    Attributes
    ----------
    minimise
        Wall-clock time or USD.
    then
        Objectives that decide among the plans within the tolerance of the ones before, in order.
    pareto
        Return every plan that is not dominated in time, cost and GPUs.
    top
        Plans to return.
    tolerance
        Relative difference below which plans count as equal; None takes the profile's error, and
        between objectives exact ties only.
    gap
        Relative gap at which a certified answer is good enough; 0 searches for the optimum. A front
        is complete whatever it is.
    price_kinds
        Kinds of contract that the plans are looked for under; empty takes all that have a price.
    """

    minimise: Literal["time", "cost"] = "time"
    then: tuple[Aim, ...] = ()
    pareto: bool = False
    top: int = Field(default=5, ge=1, le=MAX_TOP)
    tolerance: float | None = Field(default=None, ge=0, le=1)
    gap: float = Field(default=0.0, ge=0, lt=1)
    price_kinds: tuple[PriceKind, ...] = ()


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
    reliability
        What failures and checkpoints cost the run; None counts none.
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
    reliability: Reliability | None = None
    path: str = ""
    positions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    schema: int = 1

    def exactly(self) -> PlanningProblem:
        """Return the same problem where nothing but the optimum is good enough."""
        return replace(self, objective=self.objective.model_copy(update={"gap": 0.0}))
