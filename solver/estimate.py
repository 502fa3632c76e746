"""The estimate of a plan: memory of its stages, parts of its step. Frozen; bytes, seconds."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Verdict = Literal["fits", "tight", "out_of_memory"]


class Output(BaseModel):
    """Base of the results: frozen, no unknown field."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StageMemory(Output):
    """Bytes on one GPU of a stage, by item, against what the card offers.

    ``oom_probability`` is the chance of running out by the profile's expected error of a peak;
    None where no error was measured (the textbook account). ``host_bytes`` is what the GPU's rank
    keeps in its node's memory.
    """

    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    logits_bytes: float
    buffers_bytes: float
    reserve_bytes: float
    total_bytes: float
    limit_bytes: float
    usable_bytes: float
    verdict: Verdict
    oom_probability: float | None = None
    host_bytes: float = 0.0

    @property
    def fill(self) -> float:
        """Need over limit: the stage with the largest is the worst."""
        return self.total_bytes / self.limit_bytes


class Stage(Output):
    """Stages that are alike: the first of them, and how many there are.

    ``recomputed_layers`` of each are recomputed in full, the others by ``recompute``;
    ``microbatch_s`` is the time of one micro-batch, forward and backward; ``spared_s`` what of it
    the schedule keeps out of the fill of the pipeline; ``drain_s`` what is left once the pipeline
    has drained: data-parallel traffic, optimizer.
    """

    name: Literal["first", "light", "heavy", "last"]
    index: int
    count: int
    layers: int
    dense_layers: int
    moe_layers: int
    has_embedding: bool
    has_head: bool
    recompute: Literal["none", "selective", "full"]
    recomputed_layers: int = 0
    gpu: str = ""
    microbatch_s: float
    spared_s: float = 0.0
    drain_s: float
    memory: StageMemory


class AxisTime(Output):
    """Communication of an axis in one step on the stage that sets the pace."""

    exposed_s: float
    total_s: float


class StepTime(Output):
    """One optimizer step, taken apart on the stage that sets the pace; the parts sum to it."""

    step_s: float
    compute_s: float
    recompute_s: float
    bubble_s: float
    communication: dict[str, AxisTime]
    optimizer_s: float
    overhead_s: float
    tokens_per_s_per_gpu: float
    model_flops_per_gpu_per_s: float
    mfu: float
    hfu: float


class Estimate(Output):
    """Memory and time of one plan.

    ``host_bytes_per_node`` is what a node full of the stage that keeps most there must have.
    """

    stages: tuple[Stage, ...]
    time: StepTime
    peak_bytes: float
    worst_stage: int
    verdict: Verdict
    bubble_fraction: float
    communication_ratio: float
    communication_metric: Literal["exposed", "total"]
    host_bytes_per_node: float = 0.0
