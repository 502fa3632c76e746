"""The problem file, schema version 1: which keys there are and what they hold."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator

from topology.faults import FieldError, checked
from topology.placement import ORDERS
from topology.units import parse_duration, shown

from .fields import (
    Batch,
    choice,
    elsewhere,
    module_sets,
    not_yet,
    parse_batch,
    parse_tokens,
    parse_usd,
    several,
)
from .finetune import BASE_BITS, FROZEN_PARTS, LORA_TARGETS, MAX_FROZEN_LAYERS, MAX_RANK
from .frozen import Frozen
from .job import MAX_CHUNKS, MAX_DEADLINE_S, MAX_IMBALANCE, MAX_RUN_TOKENS, MAX_USD
from .objective_field import ObjectiveSpec, objective_section
from .recipe import OPTIMIZERS, PRECISIONS, Optimizer, Precision
from .reliability_field import ReliabilitySpec, or_switched, switched
from .rules import Rule, parse_rules
from .schedules import SCHEDULES
from .search import CP_COMMS, OFFLOADS, RECOMPUTE
from .transformer import MAX_TOKENS
from .written import (
    MODULES,
    OFFLOAD_OR_NOT,
    RULES,
    SEVERAL,
    WRITTEN,
    WRITTEN_OR_NOT,
    CommShare,
    Degrees,
    GpuCount,
    PositiveDegrees,
    Share,
)

VERSION = 1
FRAMEWORKS = ("megatron", "fsdp")
GRAD_BYTES = {"fp32": 4.0, "bf16": 2.0}


class TrainingSpec(Frozen):
    """The ``training`` section.

    Attributes
    ----------
    seq_len
        Tokens a sequence.
    global_batch
        Sequences or tokens a step.
    tokens
        Tokens of the run.
    precision, optimizer, grad_dtype
        Recipe.
    flash_attention, fused_loss
        Kernels that save memory.
    loss_chunks, expert_imbalance, capacity_factor
        See :class:`solver.job.job.Job`.
    attention_span, packed_documents
        Mean keys of a query, or the mean tokens of a document: two ways to say how far attention
        reaches in packed sequences.
    batch_rampup
        Known, refused until supported.
    lora, frozen, base_precision, reference_model
        Refused: they stand under ``finetune``.
    """

    seq_len: int = Field(ge=1, le=MAX_TOKENS, examples=[4096])
    global_batch: Annotated[Batch, BeforeValidator(parse_batch), WRITTEN] = Field(
        examples=["1024seq"]
    )
    tokens: Annotated[
        int | None, BeforeValidator(checked(parse_tokens, "SP109")), WRITTEN_OR_NOT
    ] = Field(default=None, ge=1, le=MAX_RUN_TOKENS, examples=["100B"])
    precision: Annotated[Precision, BeforeValidator(choice(*PRECISIONS))] = "bf16"
    optimizer: Annotated[Optimizer, BeforeValidator(choice(*OPTIMIZERS))] = "adamw"
    grad_dtype: Annotated[str, BeforeValidator(choice(*GRAD_BYTES))] = "fp32"
    flash_attention: bool = Field(default=True, examples=["true"])
    fused_loss: bool = Field(default=False, examples=["false"])
    loss_chunks: int = Field(default=1, ge=1, le=MAX_CHUNKS, examples=[8])
    expert_imbalance: float = Field(default=1.0, ge=1, le=MAX_IMBALANCE, examples=[1.2])
    capacity_factor: float | None = Field(default=None, gt=0, le=MAX_IMBALANCE, examples=[1.25])
    attention_span: float | None = Field(default=None, ge=1, le=MAX_TOKENS, examples=[512])
    packed_documents: int | None = Field(default=None, ge=2, le=MAX_TOKENS, examples=[1024])
    batch_rampup: Annotated[None, BeforeValidator(not_yet("a batch ramp-up"))] = None
    lora: Annotated[None, BeforeValidator(elsewhere("finetune: {lora_rank: 16}"))] = None
    frozen: Annotated[None, BeforeValidator(elsewhere("finetune: {frozen: embedding}"))] = None
    base_precision: Annotated[None, BeforeValidator(elsewhere("finetune: {base_bits: 4}"))] = None
    reference_model: Annotated[
        None, BeforeValidator(elsewhere("finetune: {reference_model: true}"))
    ] = None


def _base_bits(value: Any) -> int:
    if isinstance(value, bool) or value not in BASE_BITS:
        choices = ", ".join(map(str, BASE_BITS))
        raise FieldError("SP112", f"{shown(value)} unknown. Choose {choices}.")
    return int(value)


class FinetuneSpec(Frozen):
    """The ``finetune`` section; see :class:`solver.job.finetune.Finetune`."""

    lora_rank: int | None = Field(default=None, ge=1, le=MAX_RANK, examples=[16])
    lora_targets: Annotated[tuple[str, ...], BeforeValidator(several(*LORA_TARGETS)), SEVERAL] = (
        "qkv",
    )
    base_bits: Annotated[int, BeforeValidator(_base_bits)] = Field(default=16, examples=[16])
    frozen: Annotated[tuple[str, ...], BeforeValidator(several(*FROZEN_PARTS)), SEVERAL] = ()
    frozen_layers: int = Field(default=0, ge=0, le=MAX_FROZEN_LAYERS, examples=[8])
    reference_model: bool = Field(default=False, examples=["false"])


class LimitsSpec(Frozen):
    """The ``limits`` section; see :class:`solver.job.job.Limits`."""

    mem_headroom: Share = Field(default=0.10, lt=1, examples=["10%"])
    max_bubble: Share = Field(default=0.15, examples=["15%"])
    max_comm: CommShare = Field(default=0.20, examples=["20%"])
    comm_metric: Annotated[str, BeforeValidator(choice("exposed", "total"))] = "exposed"
    tp_within_node: bool = Field(default=True, examples=["true"])
    max_stages: int = Field(default=32, ge=1, le=10_000, examples=[32])
    deadline: Annotated[float | None, BeforeValidator(checked(parse_duration)), WRITTEN_OR_NOT] = (
        Field(default=None, gt=0, le=MAX_DEADLINE_S, examples=["30d"])
    )
    budget: Annotated[float | None, BeforeValidator(checked(parse_usd)), WRITTEN_OR_NOT] = Field(
        default=None, gt=0, le=MAX_USD, examples=[50000]
    )


def _offload(value: Any) -> tuple[str, ...]:
    """Take nothing and false for none, and true for the optimizer's states; or several of them."""
    if value is None or isinstance(value, bool):
        return ("optimizer" if value else "none",)
    found: tuple[str, ...] = several(*OFFLOADS)(value)
    return found


class SearchSpec(Frozen):
    """The ``search`` section; see :class:`solver.job.job.Search`."""

    tp: PositiveDegrees = None
    pp: PositiveDegrees = None
    vpp: PositiveDegrees = None
    cp: PositiveDegrees = None
    ep: PositiveDegrees = None
    etp: PositiveDegrees = None
    zero: Degrees = None
    micro_batch: PositiveDegrees = None
    recompute: Annotated[tuple[str, ...], SEVERAL] = RECOMPUTE
    recompute_by_stage: bool = Field(default=False, examples=["false"])
    hsdp: bool = Field(default=True, examples=["true"])
    order: Annotated[tuple[str, ...] | None, SEVERAL] = None
    gpus: GpuCount = None
    max_gpus: GpuCount = None
    offload: Annotated[tuple[str, ...], BeforeValidator(_offload), OFFLOAD_OR_NOT] = ("none",)
    precision: Annotated[tuple[str, ...], BeforeValidator(several(*PRECISIONS)), SEVERAL] = ()
    cp_comm: Annotated[tuple[str, ...], BeforeValidator(several(*CP_COMMS)), SEVERAL] = ()
    recompute_modules: Annotated[
        tuple[tuple[str, ...], ...], BeforeValidator(module_sets), MODULES
    ] = ()
    schedule: Annotated[tuple[str, ...], BeforeValidator(several(*SCHEDULES)), SEVERAL] = ()
    stages: Annotated[str, BeforeValidator(choice("even", "refine", "free"))] = "refine"
    fix: Annotated[tuple[Rule, ...], BeforeValidator(parse_rules("fix")), RULES] = ()
    forbid: Annotated[tuple[Rule, ...], BeforeValidator(parse_rules("forbid")), RULES] = ()
    max: Annotated[tuple[Rule, ...], BeforeValidator(parse_rules("max")), RULES] = ()
    min: Annotated[tuple[Rule, ...], BeforeValidator(parse_rules("min")), RULES] = ()
    allow: Annotated[None, BeforeValidator(not_yet("search.allow"))] = None

    @field_validator("zero")
    @classmethod
    def _stages(cls, value: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if value is not None and value[-1] > 3:  # noqa: PLR2004  (ZeRO has stages 0 to 3)
            message = f"ZeRO stage {value[-1]} is out of range 0..3."
            raise FieldError("SP109", message, "Write e.g. [1, 3].")
        return value

    @field_validator("order", mode="before")
    @classmethod
    def _orders(cls, value: Any) -> tuple[str, ...] | None:
        if value is None:
            return None
        names = value if isinstance(value, list | tuple) else [value]
        known = {choice(*ORDERS)(name) for name in names[: len(ORDERS) * 10]}
        if not known:
            raise FieldError("SP114", "is empty: no plan could be looked at.", f"E.g. {ORDERS[0]}.")
        return tuple(name for name in ORDERS if name in known)

    @field_validator("recompute", mode="before")
    @classmethod
    def _kinds(cls, value: Any) -> tuple[str, ...]:
        if value is None:
            return RECOMPUTE
        kinds = value if isinstance(value, list | tuple) else [value]
        known = {choice(*RECOMPUTE)(kind) for kind in kinds[: len(RECOMPUTE) * 10]}
        if not known:
            hint = "Write e.g. [none, full]."
            raise FieldError("SP114", "is empty: no plan could be looked at.", hint)
        return tuple(kind for kind in RECOMPUTE if kind in known)


def _version(value: Any) -> int:
    if isinstance(value, bool) or value != VERSION:
        raise FieldError("SP117", f"{shown(value)} is not a known version.", "Write schema: 1.")
    return VERSION


class ProblemSpec(Frozen):
    """A whole problem file, with ``model`` and ``cluster`` checked by their own readers."""

    # "schema" is a method of pydantic's base class, so the field carries another name.
    version: Annotated[int, BeforeValidator(_version)] = Field(default=VERSION, alias="schema")
    model: Any = Field(examples=["llama3-70b"])
    cluster: Any = Field(examples=["8x8xH100"])
    training: TrainingSpec = Field(
        examples=["{seq_len: 4096, global_batch: 1024seq, tokens: 100B}"]
    )
    limits: LimitsSpec | None = None
    search: SearchSpec | None = None
    objective: Annotated[ObjectiveSpec | None, BeforeValidator(objective_section)] = None
    framework: Annotated[str, BeforeValidator(choice(*FRAMEWORKS))] = "megatron"
    cost_model: Annotated[str, BeforeValidator(choice("calibrated", "textbook"))] = "calibrated"
    profile: str | None = Field(default=None, min_length=1, max_length=1000)
    mfu: Share = Field(default=0.40, gt=0, examples=["40%"])
    charge_recompute: bool = Field(default=False, examples=["false"])
    finetune: FinetuneSpec | None = None
    reliability: Annotated[ReliabilitySpec | None, BeforeValidator(switched)] = Field(
        default=None, json_schema_extra=or_switched
    )
    # Read by solver.studies; the problem itself is the base that they vary.
    scenarios: dict[str, Any] | None = Field(
        default=None, examples=["{small: {training.global_batch: 256seq}}"]
    )
    sweep: dict[str, Any] | None = Field(default=None, examples=["{cluster.nodes: [4, 8, 16]}"])
