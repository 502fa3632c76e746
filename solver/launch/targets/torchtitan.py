"""Command-line overrides of torchtitan's trainer."""

from __future__ import annotations

from topology.placement import MEGATRON_ORDER

from ..chunks import chunk_layers, torchtitan_ends
from ..description import Launch, Run
from ..errors import Refusals
from ..tables import table
from .base import Exported, Target, Wanted, Words, lines, words_of

NAME = "torchtitan"
VERSIONS = tuple(table(NAME)["versions"])
SAYS = frozenset(
    {
        "tp", "sp", "pp", "vpp", "cp", "ep", "dp", "dp_replicate", "zero", "layers", "micro_batch",
        "global_batch", "seq_len", "steps", "recompute", "recompute_modules", "precision",
    }
)  # fmt: skip
RESHARD = {2: "never", 3: "always"}
"""FSDP that keeps gathered weights is ZeRO 2 until the backward pass has used them."""
OPERATORS = ("operators",)
"""torchtitan's selective recomputation repeats every other product and all elementwise kernels."""
SCHEDULES = {False: "1F1B", True: "Interleaved1F1B"}


def write(launch: Launch, run: Run, wanted: Wanted) -> Exported:
    """Write the overrides, in the names of a release."""
    _refuse(launch)
    options = arguments(launch, wanted.version or VERSIONS[0])
    notes = ("--module and --config name the model and its defaults, e.g. llama3 llama3_70b",)
    return Exported(lines(options), "torchtitan.args", notes, words_of(options))


def _refuse(launch: Launch) -> None:
    out = Refusals(NAME)
    chunks = chunk_layers(launch)
    out.unless(
        chunks is not None and (launch.pp == 1 or torchtitan_ends(chunks) is not None),
        "stage_layers",
        f"stages of {'/'.join(map(str, launch.layers))} layers: layers are only taken off the "
        "ends (less_layers).",
        "Solve with --stages even, or another pp.",
    )
    out.unless(
        launch.zero >= min(RESHARD) or (launch.zero == 0 and launch.cp == 1),
        "zero",
        f"no ZeRO {launch.zero} there: FSDP shards weights, gradients and states alike, or "
        "replicas share nothing.",
        "Use --fix zero=3, zero=2, or zero=0 without CP.",
    )
    out.unless(
        launch.order == MEGATRON_ORDER,
        "order",
        "stages are always outermost there.",
        f"Use order {MEGATRON_ORDER}.",
    )
    out.unless(
        launch.schedule == "1f1b",
        "schedule",
        "its InterleavedZeroBubble, which is zb-h1 with one stage a rank, takes two or more.",
        "Use --fix schedule=1f1b.",
    )
    out.unless(
        launch.etp == 1,
        "etp",
        "no degree of tensor parallelism of its own for experts.",
        "Use --fix etp=1, i.e. search: {etp: 1}.",
    )
    out.unless(
        launch.dp_shard * launch.cp * launch.tp % launch.ep == 0,
        "ep",
        f"ep {launch.ep} does not divide dp_shard x cp x tp.",
        "Use fewer replicas.",
    )
    selective = launch.recompute == "selective"
    out.unless(
        not selective or launch.recompute_modules == OPERATORS,
        "recompute",
        "its selective recomputation works by operators and keeps the attention core, which "
        "the plan repeats.",
        "Solve with recompute none or full.",
    )
    out.unless(
        launch.recomputed_layers is None,
        "recomputed_layers",
        "recomputes all layers alike.",
        "Solve with --stages even.",
    )
    out.unless(
        launch.precision == "bf16",
        "precision",
        f"{launch.precision} is set in its configuration's code, not by an option.",
        "Plan with --precision bf16.",
    )
    out.unless(
        launch.grad_dtype == "fp32",
        "grad_dtype",
        "gradients are reduced in fp32 only.",
        "Plan with grad_dtype: fp32.",
    )
    out.unless(
        launch.optimizer == "adamw",
        "optimizer",
        f"{launch.optimizer} is set in its configuration's code.",
        "Plan for adamw.",
    )
    out.unless(
        launch.cp_comm == "ring",
        "cp_comm",
        "context parallelism passes keys and values round.",
        "Plan with cp_comm: ring.",
    )
    out.unless(
        launch.offload == "none",
        "offload",
        "enable_cpu_offload moves weights and gradients too.",
        "Plan without.",
    )
    out.settle()


def arguments(launch: Launch, version: str) -> tuple[Words, ...]:
    """Return the overrides of a launch that was found expressible."""
    shard = launch.dp_shard if launch.zero else 1
    values = {
        "parallelism.tensor_parallel_degree": launch.tp,
        "parallelism.pipeline_parallel_degree": launch.pp,
        "parallelism.context_parallel_degree": launch.cp,
        "parallelism.data_parallel_replicate_degree": launch.dp // shard,
        "parallelism.data_parallel_shard_degree": shard,
        **({"parallelism.expert_parallel_degree": launch.ep} if launch.experts else {}),
        **_pipeline(launch),
        **_batch(launch, version),
    }
    if launch.zero:
        values["parallelism.fsdp_reshard_after_forward"] = RESHARD[launch.zero]
    if launch.steps is not None:
        values["training.steps"] = launch.steps
    values["training.mixed_precision_param"] = "bfloat16"
    options: list[Words] = [(f"--{key}", str(value)) for key, value in values.items()]
    if launch.tp > 1:
        yes = "" if launch.sp else "no_"
        options.append((f"--parallelism.{yes}enable_sequence_parallel",))
    graphs = table(NAME)["versions"][version].get("without_graphs")
    if graphs is not None and (launch.pp > 1 or launch.ep > 1):
        options.append((f"--{graphs}",))
    # A subcommand takes every option after it for its own, so it comes last.
    return (*options, (f"activation-checkpoint:{launch.recompute}",))


def _pipeline(launch: Launch) -> dict[str, object]:
    chunks = chunk_layers(launch) or ()
    ends = torchtitan_ends(chunks)
    if launch.pp == 1 or ends is None:
        return {}
    values: dict[str, object] = {
        "pipeline_parallel_schedule": SCHEDULES[launch.vpp > 1],
        "pipeline_parallel_first_stage_less_layers": ends[0],
        "pipeline_parallel_last_stage_less_layers": ends[1],
    }
    if launch.vpp > 1:
        each = -(-(sum(chunks) + sum(ends)) // len(chunks))
        values["pipeline_parallel_layers_per_stage"] = each
    return {f"parallelism.{key}": value for key, value in values.items()}


def _batch(launch: Launch, version: str) -> dict[str, object]:
    """Say the batch: a pipeline takes all micro-batches of a step as one local batch."""
    names = table(NAME)["versions"][version]
    piped = launch.pp > 1
    local = launch.micro_batch * (launch.microbatches if piped else 1)
    scale = launch.seq_len if names["micro_batch"]["unit"].startswith("tokens") else 1
    each = launch.micro_batch if names["pipeline"]["unit"] == "sequences" else launch.microbatches
    values: dict[str, object] = {
        names["micro_batch"]["key"]: local * scale,
        names["global_batch"]["key"]: launch.global_batch * scale,
        names["seq_len"]["key"]: launch.seq_len,
    }
    return values | ({names["pipeline"]["key"]: each} if piped else {})


SEARCH = {"zero": (2, 3), "etp": (1,), "recompute": ("none", "full"), "stages": "even"}
TORCHTITAN = Target(NAME, write, SAYS, VERSIONS, SEARCH)
