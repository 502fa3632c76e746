"""What the textbook ledger needs to know: a model's shape, the job, the machine, one layout.

Plain numbers only, so that any reader of problems can fill them. Every field is checked for range
and every degree for divisibility; ``read_inputs`` reports all faults at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from topology.errors import InputError, Problem

from .textbook import MFU, SHARD_WEIGHTS

# Far above any model or machine, low enough that every product here stays finite in float64.
_LARGEST = 10**18
_LEAST = 1e-6
"""Far below any rate or price, high enough that every quotient stays finite too."""

# The largest systems have some 10**5 GPUs; the bound keeps the divisors of a node count cheap.
_MOST_NODES = 10**7

Count: TypeAlias = Annotated[int, Field(strict=True, ge=1, le=_LARGEST)]
Nodes: TypeAlias = Annotated[int, Field(strict=True, ge=1, le=_MOST_NODES)]
Rate: TypeAlias = Annotated[
    float, Field(strict=True, ge=_LEAST, le=float(_LARGEST), allow_inf_nan=False)
]
Share: TypeAlias = Annotated[float, Field(strict=True, ge=0.0, lt=1.0, allow_inf_nan=False)]
Recompute: TypeAlias = Literal["none", "selective", "full"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ShapeNumbers(_Frozen):
    """A dense transformer as the sources see it: parameters, layers, hidden size, heads."""

    name: str = "model"
    parameters: Count
    layers: Count
    hidden: Count
    heads: Count


class JobNumbers(_Frozen):
    """Sequences of ``seq_len`` tokens; ``global_batch`` of them a step; ``tokens`` in all.

    ``mfu`` is the utilisation taken as given, ``charge_recompute`` counts full recomputation as one
    third more compute. The last five fields feed the checklist and may be unknown.
    """

    seq_len: Count
    global_batch: Count
    tokens: Count | None = None
    mfu: Annotated[float, Field(strict=True, ge=_LEAST, le=1.0, allow_inf_nan=False)] = MFU
    charge_recompute: bool = False
    learning_rate_scaled: bool | None = None
    checkpoint_hours: Rate | None = None
    gradient_clip: Annotated[float, Field(strict=True, ge=0.0, allow_inf_nan=False)] | None = None
    warmup_steps: Annotated[int, Field(strict=True, ge=0, le=_LARGEST)] | None = None


class MachineNumbers(_Frozen):
    """Nodes of equal GPUs: FLOP/s, bytes, bytes per second per GPU and direction, USD."""

    gpu: str = "GPU"
    nodes: Nodes
    gpus_per_node: Nodes
    nvlink_domain: Count | None = None
    peak_flops: Rate
    capacity_bytes: Rate
    nvlink_bytes_per_s: Rate
    inter_bytes_per_s: Rate
    usd_per_gpu_hour: Rate | None = None

    @property
    def gpus(self) -> int:
        """GPUs of the whole machine."""
        return self.nodes * self.gpus_per_node

    @property
    def domain(self) -> int:
        """GPUs that NVLink joins; the node unless told otherwise."""
        return self.nvlink_domain or self.gpus_per_node


class LayoutNumbers(_Frozen):
    """The degrees of one layout; ``dp_shard`` of the ``dp`` replicas share the state (HSDP)."""

    tp: Count = 1
    pp: Count = 1
    vpp: Count = 1
    dp: Count = 1
    dp_shard: Count | None = None
    zero: Annotated[int, Field(strict=True, ge=0, le=3)] = 3
    micro_batch: Count = 1
    recompute: Recompute = "none"
    sequence_parallel: bool = True

    @property
    def gpus(self) -> int:
        """GPUs that the layout occupies."""
        return self.tp * self.pp * self.dp

    @property
    def shard(self) -> int:
        """GPUs that the model state is divided over."""
        return self.dp_shard or self.dp

    @model_validator(mode="after")
    def _sharding(self) -> LayoutNumbers:
        if self.dp % self.shard:
            raise ValueError(f"dp_shard {self.shard} does not divide dp {self.dp}")
        if self.shard != self.dp and self.zero != SHARD_WEIGHTS:
            raise ValueError(f"dp_shard {self.shard} below dp {self.dp} needs zero 3 (HSDP)")
        return self


class LimitNumbers(_Frozen):
    """Limits of the planner framework, as shares of 1."""

    mem_headroom: Share = 0.10
    max_bubble: Share = 0.15
    max_comm: Annotated[float, Field(strict=True, ge=0.0, allow_inf_nan=False)] = 0.20


class TextbookInputs(_Frozen):
    """Everything that one ledger is computed from."""

    shape: ShapeNumbers
    job: JobNumbers
    machine: MachineNumbers
    layout: LayoutNumbers
    limits: LimitNumbers = LimitNumbers()

    @model_validator(mode="after")
    def _degrees(self) -> TextbookInputs:
        layout, shape = self.layout, self.shape
        if layout.gpus > self.machine.gpus:
            raise ValueError(
                f"layout needs {layout.gpus} GPUs (TP {layout.tp} × PP {layout.pp} × DP "
                f"{layout.dp}), the machine has {self.machine.gpus}"
            )
        if shape.heads % layout.tp:
            raise ValueError(f"tp {layout.tp} does not divide {shape.heads} attention heads")
        # Not pp × vpp: 126 layers run on 16 × 8 chunks with lighter first and last stages.
        if layout.pp > shape.layers:
            raise ValueError(f"pp {layout.pp} is above the model's {shape.layers} layers")
        if layout.dp * layout.micro_batch > self.job.global_batch:
            raise ValueError(
                f"dp {layout.dp} × micro_batch {layout.micro_batch} is above the global batch of "
                f"{self.job.global_batch} sequences"
            )
        return self

    @property
    def micro_batches(self) -> int:
        """Micro-batches per step and replica; rounded down, so that CL-02 sees a misfit."""
        return self.job.global_batch // (self.layout.dp * self.layout.micro_batch)

    @property
    def tokens_per_step(self) -> int:
        """Tokens of the global batch."""
        return self.job.global_batch * self.job.seq_len


def read_inputs(numbers: Mapping[str, object], path: str = "ledger") -> TextbookInputs:
    """Validate nested mappings (``shape``, ``job``, ``machine``, ``layout``, ``limits``).

    Raises
    ------
    InputError
        With one entry for each fault, code SP150, naming the field.
    """
    try:
        return TextbookInputs.model_validate(dict(numbers))
    except ValidationError as error:
        problems = [
            Problem(path, 0, 0, ".".join(map(str, fault["loc"])), "SP150", fault["msg"])
            for fault in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        raise InputError(*problems) from None
