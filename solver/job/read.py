"""Read a problem file, with flags laid over it, into a checked :class:`PlanningProblem`."""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from topology.cluster import Cluster
from topology.errors import InputError, Problem
from topology.faults import faults, raise_all
from topology.source import Loc, Source, dotted, load_yaml, read_text
from topology.spec import ClusterSpec
from topology.units import shown

from .checks import beyond_framework, clashes
from .fields import Batch
from .finetune import Finetune, trainable_parameters
from .job import (
    MAX_BATCH_TOKENS,
    MAX_SEQUENCES,
    Account,
    Job,
    Limits,
    Objective,
    PlanningProblem,
)
from .model_field import read_model
from .objective_field import ObjectiveSpec
from .price_kinds import with_interruptions
from .recipe import Recipe
from .reliability_field import reliability_of
from .schema import (
    GRAD_BYTES,
    FinetuneSpec,
    LimitsSpec,
    ProblemSpec,
    SearchSpec,
    TrainingSpec,
)
from .search_field import in_framework, search_of
from .transformer import Transformer

NO_FILE = "command line"

T = TypeVar("T", bound=BaseModel)


def example_path() -> Path:
    """Return the packaged example problem: 70B parameters on 64 H100."""
    return Path(str(importlib.resources.files(__package__).joinpath("example/70b-64xh100.yaml")))


def read_problem(
    path: str | Path,
    overrides: Mapping[str, Any] | None = None,
    flags: Mapping[str, str] | None = None,
) -> PlanningProblem:
    """Read a problem file.

    Parameters
    ----------
    path
        The YAML file.
    overrides
        Nested values that replace the file's, e.g. ``{"training": {"seq_len": 8192}}``.
    flags
        Dotted field to the flag that set it, e.g. ``{"training.seq_len": "--seq-len"}``; by
        default the last part of the name.

    Returns
    -------
    The checked problem.

    Raises
    ------
    InputError
        With up to 20 faults, each with file, line, field, need versus have and a fix.
    UnsupportedError
        Where the only faults are features of a later version.
    """
    return parse_problem(read_text(path), str(path), overrides, flags)


def parse_problem(
    text: str,
    path: str = NO_FILE,
    overrides: Mapping[str, Any] | None = None,
    flags: Mapping[str, str] | None = None,
) -> PlanningProblem:
    """Read the text of a problem file, empty where flags say everything; see `read_problem`."""
    source = _overlay(load_yaml(text, path), overrides or {}, flags or {})
    spec, found = _validate(ProblemSpec, source.data, source, ())
    data = source.data
    model, cluster = None, None
    if "model" in data:
        folder = Path() if path == NO_FILE else Path(path).parent
        model, problems = read_model(data["model"], source, folder)
        found += problems
    if "cluster" in data:
        cluster, problems = _cluster(data["cluster"], source)
        found += problems
    sequences, problems = _sequences(spec.training, source) if spec else (1, [])
    found += problems
    if spec is not None:
        found += _packing(spec.training, source)
    if spec is not None and spec.finetune is not None:
        found += _unfit(spec.finetune, model, source)
    raise_all(found)
    if spec is None or model is None or cluster is None:  # each of them left a fault
        raise AssertionError("a fault was lost")
    return _assemble(spec, model, cluster, sequences, source)


def _overlay(source: Source, overrides: Mapping[str, Any], flags: Mapping[str, str]) -> Source:
    """Lay flag values over the file's and note which flag set what."""
    data = {} if source.data is None else source.data
    if not isinstance(data, dict):
        message = f"needs a mapping (key: value), got {shown(data)}."
        raise_all([source.fault((), "SP114", message, "Start with schema: 1 and model: …")])
    named: dict[Loc, str] = {}
    data = _merged(data, overrides, (), flags, named)
    return Source(source.path, data, source.positions, named)


def _merged(
    base: Any, over: Mapping[str, Any], loc: Loc, flags: Mapping[str, str], named: dict[Loc, str]
) -> dict[str, Any]:
    if loc == ("cluster",) and isinstance(base, str):
        base = _spelled_out(base)
    elif loc == ("objective",) and isinstance(base, str):
        base = {"minimise": base}
    merged = dict(base) if isinstance(base, dict) else {}
    for key, value in over.items():
        here = (*loc, key)
        name = dotted(here)
        if isinstance(value, Mapping) and name not in flags:
            merged[key] = _merged(merged.get(key), value, here, flags, named)
        else:
            merged[key] = value
            named[here] = flags.get(name, f"--{key.replace('_', '-')}")
    return merged


def _spelled_out(shorthand: str) -> dict[str, Any]:
    """Turn ``8x8xH100`` into a mapping that a flag can change."""
    try:
        spec = ClusterSpec.model_validate(shorthand)
    except ValidationError as error:
        reason = str(error.errors()[0]["ctx"]["error"]) if error.errors()[0].get("ctx") else ""
        raise InputError(Problem("cluster", 0, 0, "cluster", "SP114", reason)) from None
    return {key: getattr(spec, key) for key in spec.model_fields_set}


def _validate(
    model: type[T], data: Any, source: Source, prefix: Loc
) -> tuple[T | None, list[Problem]]:
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        return None, faults(error, source, model, prefix)


def _cluster(value: Any, source: Source) -> tuple[Cluster | None, list[Problem]]:
    spec, found = _validate(ClusterSpec, value, source, ("cluster",))
    if spec is None:
        return None, found
    try:
        return spec.build(), []
    except InputError as error:
        return None, list(error.problems)
    except ValueError as error:
        return None, [source.fault(("cluster",), "SP114", str(error))]


def _sequences(training: TrainingSpec, source: Source) -> tuple[int, list[Problem]]:
    """Turn the batch into whole sequences."""
    batch, seq_len = training.global_batch, training.seq_len
    count, rest = divmod(batch.amount, seq_len) if batch.in_tokens else (batch.amount, 0)
    loc = ("training", "global_batch")
    if rest:
        near = [f"{n * seq_len}tok ({n}seq)" for n in (count, count + 1) if n]
        message = f"{batch.amount:,} tokens are not a whole number of sequences of {seq_len:,}."
        return 1, [source.fault(loc, "SP104", message, f"Nearest: {' or '.join(near)}.")]
    if count > MAX_SEQUENCES or count * seq_len > MAX_BATCH_TOKENS:
        return 1, [source.fault(loc, "SP109", *_too_large(batch, count, seq_len))]
    return count, []


def _packing(training: TrainingSpec, source: Source) -> list[Problem]:
    """Find what is wrong with how far attention reaches."""
    span, document, seq_len = training.attention_span, training.packed_documents, training.seq_len
    if document is not None and span is not None:
        message = "says the same as attention_span."
        hint = "Keep one: attention_span is measured, half of packed_documents is assumed."
        return [source.fault(("training", "packed_documents"), "SP121", message, hint)]
    if document is not None and document > seq_len:
        message = f"{document:,} tokens exceed the sequence of {seq_len:,}."
        hint = f"Use at most {seq_len}, or leave it out."
        return [source.fault(("training", "packed_documents"), "SP109", message, hint)]
    if span is not None and span > seq_len / 2:
        message = f"{span:g} keys exceed the {seq_len / 2:g} of a whole causal sequence."
        hint = f"Use at most {seq_len / 2:g}, or leave it out."
        return [source.fault(("training", "attention_span"), "SP109", message, hint)]
    return []


def _span(training: TrainingSpec) -> float | None:
    """Return the mean keys of a query: those stated, or of documents that are equally long."""
    document = training.packed_documents
    return training.attention_span if document is None else document / 2


def _finetune(spec: FinetuneSpec) -> Finetune:
    """Take over the section; what contradicts itself in it is not checked."""
    fields: dict[str, Any] = spec.model_dump()
    return Finetune.model_construct(**fields)


def _unfit(spec: FinetuneSpec, model: Transformer | None, source: Source) -> list[Problem]:
    """Find what is wrong with fine-tuning, by itself and for the model."""
    chosen = _finetune(spec)
    found = [
        source.fault(("finetune", field), "SP121", f"{reason}.")
        for field, reason in chosen.clashes()
    ]
    if found or model is None:
        return found
    if spec.frozen_layers > model.layers:
        message = f"{spec.frozen_layers} exceeds the {model.layers} layers of the model."
        hint = f"Use less than {model.layers}."
        return [source.fault(("finetune", "frozen_layers"), "SP109", message, hint)]
    if trainable_parameters(model, chosen) < 1:
        message = "freezes every parameter: nothing is left to train."
        return [source.fault(("finetune",), "SP121", message, "Freeze less, or give lora_rank.")]
    return []


def _too_large(batch: Batch, count: int, seq_len: int) -> tuple[str, str]:
    message = (
        f"{shown(count)} sequences of {seq_len:,} tokens a step are out of range: at most "
        f"{MAX_SEQUENCES:,} sequences and {MAX_BATCH_TOKENS:.0e} tokens."
    )
    guess = not batch.in_tokens and count % seq_len == 0 and count <= MAX_BATCH_TOKENS
    return message, f"Did you mean {count}tok?" if guess else "Lower it, e.g. 1024seq."


def _assemble(
    spec: ProblemSpec, model: Transformer, cluster: Cluster, sequences: int, source: Source
) -> PlanningProblem:
    training = spec.training
    optimizer, precision = training.optimizer, training.precision
    recipe = Recipe.of(optimizer, precision, GRAD_BYTES[training.grad_dtype])
    job = Job(
        transformer=model,
        seq_len=training.seq_len,
        global_batch=sequences,
        tokens=training.tokens,
        recipe=recipe,
        attention="flash" if training.flash_attention else "unfused",
        fused_loss=training.fused_loss,
        loss_chunks=training.loss_chunks,
        expert_imbalance=training.expert_imbalance,
        capacity_factor=training.capacity_factor,
        attention_span=_span(training),
        finetune=None if spec.finetune is None else _finetune(spec.finetune),
    )
    wanted = spec.limits or LimitsSpec()
    limits = Limits.model_validate(
        {
            **wanted.model_dump(exclude={"deadline", "budget"}),
            "deadline_s": wanted.deadline,
            "budget_usd": wanted.budget,
        }
    )
    search = in_framework(search_of(spec.search or SearchSpec()), spec.framework)
    goal = Objective.model_validate((spec.objective or ObjectiveSpec()).model_dump())
    account = Account.model_validate(
        {key: getattr(spec, key) for key in ("cost_model", "profile", "mfu", "charge_recompute")}
    )
    found = clashes(source, job, cluster, limits, search, goal)
    raise_all([*found, *beyond_framework(source, spec.framework, search)])
    places = {dotted(loc): place for loc, place in source.positions.items() if loc}
    framework: Any = spec.framework
    reliability = reliability_of(spec.reliability)
    return PlanningProblem(
        job, with_interruptions(cluster, reliability), limits, search, goal, account, framework,
        reliability, source.path, places,
    )  # fmt: skip
