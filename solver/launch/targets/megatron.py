"""Arguments of Megatron-LM's ``pretrain_gpt.py``."""

from __future__ import annotations

from topology.placement import STAGES_INSIDE

from ..chunks import chunk_layers, layout_text
from ..description import Launch, Run
from ..errors import Refusals
from ..tables import table
from .base import Exported, Target, Wanted, Words, lines, words_of

NAME = "megatron"
SAYS = frozenset(Launch.model_fields) - {"mtp_layers"}
CP_COMM = {"ring": "p2p", "all_to_all": "a2a"}
STRATEGY = {2: "optim_grads", 3: "optim_grads_params"}
"""Megatron-FSDP's names of ZeRO 2 and 3; ZeRO 1 is the distributed optimizer."""
FP8_RECIPE = {"tensor": "tensorwise", "block": "blockwise"}
MODULES = ("core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts")
"""What selective recomputation may name (megatron-core 0.16.1, TransformerConfig)."""


def write(launch: Launch, run: Run, wanted: Wanted) -> Exported:
    """Write the arguments that place, cut and time the work."""
    refuse(launch, NAME)
    options = arguments(launch)
    notes = ["the model's, the data's and logging arguments are yours to add"]
    if launch.schedule == "zb-h1":
        notes.append("--enable-zero-bubble is known to the zero-bubble fork of Megatron-LM alone")
    return Exported(lines(options), "megatron.args", tuple(notes), words_of(options))


def arguments(launch: Launch) -> tuple[Words, ...]:
    """Return the arguments of a launch that was found expressible."""
    return (
        *_parallel(launch),
        *stages(launch),
        *_experts(launch),
        *_sharding(launch),
        *_batch(launch),
        *_recompute(launch),
        *_precision(launch),
        *_optimizer(launch),
    )


def refuse(launch: Launch, target: str) -> None:
    """Refuse what Megatron-LM and Megatron-Bridge have no option for.

    Raises
    ------
    LaunchError
        With every reason.
    """
    out = Refusals(target)
    out.unless(
        chunk_layers(launch) is not None,
        "stage_layers",
        "an end of the model would hold less than no layer.",
        "Use --fix vpp=1.",
    )
    out.unless(
        launch.recomputed_layers is None or block_layers(launch) is not None,
        "recomputed_layers",
        f"{launch.recompute} with {launch.recomputed_layers} layers in full: "
        "--recompute-method block takes one number for all stages, and no kind besides.",
        "Solve with --stages even, or take another --rank.",
    )
    out.unless(
        launch.schedule == "1f1b" or target == NAME,
        "schedule",
        "no zb-h1 there: the zero-bubble fork of Megatron-LM (--to megatron) has it.",
        "Use --fix schedule=1f1b.",
    )
    unknown = set(launch.recompute_modules) - set(MODULES)
    out.unless(
        not unknown,
        "recompute_modules",
        f"no module {', '.join(sorted(unknown))} there.",
        f"Choose {', '.join(MODULES)}.",
    )
    out.unless(
        launch.optimizer in ("adamw", "adamw16"),
        "optimizer",
        f"{launch.optimizer} with its states is none of --optimizer's.",
        "Plan for adamw or adamw16.",
    )
    aware = launch.optimizer == "adamw16" or launch.offload != "none"
    out.unless(
        launch.zero > 0 or not aware,
        "zero",
        "16-bit moments and offloading need the distributed optimizer.",
        "Use --min zero=1.",
    )
    out.unless(
        launch.offload != "optimizer+activations",
        "offload",
        "--cpu-offloading-num-layers leaves one layer on the GPU, and takes no pipeline.",
        "Plan with offload: optimizer.",
    )
    out.unless(
        launch.fp8_scaling in FP8_RECIPE,
        "precision",
        "no fp8 recipe with one scale a row.",
        "Use another profile.",
    )
    out.unless(
        launch.precision != "fp16" or launch.ep == 1,
        "precision",
        "expert parallelism refuses fp16.",
        "Plan with --precision bf16.",
    )
    out.settle()


def block_layers(launch: Launch) -> int | None:
    """Return N of ``--recompute-method block``, which recomputes N layers of each virtual stage.

    None where no number does what the launch asks.
    """
    again, chunks = launch.recomputed_layers, chunk_layers(launch)
    if again is None or chunks is None or launch.recompute != "none":
        return None
    number = -(-max(again) // launch.vpp)
    return number if recomputed(chunks, launch.pp, number) == again else None


def recomputed(chunks: tuple[int, ...], pp: int, number: int) -> tuple[int, ...]:
    """Return the layers that each stage recomputes where each virtual stage repeats N of its."""
    return tuple(sum(min(number, n) for n in chunks[stage::pp]) for stage in range(pp))


def _parallel(launch: Launch) -> list[Words]:
    options: list[Words] = [("--tensor-model-parallel-size", str(launch.tp))]
    if launch.sp:
        options.append(("--sequence-parallel",))
    if launch.overlap_tensor:
        options.append(("--tp-comm-overlap",))
    options.append(("--pipeline-model-parallel-size", str(launch.pp)))
    if launch.schedule == "zb-h1":
        # As many backwards pending as stages is the memory of 1F1B (the fork's README).
        pending = ("--zero-bubble-max-pending-backward", str(launch.pp))
        options += [("--enable-zero-bubble",), pending]
    options.append(("--context-parallel-size", str(launch.cp)))
    if launch.cp > 1:
        options.append(("--cp-comm-type", CP_COMM[launch.cp_comm]))
    if launch.order == STAGES_INSIDE:
        options.append(("--use-tp-pp-dp-mapping",))
    return options


def stages(launch: Launch) -> list[Words]:
    """Return the options that put layers on stages."""
    words = stage_words(launch)
    degree = [("--num-virtual-stages-per-pipeline-rank", str(launch.vpp))]
    virtual = degree if launch.vpp > 1 and "layout" not in words else []
    flags = {
        "first": "--decoder-first-pipeline-num-layers",
        "last": "--decoder-last-pipeline-num-layers",
        "embedding": "--account-for-embedding-in-pipeline-split",
        "loss": "--account-for-loss-in-pipeline-split",
        "layout": "--pipeline-model-parallel-layout",
    }
    return virtual + [
        (flags[k], str(v)) if v is not True else (flags[k],) for k, v in words.items()
    ]


def stage_words(launch: Launch) -> dict[str, int | str | bool]:
    """Say in Megatron's terms how layers fall on stages; nothing where they are even.

    Keys: ``first`` and ``last`` layers of an end, ``embedding`` and ``loss`` counted as a layer,
    or the whole ``layout``.
    """
    chunks = chunk_layers(launch) or ()
    size = max(chunks)
    lack_first, lack_last = size - chunks[0], size - chunks[-1]
    level = all(n == size for n in chunks[1:-1])
    if lack_first == lack_last == 0 and level:
        return {}
    if level and lack_first <= 1 and lack_last <= 1 and min(chunks) > 0:
        counted = {"embedding": bool(lack_first), "loss": bool(lack_last)}
        return {name: True for name, counts in counted.items() if counts}
    if launch.vpp == 1 and len(set(launch.layers[1:-1])) <= 1 and min(chunks) > 0:
        return _ends(launch.layers)
    return {"layout": layout_text(chunks, launch.mtp_layers)}


def _ends(layers: tuple[int, ...]) -> dict[str, int | str | bool]:
    middle = layers[1] if len(layers) > 2 else layers[-1]  # noqa: PLR2004 - both ends and one more
    ends = {"first": layers[0], "last": layers[-1]}
    return {name: count for name, count in ends.items() if count != middle}


def _experts(launch: Launch) -> list[Words]:
    if not launch.experts:
        return []
    kind = "flex" if launch.deduplicated else "alltoall"
    return [
        ("--expert-model-parallel-size", str(launch.ep)),
        ("--expert-tensor-parallel-size", str(launch.etp)),
        *([("--moe-token-dispatcher-type", kind)] if launch.ep > 1 else []),
    ]


def _sharding(launch: Launch) -> list[Words]:
    options: list[Words] = [("--use-distributed-optimizer",)] if launch.zero else []
    if launch.zero in STRATEGY:
        options += [
            ("--use-megatron-fsdp",),
            ("--data-parallel-sharding-strategy", STRATEGY[launch.zero]),
            ("--ckpt-format", "fsdp_dtensor"),
        ]
    if launch.dp_replicate > 1:
        options.append(("--num-distributed-optimizer-instances", str(launch.dp_replicate)))
    if launch.overlap_data:
        options.append(("--overlap-grad-reduce",))
        options += [("--overlap-param-gather",)] if launch.zero else []
    return options


def _batch(launch: Launch) -> list[Words]:
    return [
        ("--micro-batch-size", str(launch.micro_batch)),
        ("--global-batch-size", str(launch.global_batch)),
        ("--seq-length", str(launch.seq_len)),
        *([("--train-iters", str(launch.steps))] if launch.steps is not None else []),
    ]


def _recompute(launch: Launch) -> list[Words]:
    if launch.recompute == "selective":
        return [
            ("--recompute-granularity", "selective"),
            ("--recompute-modules", *launch.recompute_modules),
        ]
    if launch.recompute == "none" and launch.recomputed_layers is None:
        return []
    method, number = ("uniform", 1) if launch.recompute == "full" else ("block", None)
    return [
        ("--recompute-granularity", "full"),
        ("--recompute-method", method),
        ("--recompute-num-layers", str(number or block_layers(launch))),
    ]


def _precision(launch: Launch) -> list[Words]:
    options: list[Words] = [("--fp16",) if launch.precision == "fp16" else ("--bf16",)]
    if launch.precision == "fp8":
        recipe = FP8_RECIPE[launch.fp8_scaling]
        options += [("--fp8-format", "hybrid"), ("--fp8-recipe", recipe)]
    elif launch.precision == "mxfp8":
        options += [("--fp8-format", "e4m3"), ("--fp8-recipe", "mxfp8")]
    elif launch.precision == "nvfp4":
        options += [("--fp4-format", "e2m1"), ("--fp4-recipe", "nvfp4")]
    if launch.grad_dtype == "fp32":
        options.append(("--accumulate-allreduce-grads-in-fp32",))
    elif launch.precision != "fp16":
        options.append(("--grad-reduce-in-bf16",))
    return options


def _optimizer(launch: Launch) -> list[Words]:
    options: list[Words] = [("--optimizer", "adam")]
    if launch.optimizer == "adamw16" or launch.offload != "none":
        options.append(("--use-precision-aware-optimizer",))
    if launch.optimizer == "adamw16":
        options += [("--exp-avg-dtype", "bf16"), ("--exp-avg-sq-dtype", "bf16")]
    if launch.offload != "none":
        options += [
            ("--optimizer-cpu-offload",),
            ("--optimizer-offload-fraction", "1.0"),
            ("--overlap-cpu-optimizer-d2h-h2d",),
        ]
    return options


MEGATRON = Target(NAME, write, SAYS, (str(table(NAME)["version"]),), {"stages": "even"})
