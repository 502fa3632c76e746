"""What comes out: layout, estimate, plan, result. Frozen; bytes, seconds, USD."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Verdict = Literal["fits", "tight", "out_of_memory"]
Status = Literal["optimal", "feasible", "infeasible", "unknown"]


class Output(BaseModel):
    """Base of the results: frozen, no unknown field."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Layout(Output):
    """Degrees of a plan and the order in which ranks fill them, innermost first."""

    tp: int
    sp: bool
    pp: int
    vpp: int
    cp: int
    ep: int
    etp: int
    dp: int
    dp_shard: int
    dp_replicate: int
    zero: int
    order: str = "tp-cp-ep-dp-pp"

    @property
    def axes(self) -> int:
        """Axes above 1 among TP, PP, CP, EP, ETP and DP; HSDP counts one more."""
        return axes(self.tp, self.pp, self.cp, self.ep, self.etp, self.dp, self.dp_replicate)


def axes(tp: int, pp: int, cp: int, ep: int, etp: int, dp: int, dp_replicate: int) -> int:
    """Count the parallel axes of a layout, the measure of its simplicity."""
    return sum(degree > 1 for degree in (tp, pp, cp, ep, etp, dp, dp_replicate))


class Batch(Output):
    """How the global batch is cut: micro · accumulation · DP = global sequences."""

    micro_batch: int
    microbatches: int
    global_sequences: int
    global_tokens: int


class StageMemory(Output):
    """Bytes on one GPU of a stage, by item, against what the card offers."""

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


class Stage(Output):
    """Stages that are alike: the first of them, and how many there are.

    ``recomputed_layers`` of each are recomputed in full, the others by ``recompute``;
    ``microbatch_s`` is the time of one micro-batch, forward and backward; ``drain_s`` what is left
    once the pipeline has drained: data-parallel traffic, optimizer.
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
    """Memory and time of one plan."""

    stages: tuple[Stage, ...]
    time: StepTime
    peak_bytes: float
    worst_stage: int
    verdict: Verdict
    bubble_fraction: float
    communication_ratio: float
    communication_metric: Literal["exposed", "total"]


class Cost(Output):
    """GPU-hours and USD; of the whole run where tokens are given, else of one step."""

    steps: int | None
    wall_clock_s: float
    gpu_hours: float
    usd: float | None
    usd_per_million_tokens: float | None


class LimitCheck(Output):
    """One limit against a plan: value, limit, and what is left (negative when broken)."""

    id: str
    ok: bool
    value: float
    limit: float
    slack: float
    unit: str
    text: str


class Plan(Output):
    """A complete configuration with its estimate and the limits it keeps.

    ``recompute`` is one kind, or ``first/middle/last`` where the stages differ.
    """

    rank: int
    gpus: int
    nodes: int
    gpus_held: int
    layout: Layout
    axes: int
    batch: Batch
    recompute: str
    estimate: Estimate
    cost: Cost
    limits: tuple[LimitCheck, ...]
    on_front: bool = False
    notes: tuple[str, ...] = ()


class Certificate(Output):
    """Why the optimum is one: everything opened was closed, and nothing left can be better.

    Attributes
    ----------
    shapes
        Layout shapes that were looked at.
    dropped
        Shapes that a limit excludes, counted by the limit's name.
    opened
        Shapes that went into a CP-SAT model.
    models
        CP-SAT models solved, with how many ended OPTIMAL or INFEASIBLE.
    closed
        Models that ended proved.
    incumbent, next_bound, bound
        Objective of the best plan, least bound of what was never opened, certified lower bound.
    gap
        (incumbent - bound) / incumbent.
    """

    shapes: int
    dropped: dict[str, int]
    opened: int
    models: int
    closed: int
    incumbent: float | None
    next_bound: float | None
    bound: float | None
    gap: float | None


class Result(Output):
    """What ``solve`` returns: best plan first, then the next best different layouts.

    ``recommended`` is the rank of the simplest plan within the tolerance of the optimum;
    ``fastest`` stands next to the cheapest plan; ``expected_error`` is the mean absolute error of
    the step time of ``profile`` on runs it never saw; ``tolerance`` is the relative difference
    below which plans count as equal; ``measured`` is False where no training run of this GPU was
    ever fitted.
    """

    status: Status
    objective: Literal["time", "cost"]
    plans: tuple[Plan, ...]
    recommended: int | None
    fastest: Plan | None
    front: tuple[Plan, ...]
    profile: str
    expected_error: float
    tolerance: float
    measured: bool
    gpu_counts_considered: tuple[int, ...]
    certificate: Certificate
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
