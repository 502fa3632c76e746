"""A launch out of Megatron-LM's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topology.errors import InputError, Problem
from topology.placement import MEGATRON_ORDER, STAGES_INSIDE

from ...job.job import PlanningProblem
from ..tables import table
from ..targets.megatron import CP_COMM, FP8_RECIPE, STRATEGY
from .arguments import Options, read_options
from .base import Reading, Text
from .megatron_stages import stage_fields

DTYPES = {"fp32": "adamw", "bf16": "adamw16"}
LAUNCHER = ("--nnodes", "--nproc-per-node", "--nproc_per_node")


def read(text: Text, problem: PlanningProblem) -> Reading:
    """Read arguments, or a script that holds them.

    Raises
    ------
    InputError
        With what Megatron-LM would refuse, and with options that look mistyped.
    """
    data = table("megatron")
    takes = {name: _takes(entry) for name, entry in data["options"].items()}
    shape = {"--num-layers": "one", "--num-experts": "one"}
    shape |= data["fork_options"]
    started = dict.fromkeys(LAUNCHER, "one")
    others = set(data["others"]) - set(shape)
    options = read_options(text, {**takes, **shape, **started}, others)
    _refuse(options, data["options"], problem)
    fields = {
        **_degrees(options),
        **_sharding(options),
        **_batch(options),
        **_recompute(options),
        **_precision(options),
        **_optimizer(options),
    }
    moe = problem.job.transformer.moe
    if moe is not None:
        fields["etp"] = options.number("--expert-tensor-parallel-size", fields["tp"])
    fields |= stage_fields(options, fields, problem)
    return Reading(fields, _notes(options, fields), _gpus(options))


def _takes(entry: Any) -> str:
    return str(entry["takes"] if isinstance(entry, Mapping) else entry)


def _gpus(options: Options) -> int | None:
    each = next((name for name in LAUNCHER[1:] if options.has(name)), None)
    if each is None:
        return None
    return options.number("--nnodes", 1) * options.number(each, 1)


def _refuse(options: Options, table_: Mapping[str, Any], problem: PlanningProblem) -> None:
    """Refuse what the options say against each other.

    Raises
    ------
    InputError
        With every clash.
    """
    has, model = options.has, problem.job.transformer
    for name, entry in table_.items():
        if isinstance(entry, Mapping) and has(name):
            options.choice(name, map(str, entry["choices"]))
    fsdp = has("--use-megatron-fsdp") or has("--use-torch-fsdp2")
    sharded = has("--use-distributed-optimizer") or has("--use-megatron-fsdp")
    sp = has("--sequence-parallel")
    many_tp = options.number("--tensor-model-parallel-size", 1) > 1
    many_pp = options.number("--pipeline-model-parallel-size", 1) > 1
    rules = (
        (sp and not many_tp, "--sequence-parallel", "needs tensor parallelism."),
        (has("--tp-comm-overlap") and not sp, "--tp-comm-overlap", "needs --sequence-parallel."),
        (has("--fp16") and has("--bf16"), "--fp16", "and --bf16 exclude each other."),
        (has("--fp8-format") and has("--fp4-format"), "--fp4-format",
         "and --fp8-format exclude each other."),
        (has("--overlap-param-gather") and not sharded, "--overlap-param-gather",
         "needs --use-distributed-optimizer."),
        (has("--overlap-param-gather") and not has("--overlap-grad-reduce"),
         "--overlap-param-gather", "needs --overlap-grad-reduce."),
        (has("--use-precision-aware-optimizer") and not sharded, "--use-precision-aware-optimizer",
         "needs --use-distributed-optimizer."),
        (has("--optimizer-cpu-offload") and not has("--use-precision-aware-optimizer"),
         "--optimizer-cpu-offload", "needs --use-precision-aware-optimizer."),
        (has("--use-torch-fsdp2") and (many_pp or has("--use-distributed-optimizer")),
         "--use-torch-fsdp2", "takes neither a pipeline nor --use-distributed-optimizer."),
        (has("--use-megatron-fsdp") and options.text("--ckpt-format") != "fsdp_dtensor",
         "--use-megatron-fsdp", "needs --ckpt-format fsdp_dtensor."),
        (has("--data-parallel-sharding-strategy") and not fsdp,
         "--data-parallel-sharding-strategy", "has no effect without --use-megatron-fsdp."),
        (has("--grad-reduce-in-bf16") and has("--accumulate-allreduce-grads-in-fp32"),
         "--grad-reduce-in-bf16", "and --accumulate-allreduce-grads-in-fp32 exclude each other."),
        (has("--cpu-offloading-num-layers") and many_pp, "--cpu-offloading-num-layers",
         "takes no pipeline."),
        (has("--enable-zero-bubble") and options.text("--zero-bubble-max-pending-backward")
         != options.text("--pipeline-model-parallel-size", "1"), "--enable-zero-bubble",
         "is estimated with as many --zero-bubble-max-pending-backward as stages only (zb-h1)."),
        (not has("--micro-batch-size"), "--micro-batch-size", "is missing."),
        (has("--expert-model-parallel-size") and model.moe is None
         and options.number("--expert-model-parallel-size", 1) > 1,
         "--expert-model-parallel-size", f"{model.name} has no experts."),
    )  # fmt: skip
    found = [options.source.fault(name, why) for broken, name, why in rules if broken]
    found += _other_model(options, problem)
    if found:
        raise InputError(*found)


def _other_model(options: Options, problem: PlanningProblem) -> list[Problem]:
    """Find where the arguments train another model than the problem's."""
    model = problem.job.transformer
    have = {"--num-layers": model.layers, "--num-experts": model.moe.experts if model.moe else 0}
    return [
        options.source.fault(name, f"{options.number(name, 1)} given, {model.name} has {count}.",
                             "Name the model that these arguments train.")
        for name, count in have.items()
        if options.has(name) and options.number(name, 1) != count
    ]  # fmt: skip


def _degrees(options: Options) -> dict[str, Any]:
    comms = {theirs: ours for ours, theirs in CP_COMM.items()}
    inside = options.has("--use-tp-pp-dp-mapping")
    tp = options.number("--tensor-model-parallel-size", 1)
    return {
        "tp": tp,
        "sp": options.has("--sequence-parallel"),
        "pp": options.number("--pipeline-model-parallel-size", 1),
        "cp": options.number("--context-parallel-size", 1),
        "ep": options.number("--expert-model-parallel-size", 1),
        "cp_comm": comms[options.choice("--cp-comm-type", comms, "p2p")],
        "order": STAGES_INSIDE if inside else MEGATRON_ORDER,
        "schedule": "zb-h1" if options.has("--enable-zero-bubble") else "1f1b",
        "overlap_tensor": options.has("--tp-comm-overlap"),
        "overlap_data": options.has("--overlap-grad-reduce"),
        "deduplicated": options.text("--moe-token-dispatcher-type") == "flex",
    }


def _sharding(options: Options) -> dict[str, Any]:
    zero = 1 if options.has("--use-distributed-optimizer") else 0
    if options.has("--use-megatron-fsdp"):
        strategies = {"no_shard": 0, "optim": 1, **{name: n for n, name in STRATEGY.items()}}
        strategy = options.text("--data-parallel-sharding-strategy", STRATEGY[3])
        zero = strategies[strategy]
    elif options.has("--use-torch-fsdp2"):
        zero = 2 if options.has("--torch-fsdp2-no-reshard-after-forward") else 3
    return {
        "zero": zero,
        "dp_replicate": options.number("--num-distributed-optimizer-instances", 1),
    }


def _batch(options: Options) -> dict[str, Any]:
    numbers = {
        "micro_batch": "--micro-batch-size",
        "global_batch": "--global-batch-size",
        "seq_len": "--seq-length",
        "steps": "--train-iters",
    }
    fields = {f: options.number(name, 1) for f, name in numbers.items() if options.has(name)}
    if options.has("--train-samples") and "global_batch" in fields:
        fields["steps"] = -(-options.number("--train-samples", 1) // fields["global_batch"])
    return fields


def _recompute(options: Options) -> dict[str, Any]:
    kind = options.text("--recompute-granularity")
    number = options.has("--recompute-num-layers")
    if options.has("--recompute-activations") and not kind:
        kind = "selective"
    if kind == "selective" and (number or options.has("--recompute-method")):
        message = "selective takes neither --recompute-method nor --recompute-num-layers."
        raise InputError(options.source.fault("--recompute-granularity", message))
    if kind == "full" and not (number and options.has("--recompute-method")):
        message = "full needs --recompute-method and --recompute-num-layers."
        raise InputError(options.source.fault("--recompute-granularity", message))
    if kind == "selective":
        modules = options.values.get("--recompute-modules") or ("core_attn",)
        return {"recompute": kind, "recompute_modules": modules}
    whole = kind == "full" and options.text("--recompute-method") == "uniform"
    return {"recompute": "full" if whole else "none"}


def _precision(options: Options) -> dict[str, Any]:
    half = options.has("--fp16")
    precision = "fp16" if half else "bf16"
    scaling = {theirs: ours for ours, theirs in FP8_RECIPE.items()}
    recipe = options.text("--fp8-recipe", "delayed")
    if options.has("--fp8-format"):
        precision = "mxfp8" if recipe == "mxfp8" else "fp8"
    elif options.has("--fp4-format"):
        precision = "nvfp4"
    fp32 = options.has("--accumulate-allreduce-grads-in-fp32")
    short = options.has("--grad-reduce-in-bf16") or (half and not fp32)
    return {
        "precision": precision,
        "fp8_scaling": scaling.get(recipe, "tensor"),
        "grad_dtype": "bf16" if short else "fp32",
    }


def _optimizer(options: Options) -> dict[str, Any]:
    name = options.text("--optimizer", "adam")
    first, second = (options.text(f"--{m}-dtype", "fp32") for m in ("exp-avg", "exp-avg-sq"))
    if name == "adam" and (first != second or first not in DTYPES):
        message = f"moments in {first} and {second} have no recipe here."
        raise InputError(options.source.fault("--exp-avg-dtype", message, "Use fp32 or bf16."))
    known = {"adam": DTYPES.get(first, ""), "sgd": "sgd", "muon": "muon", "lion": "lion"}
    if name not in known:
        message = f"'{name[:40]}' has no recipe here. Choose {', '.join(known)}."
        raise InputError(options.source.fault("--optimizer", message, code="SP112"))
    if options.has("--fine-grained-activation-offloading"):
        message = "moves some activations; estimates know all of them or none."
        raise InputError(
            options.source.fault("--fine-grained-activation-offloading", message, code="SP115")
        )
    offloads = options.has("--optimizer-cpu-offload")
    return {"optimizer": known[name], "offload": "optimizer" if offloads else "none"}


def _notes(options: Options, fields: Mapping[str, Any]) -> tuple[str, ...]:
    notes = []
    if options.passed_over:
        notes.append(f"not looked at: {', '.join(options.passed_over)}")
    if fields["tp"] > 1 and not fields["sp"]:
        notes.append("without --sequence-parallel activations are larger than estimated")
    return tuple(notes)
