"""A launch: what a plan says of a training job, in no framework's words.

Writers turn it into a target's configuration, readers turn a configuration into it.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from topology.placement import MEGATRON_ORDER

from ..job.recipe import Optimizer, Precision
from ..job.schedules import PipelineSchedule
from ..job.search import CpComm, Offload, Recompute

Degree = Annotated[int, Field(ge=1)]
Scaling = Literal["tensor", "row", "block"]
GradDtype = Literal["fp32", "bf16"]


class Launch(BaseModel):
    """One training job, laid out.

    What has no effect is set to its neutral value, so that equal jobs compare equal: ``sp`` without
    TP, ``cp_comm`` without CP, ``etp`` without experts, modules without selective recomputation.

    Attributes
    ----------
    tp, sp, pp, vpp, cp, ep, etp, dp, dp_replicate, zero
        Degrees as in ``solver.plan.Layout``; ``vpp`` is the virtual stages of a stage.
    order
        Axes in rank order, innermost first.
    layers
        Layers of each stage.
    mtp_layers, experts
        Multi-token-prediction modules and routed experts of the model.
    micro_batch, global_batch
        Sequences.
    seq_len
        Tokens a sequence.
    steps
        Optimizer steps of the run; None where the run has no length.
    recompute, recompute_modules
        Kind, and what the selective one repeats.
    recomputed_layers
        Layers of each stage that are recomputed in full besides; None for none.
    precision, fp8_scaling
        Recipe of the matrix products, and what shares a scale in ``fp8``.
    optimizer, grad_dtype
        Optimizer with its states, and what gradients are accumulated in.
    cp_comm, offload, schedule
        As in ``solver.plan.Options``.
    overlap_data, overlap_tensor
        Data-parallel and tensor-parallel traffic runs under compute.
    deduplicated
        Expert dispatch sends a token once to a rank (DeepEP).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    tp: Degree = 1
    sp: bool = False
    pp: Degree = 1
    vpp: Degree = 1
    cp: Degree = 1
    ep: Degree = 1
    etp: Degree = 1
    dp: Degree = 1
    dp_replicate: Degree = 1
    zero: Annotated[int, Field(ge=0, le=3)] = 0
    order: str = MEGATRON_ORDER
    layers: tuple[int, ...]
    mtp_layers: int = 0
    experts: int = 0
    micro_batch: Degree = 1
    global_batch: Degree
    seq_len: Degree
    steps: int | None = None
    recompute: Recompute = "none"
    recompute_modules: tuple[str, ...] = ()
    recomputed_layers: tuple[int, ...] | None = None
    precision: Precision = "bf16"
    fp8_scaling: Scaling = "tensor"
    optimizer: Optimizer = "adamw"
    grad_dtype: GradDtype = "fp32"
    cp_comm: CpComm = "ring"
    offload: Offload = "none"
    schedule: PipelineSchedule = "1f1b"
    overlap_data: bool = False
    overlap_tensor: bool = False
    deduplicated: bool = False

    @model_validator(mode="before")
    @classmethod
    def _neutral(cls, data: dict[str, object]) -> dict[str, object]:
        """Set what has no effect to its neutral value."""
        plain = dict(data)
        if plain.get("tp", 1) == 1:
            plain["sp"] = False
        if not (plain.get("tp", 1) != 1 and plain.get("sp")):
            plain["overlap_tensor"] = False
        if plain.get("cp", 1) == 1:
            plain["cp_comm"] = "ring"
        if not plain.get("experts"):
            plain |= {"ep": 1, "etp": 1}
        if plain.get("ep", 1) == 1:
            plain["deduplicated"] = False
        if plain.get("pp", 1) == 1:
            plain["schedule"] = "1f1b"
        if plain.get("recompute") != "selective":
            plain["recompute_modules"] = ()
        if plain.get("precision") != "fp8":
            plain["fp8_scaling"] = "tensor"
        if plain.get("dp", 1) == plain.get("cp", 1) == 1:
            plain["overlap_data"] = False
        return plain

    @model_validator(mode="after")
    def _whole_stages(self) -> Self:
        if len(self.layers) != self.pp:
            raise ValueError(f"{len(self.layers)} stages of layers for pp {self.pp}")
        return self

    @property
    def gpus(self) -> int:
        """Ranks of the job."""
        return self.tp * self.pp * self.cp * self.dp

    @property
    def dp_shard(self) -> int:
        """Data-parallel ranks that share one copy of the sharded states."""
        return self.dp // self.dp_replicate

    @property
    def microbatches(self) -> int:
        """Micro-batches of a step on each rank: gradient accumulation."""
        return self.global_batch // (self.dp * self.micro_batch)

    @property
    def total_layers(self) -> int:
        """Layers of the model."""
        return sum(self.layers)


class Run(BaseModel):
    """The machine of a launch and how long it takes.

    Attributes
    ----------
    nodes, gpus_per_node, gpu
        Whole nodes that are held, and the id of their GPU.
    framework
        Whose trainer is started.
    step_s, wall_clock_s
        Predicted time of a step, and of the run where it has a length, checkpoints and failures
        in it.
    write_s, interval_s
        Time to write a checkpoint, and the training time between two.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    nodes: Degree
    gpus_per_node: Degree
    gpu: str
    framework: Literal["megatron", "fsdp"]
    step_s: float
    wall_clock_s: float | None
    write_s: float
    interval_s: float
