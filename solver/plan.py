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
    stage_layers: tuple[int, ...] | None = None
    """Layers of each stage where they are not spread evenly."""

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


class GoodputShare(Output):
    """What failures and checkpoints take of the time on the nodes of a plan.

    ``share`` of wall-clock time trains; ``slowdown`` is its inverse, rounded up to a millionth as
    the search counts it; no mean time to failure and no interval where nothing fails.
    """

    share: float
    slowdown: float
    mttf_s: float | None
    checkpoint_bytes: float
    write_s: float
    interval_s: float | None
    restart_s: float


class Cost(Output):
    """GPU-hours and USD; of the whole run where tokens are given, else of one step.

    Failures, restarts and checkpoints are in every figure where ``goodput`` is given, in none
    otherwise.
    """

    steps: int | None
    wall_clock_s: float
    gpu_hours: float
    usd: float | None
    usd_per_million_tokens: float | None
    goodput: GoodputShare | None = None


class PlacedAxis(Output):
    """The groups of an axis: their ranks, and the worst link that one of them talks over.

    Attributes
    ----------
    axis
        ``tp``, ``cp``, ``ep``, ``etp``, ``pp``, ``dp``; under HSDP ``dp_shard`` and
        ``dp_replicate``; with experts ``edp``, the replicas of an expert.
    ranks, groups
        Members of a group, and groups.
    stride
        Distance between members: the first group is 0, stride, 2 stride …
    level, bytes_per_s, latency_s
        Innermost communication level that holds every group; per GPU and direction.
    """

    axis: str
    ranks: int
    groups: int
    stride: int
    level: str
    bytes_per_s: float
    latency_s: float


class PlanPlacement(Output):
    """Which rank runs where: node ranges and a rule, never an entry a rank.

    Attributes
    ----------
    order
        Axes, innermost first.
    nodes
        First and last of each run of nodes, in rank order.
    rule
        How ranks fall on the GPUs of these nodes.
    axes
        Axes above 1.
    """

    order: str
    nodes: tuple[tuple[int, int], ...]
    rule: str
    axes: tuple[PlacedAxis, ...]


class Options(Output):
    """What every stage and rank of a plan does alike.

    Attributes
    ----------
    precision
        Recipe of the matrix products.
    offload
        What lives in the nodes' memory.
    cp_comm
        How context parallelism exchanges.
    recompute_modules
        What selective recomputation repeats; empty where the account does not say.
    schedule
        Order of a pipeline's passes: ``1f1b`` (interleaved where there are virtual stages), or
        ``zb-h1``.
    """

    precision: str
    offload: str
    cp_comm: str
    recompute_modules: tuple[str, ...]
    schedule: str = "1f1b"


class Block(Output):
    """Consecutive stages of a pipeline on one kind of node.

    Attributes
    ----------
    gpu
        GPU of the nodes.
    first_stage, last_stage
        Stages, from 0.
    gpus, gpus_held, nodes
        GPUs used and paid for, and their nodes.
    usd_per_gpu_hour
        Price, where one is known.
    """

    gpu: str
    first_stage: int
    last_stage: int
    gpus: int
    gpus_held: int
    nodes: int
    usd_per_gpu_hour: float | None


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

    ``recompute`` is one kind, or ``first/middle/last`` where the stages differ;
    ``recomputed_layers`` of each stage are recomputed in full besides; ``blocks`` say which stages
    run on which nodes where these are of several kinds, and then there is no single ``placement``.
    """

    rank: int
    gpus: int
    nodes: int
    gpus_held: int
    layout: Layout
    placement: PlanPlacement | None
    axes: int
    batch: Batch
    recompute: str
    options: Options
    recomputed_layers: tuple[int, ...] | None = None
    blocks: tuple[Block, ...] = ()
    estimate: Estimate
    cost: Cost
    limits: tuple[LimitCheck, ...]
    on_front: bool = False
    notes: tuple[str, ...] = ()


class Relaxation(Output):
    """The smallest change of one limit, the others as they are, that makes a plan appear.

    Attributes
    ----------
    limit, field
        Limit (or ``gpus``), and where the problem file says it.
    have, to, unit
        What it is, and what it must become; ``to`` is None where no value of it suffices.
    text
        Need against have.
    command
        Flag, or line of the problem file, to try.
    layout
        The plan that then appears.
    """

    limit: str
    field: str
    have: float
    to: float | None
    unit: str
    text: str
    command: str
    layout: str


class Infeasibility(Output):
    """Why nothing fits.

    Attributes
    ----------
    reasons
        In words.
    clashes
        Minimal sets of limits: no plan keeps one of these sets, and each proper subset has a plan.
    relaxations
        What to change; one suffices.
    """

    reasons: tuple[str, ...]
    clashes: tuple[tuple[str, ...], ...]
    relaxations: tuple[Relaxation, ...]


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
    ``fastest`` stands next to the cheapest plan; ``refined`` is the best plan's layout with layers
    and recomputed layers chosen stage by stage, where that is better; ``expected_error`` is the
    mean absolute error of the step time of ``profile`` on runs it never saw; ``tolerance`` is the
    relative difference below which plans count as equal; ``measured`` is False where no training
    run of this GPU was ever fitted.
    """

    status: Status
    objective: Literal["time", "cost"]
    plans: tuple[Plan, ...]
    recommended: int | None
    fastest: Plan | None
    refined: Plan | None = None
    front: tuple[Plan, ...]
    profile: str
    expected_error: float
    tolerance: float
    measured: bool
    gpu_counts_considered: tuple[int, ...]
    certificate: Certificate
    infeasibility: Infeasibility | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
