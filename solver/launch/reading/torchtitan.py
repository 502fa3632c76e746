"""A launch out of torchtitan's command line."""

from __future__ import annotations

from typing import Any

from topology.errors import InputError

from ...job.job import PlanningProblem
from ..chunks import stage_layers, torchtitan_split
from ..tables import table
from ..targets.torchtitan import OPERATORS, RESHARD, SCHEDULES
from .arguments import Options, read_options
from .base import Reading, Text

LAUNCHER = ("--nnodes", "--nproc_per_node", "--nproc-per-node")
_P, _T = "--parallelism.", "--training."


def read(text: Text, problem: PlanningProblem) -> Reading:
    """Read overrides, or a script that holds them, in the names of any known release.

    Raises
    ------
    InputError
        With unknown keys, and with what cannot be.
    """
    data = table("torchtitan")
    known = {f"--{section}.{key}" for section, keys in data["keys"].items() for key in keys}
    known |= {f"--{entry['key']}" for names in data["versions"].values()
              for entry in names.values() if isinstance(entry, dict)}  # fmt: skip
    takes = dict.fromkeys(known, "one")
    switches = {name: "flag" for name in known if ".enable" in name or ".disable" in name}
    takes |= {**switches, **{_negated(name): "flag" for name in switches}}
    options = read_options(text, takes | dict.fromkeys(LAUNCHER, "one"), (), dashes=False)
    _refuse_unknown(options)
    fields = _degrees(options)
    fields |= _batch(options, problem, fields)
    fields |= _stages(options, problem, fields)
    fields |= _recompute(options)
    fields["precision"] = "bf16"
    if options.text(f"{_T}mixed_precision_param", "bfloat16") != "bfloat16":
        message = "32-bit products have no recipe here."
        raise InputError(text.fault(f"{_T}mixed_precision_param", message, "Use bfloat16."))
    if options.has(f"{_T}enable_cpu_offload"):
        message = "moves weights to the host, which no estimate knows."
        raise InputError(text.fault(f"{_T}enable_cpu_offload", message, code="SP115"))
    passed = options.passed_over
    notes = (f"not looked at: {', '.join(passed)}",) if passed else ()
    return Reading(fields, notes, _gpus(options))


def _negated(name: str) -> str:
    section, _, key = name.rpartition(".")
    return f"{section}.no_{key}"


def _refuse_unknown(options: Options) -> None:
    """Refuse keys that torchtitan does not have.

    Raises
    ------
    InputError
        With every one of them.
    """
    data = table("torchtitan")
    sections = set(data["keys"]) | set(data["sections"])
    found = []
    for name in options.passed_over:
        section = name[2:].partition(".")[0].replace("-", "_")
        if section in data["keys"]:
            known = {key for key in options.values} | {
                f"--{section}.{key}" for key in data["keys"][section]
            }
            found.append(options.source.unknown(name, name, known))
        elif section not in sections and "." in name:
            found.append(options.source.unknown(name, section, sections))
    if found:
        raise InputError(*found)


def _gpus(options: Options) -> int | None:
    each = next((name for name in LAUNCHER[1:] if options.has(name)), None)
    return None if each is None else options.number("--nnodes", 1) * options.number(each, 1)


def _degrees(options: Options) -> dict[str, Any]:
    number = options.number
    cp = number(f"{_P}context_parallel_degree", 1)
    pp = number(f"{_P}pipeline_parallel_degree", 1)
    replicate = number(f"{_P}data_parallel_replicate_degree", 1)
    reshard = options.choice(
        f"{_P}fsdp_reshard_after_forward", ("default", *RESHARD.values()), "default"
    )
    if reshard == "default":  # frees weights unless a pipeline would gather them for each pass
        reshard = RESHARD[3 if pp == 1 else 2]
    fields: dict[str, Any] = {
        "tp": number(f"{_P}tensor_parallel_degree", 1),
        "sp": not options.has(f"{_P}no_enable_sequence_parallel"),
        "pp": pp,
        "cp": cp,
        "ep": number(f"{_P}expert_parallel_degree", 1),
        "etp": 1,
        "zero": {name: zero for zero, name in RESHARD.items()}[reshard],
        "dp_replicate": replicate,
        "cp_comm": "ring",
    }
    shard = options.text(f"{_P}data_parallel_shard_degree", "-1")
    if shard == "-1":
        return fields
    fields["dp"] = replicate * number(f"{_P}data_parallel_shard_degree", 1)
    unsharded = shard == "1" and cp == 1 and not options.has(f"{_P}fsdp_reshard_after_forward")
    return fields | ({"zero": 0, "dp_replicate": 1} if unsharded else {})


def _batch(options: Options, problem: PlanningProblem, fields: dict[str, Any]) -> dict[str, Any]:
    """Read the batch in the names of the release whose names are there."""
    versions = table("torchtitan")["versions"]
    parts = ("micro_batch", "global_batch", "seq_len", "pipeline")
    used = {
        version
        for version, names in versions.items()
        for part in parts
        if options.has(f"--{names[part]['key']}")
    }
    if len(used) > 1:
        message = f"mixes names of the releases {' and '.join(sorted(used))}."
        raise InputError(options.source.fault("", message, "Use those of one."))
    names = versions[used.pop() if used else next(iter(versions))]
    keys = {part: f"--{names[part]['key']}" for part in parts}
    found: dict[str, Any] = {}
    seq_len = options.number(keys["seq_len"], problem.job.seq_len)
    scale = seq_len if names["micro_batch"]["unit"].startswith("tokens") else 1
    found["seq_len"] = seq_len
    for part in ("micro_batch", "global_batch"):
        if options.has(keys[part]):
            found[part], rest = divmod(options.number(keys[part], 1), scale)
            if rest or not found[part]:
                message = f"is no whole number of sequences of {seq_len:,} tokens."
                raise InputError(options.source.fault(keys[part], message))
    if fields["pp"] > 1:
        found["micro_batch"] = _pipeline_batch(options, keys, names, found)
    if options.has(f"{_T}steps"):
        found["steps"] = options.number(f"{_T}steps", 1)
    return found


def _pipeline_batch(
    options: Options, keys: dict[str, str], names: dict[str, Any], found: dict[str, Any]
) -> int:
    """Return the micro-batch of a pipeline, which cuts the local batch."""
    local = found.get("micro_batch", 1)
    in_sequences = names["pipeline"]["unit"] == "sequences"
    number = options.number(keys["pipeline"], 1)
    if local % number:
        message = f"{number} does not divide the local batch of {local} sequences."
        raise InputError(options.source.fault(keys["pipeline"], message))
    return number if in_sequences else int(local // number)


def _stages(options: Options, problem: PlanningProblem, fields: dict[str, Any]) -> dict[str, Any]:
    """Return virtual stages and layers of each stage as torchtitan spreads them."""
    pp, layers = fields["pp"], problem.job.transformer.layers
    if options.has(f"{_P}module_fqns_per_model_part"):
        message = "names modules; layers a stage are not read from it."
        raise InputError(
            options.source.fault(f"{_P}module_fqns_per_model_part", message, code="SP115")
        )
    if pp == 1:
        return {"vpp": 1, "layers": (layers,)}
    schedule = options.choice(f"{_P}pipeline_parallel_schedule", SCHEDULES.values(), "1F1B")
    looped = schedule == SCHEDULES[True]
    first, last = (
        _whole(options, f"{_P}pipeline_parallel_{end}_stage_less_layers")
        for end in ("first", "last")
    )
    each = f"{_P}pipeline_parallel_layers_per_stage"
    stages = pp * (2 if looped else 1)
    if options.has(each):
        stages = -(-(layers + first + last) // options.number(each, 1))
    fits = stages % pp == 0 and (stages >= 2 * pp) == looped
    chunks = torchtitan_split(layers, stages, first, last) if fits else None
    if chunks is None:
        message = f"{stages} stages of {layers} layers do not suit {schedule} on pp {pp}."
        raise InputError(options.source.fault(each, message, "Change layers a stage or pp."))
    return {"vpp": stages // pp, "layers": stage_layers(chunks, pp)}


def _whole(options: Options, name: str) -> int:
    """Return a number that may be 0; torchtitan's default is 1."""
    return 0 if options.text(name) == "0" else options.number(name, 1)


def _recompute(options: Options) -> dict[str, Any]:
    subcommand = table("torchtitan")["subcommand"]
    chosen = [w for w in options.words if w.startswith(f"{subcommand['prefix']}:")]
    after = [w for v in options.values.values() for w in v if w.startswith(subcommand["prefix"])]
    kind = ([*chosen, *after] or ["x:none"])[-1].partition(":")[2]
    if kind not in subcommand["choices"]:
        message = f"'{kind[:40]}' unknown. Choose {', '.join(subcommand['choices'])}."
        raise InputError(options.source.fault(subcommand["prefix"], message, code="SP112"))
    if kind == "memory-budget":
        message = "leaves to the compiler what is kept; no estimate knows."
        raise InputError(options.source.fault(subcommand["prefix"], message, code="SP115"))
    return {"recompute": kind, "recompute_modules": OPERATORS}
