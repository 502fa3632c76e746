"""What is known: models and GPUs, with the source of every figure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import yaml

from topology.hardware import Gpu, gpus
from topology.units import GIB, show_bandwidth, show_bytes, show_count

from ..job.named import named_gpu, named_model
from ..job.presets import models
from ..job.transformer import Transformer
from .blocks import Column, Facts, Plain, Report, Sheet
from .cells import count, parameters, yes

TRAINING = 3
"""Training FLOPs over those of a forward pass: the backward pass takes two more."""


def list_models() -> Report:
    """List the known models."""
    rows = tuple(map(_model_row, models().values()))
    columns = (
        Column("id", "model", align="left"),
        Column("parameters", "parameters", parameters),
        Column("active_parameters", "active", parameters, drop=3),
        Column("layers", "layers", count),
        Column("hidden", "hidden", count, drop=2),
        Column("heads", "heads", count),
        Column("kv_heads", "KV heads", count),
        Column("vocab", "vocab", count, drop=1),
        Column("experts", "experts", count),
        Column("attention", "attention", align="left"),
    )
    return Report((Sheet(columns, rows),), {"models": rows}, rows)


def _model_row(model: Transformer) -> dict[str, Any]:
    counts = model.parameters()
    grouped = "GQA" if model.kv_heads < model.heads else "MHA"
    return {
        "id": model.name,
        "parameters": counts.total,
        "active_parameters": counts.active,
        "layers": model.layers,
        "hidden": model.hidden,
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "vocab": model.vocab,
        "experts": model.moe.experts if model.moe else None,
        "attention": "MLA" if model.mla else "MQA" if model.kv_heads == 1 else grouped,
    }


def show_model(model: str, seq_len: int) -> Report:
    """Report a model by id or config.json: parameters by block, FLOPs by both conventions."""
    return model_report(named_model(model), seq_len)


def model_report(model: Transformer, seq_len: int) -> Report:
    """Report one model: parameters by block, FLOPs by both conventions, the shape."""
    counts = dataclasses.asdict(model.parameters())
    times = {
        "embedding": 1, "positions": 1, "attention_per_layer": model.layers,
        "dense_mlp_per_layer": model.dense_layers, "router_per_layer": model.moe_layers,
        "expert": model.moe_layers * (model.moe.experts if model.moe else 0),
        "shared_expert_per_layer": model.moe_layers, "norms_per_layer": model.layers,
        "final_norm": 1, "head": 1, "mtp": 1,
    }  # fmt: skip
    rows = tuple(
        {"block": block, "each": counts[block], "times": number, "parameters":
         counts[block] * number}
        for block, number in times.items()
        if counts[block] * number
    )  # fmt: skip
    flops = {kind: TRAINING * model.flops_per_token(seq_len, kind) for kind in ("causal", "full")}
    columns = (
        Column("block", "block", lambda name: name.replace("_", " "), align="left"),
        Column("each", "each", count),
        Column("times", "×", count),
        Column("parameters", "parameters", count),
    )
    total = f"{counts['total']:,} ({show_count(counts['total'])})"
    facts = [
        ("Model", model.name),
        ("Parameters", total),
        ("Active", f"{counts['active']:,} a token"),
        *(
            (f"FLOPs/token, {kind}", f"{value:.4g} in training at seq {seq_len:,} ({note})")
            for (kind, value), note in zip(
                flops.items(), ("causal mask counted", "whole square counted"), strict=True
            )
        ),
        ("Source", model.source or "–"),
    ]
    if model.stated_parameters:
        facts.insert(2, ("Stated", f"{model.stated_parameters:,} in the textbook account"))
    shape = model.model_dump(mode="json", exclude_defaults=True, exclude={"source"})
    data = {
        "id": model.name,
        "shape": model.model_dump(mode="json"),
        "parameters": counts,
        "blocks": rows,
        "seq_len": seq_len,
        "training_flops_per_token": flops,
        "source": model.source,
    }
    shape_line = Facts(tuple((k, str(v)) for k, v in shape.items()), "Shape")
    return Report((Facts(tuple(facts)), Sheet(columns, rows, "By block"), shape_line), data, rows)


def import_model(config: str) -> Report:
    """Write a config.json as the ``model:`` mapping of a problem file."""
    model = named_model(config, "CONFIG")
    data = {"model": model.model_dump(mode="json", exclude_defaults=True)}
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return Report((Plain(text),), data, (data["model"],), {"yaml": lambda: text})


def list_hardware() -> Report:
    """List the known GPUs."""
    rows = tuple(map(_gpu_row, gpus().values()))
    columns = (
        Column("id", "GPU", align="left"),
        Column("usable_bytes", "usable GiB", lambda v: f"{v / GIB:.1f}"),
        Column("bf16_flops", "bf16 TF/s", _tera),
        Column("fp8_flops", "fp8 TF/s", _tera, drop=4),
        Column("fp4_flops", "fp4 TF/s", _tera, drop=1),
        Column("hbm_bytes_per_s", "HBM", show_bandwidth),
        Column("nvlink_bytes_per_s", "NVLink", _rate),
        Column("nvlink_domain", "domain", count, drop=3),
        Column("inter_bytes_per_s", "network", show_bandwidth),
        Column("gpus_per_node", "a node", count, drop=2),
        Column("training_measured", "measured", yes, align="left"),
    )
    note = (
        "Dense peaks. NVLink and network per GPU and per direction. 'measured no': no training run "
        "of this GPU stands behind its estimates, which are marked unmeasured. Sources: "
        "shardplan hardware show GPU."
    )
    return Report((Sheet(columns, rows), note), {"hardware": rows}, rows)


def _tera(value: float) -> str:
    return f"{value / 1e12:,.0f}"


def _rate(value: float) -> str:
    return show_bandwidth(value) if value else "–"


def _gpu_row(gpu: Gpu) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": gpu.id,
        "name": gpu.name,
        "vendor": gpu.vendor,
        "memory_bytes": gpu.memory_bytes,
        "usable_bytes": gpu.usable_bytes,
        "usable_measured": gpu.usable_measured,
    }
    row |= {f"{p}_flops": gpu.peak_flops.get(p) for p in ("bf16", "fp16", "fp8", "fp4")}
    names = (
        "hbm_bytes_per_s", "nvlink_bytes_per_s", "nvlink_domain", "pcie_bytes_per_s",
        "inter_bytes_per_s", "gpus_per_node", "training_measured",
    )  # fmt: skip
    return row | {name: getattr(gpu, name) for name in names}


def show_hardware(gpu: str) -> Report:
    """Report a GPU by id or alias, every figure with its source."""
    return gpu_report(named_gpu(gpu))


def gpu_report(gpu: Gpu) -> Report:
    """Report one GPU, every figure with its source."""
    rows = tuple(_figures(gpu))
    columns = (
        Column("field", "figure", align="left"),
        Column("shown", "value"),
        Column("source", "source", align="left"),
    )
    facts = [("GPU", f"{gpu.name} ({gpu.id}, {gpu.vendor})")]
    if not gpu.training_measured:
        facts.append(("Status", "unmeasured: no training run of this GPU is known"))
    if gpu.note:
        facts.append(("Note", gpu.note))
    data = {
        **_gpu_row(gpu),
        "measured_matmul_flops": dict(gpu.measured_matmul_flops),
        "sources": dict(gpu.sources),
        "note": gpu.note,
    }
    records = tuple({k: row[k] for k in ("field", "value", "source")} for row in rows)
    return Report((Facts(tuple(facts)), Sheet(columns, rows)), data, records)


def _figures(gpu: Gpu) -> Iterable[dict[str, Any]]:
    for field, source in gpu.sources.items():
        name, _, precision = field.partition(".")
        value = getattr(gpu, name)
        if precision:
            value = value[precision]
        yield {"field": field, "value": value, "shown": _shown(name, value), "source": source}


def _shown(name: str, value: float) -> str:
    if name.endswith("flops"):
        return f"{_tera(value)} TFLOP/s"
    if name.endswith("bytes_per_s"):
        return show_bandwidth(value)
    if name.endswith("bytes"):
        return f"{show_bytes(value)} = {show_bytes(value, binary=True)}"
    return f"{value:,}"
