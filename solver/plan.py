"""A plan: layout, batch, placement, estimate, cost, limits."""

from __future__ import annotations

from .estimate import Estimate, Output


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
    run on which nodes where these are of several kinds, and then there is no single ``placement``;
    ``price_kind`` is the contract whose price and interruptions its cost counts, if one is named.
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
    price_kind: str = ""
    notes: tuple[str, ...] = ()
