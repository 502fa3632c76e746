"""Fields of a problem that are set from outside a file, and how they are laid over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Setting:
    """One field: its dotted name, the type of its text, what a value looks like, what it means."""

    field: str
    kind: type
    example: str
    meaning: str
    several: bool = False
    """Whether the flag may be repeated."""

    @property
    def name(self) -> str:
        """Short name: the last part of the field; the objective's goes by its section."""
        section, _, last = self.field.rpartition(".")
        return section if last == "minimise" else last


SETTINGS = (
    Setting("model", str, "ID", "Model id, or a Hugging Face config.json."),
    Setting("cluster", str, "NxGxGPU", "Nodes x GPUs a node x GPU, e.g. 8x8xH100."),
    Setting("search.gpus", int, "N", "Use exactly so many GPUs."),
    Setting("search.max_gpus", int, "N", "Use at most so many GPUs."),
    Setting("search.fix", str, "tp=8", "A degree that every plan has.", several=True),
    Setting("search.forbid", str, "pp", "An axis, or a degree (tp=3), of no plan.", several=True),
    Setting("search.max", str, "tp=8", "Largest degree of an axis.", several=True),
    Setting("search.min", str, "dp=4", "Smallest degree of an axis.", several=True),
    Setting("search.stages", str, "even|refine|free", "Layers a stage: by rule, or chosen."),
    Setting("training.tokens", str, "100B", "Tokens of the whole run."),
    Setting("training.global_batch", str, "1024seq", "Sequences or tokens (4Mtok) a step."),
    Setting("training.seq_len", int, "N", "Tokens a sequence."),
    Setting("training.precision", str, "bf16", "bf16, fp16, fp8, mxfp8 or nvfp4."),
    Setting("training.optimizer", str, "adamw", "adamw, adamw16, adamw8bit, lion, sgd, muon, …"),
    Setting("search.offload", str, "optimizer", "What lives on the host: optimizer[+activations]."),
    Setting("finetune.lora_rank", int, "N", "Train adapters of this rank on a frozen base."),
    Setting("finetune.base_bits", int, "16|8|4", "Bits of a frozen base weight (QLoRA: 4)."),
    Setting("finetune.frozen_layers", int, "N", "First layers that are not trained."),
    Setting("finetune.reference_model", bool, "", "A frozen copy runs forward too (DPO)."),
    Setting("cluster.price", str, "2.50", "USD per GPU-hour."),
    Setting("cluster.prices", str, "spot=1.60,…", "Prices of on-demand, reserved and spot nodes."),
    Setting(
        "objective.minimise",
        str,
        "time|cost|…",
        "time, cost; in order time,cost,gpus,memory; or gpus, seq_len, params, global_batch.",
    ),
    Setting("objective.pareto", bool, "", "Find the front of time, cost and GPUs."),
    Setting("objective.price_kinds", str, "spot,…", "Only these kinds of the prices."),
    Setting("objective.top", int, "N", "Plans to return."),
    Setting("objective.tolerance", str, "3%", "Plans closer than this count as equal."),
    Setting("objective.gap", str, "1%", "Stop once no plan can be so much better."),
    Setting("limits.mem_headroom", str, "10%", "Usable memory that stays free."),
    Setting("limits.max_bubble", str, "15%", "Largest pipeline bubble."),
    Setting("limits.max_comm", str, "20%", "Largest communication over compute."),
    Setting("limits.comm_metric", str, "exposed|total", "Communication that max-comm counts."),
    Setting("limits.deadline", str, "30d", "Longest run."),
    Setting("limits.budget", str, "50000", "Largest cost in USD."),
    Setting("reliability.failures", float, "3.79", "Count so many failures per 1,000 node-days."),
    Setting("cost_model", str, "calibrated|textbook", "Account of time and memory."),
    Setting("mfu", str, "40%", "Utilisation that the textbook account takes."),
    Setting("charge_recompute", bool, "", "Textbook: full recomputation costs a third more."),
    Setting("profile", str, "NAME", "Fitted constants, or a file that calibrate wrote."),
    Setting("framework", str, "megatron|fsdp", "Training framework."),
)


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Turn dotted fields into the nested values of a problem file.

    A cluster in shorthand is spelled out where a price goes with it; what is wrong with the
    shorthand is left for the reader to say.
    """
    found: dict[str, Any] = {}
    for field, value in _with_replaced(values).items():
        section, _, key = field.partition(".")
        if not key:
            found[section] = value
        elif isinstance(found.get(section), str):
            found[section] = _with(found[section], key, value)
        else:
            found.setdefault(section, {})[key] = value
    return found


def _with_replaced(values: Mapping[str, Any]) -> dict[str, Any]:
    """Let one price take the place of a file's several, and the other way round."""
    replaced = {"cluster.price": "cluster.prices", "cluster.prices": "cluster.price"}
    gone = {other: None for field, other in replaced.items() if field in values}
    return {**gone, **values}


def _with(shorthand: str, key: str, value: Any) -> Any:
    from topology.spec import ClusterSpec  # noqa: PLC0415 - this table is read at every start

    try:
        spec = ClusterSpec.model_validate(shorthand)
    except ValueError:
        return shorthand
    return {**{name: getattr(spec, name) for name in spec.model_fields_set}, key: value}
