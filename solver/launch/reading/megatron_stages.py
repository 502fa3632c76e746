"""How Megatron-LM's arguments put layers on stages, and which of them they recompute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topology.errors import InputError

from ...job.job import PlanningProblem
from ..chunks import parse_layout, stage_layers
from ..targets.megatron import recomputed
from .arguments import Options

LAYOUT = "--pipeline-model-parallel-layout"
FIRST, LAST = "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"
EMBEDDING = "--account-for-embedding-in-pipeline-split"
LOSS = "--account-for-loss-in-pipeline-split"
PER_STAGE = "--num-layers-per-virtual-pipeline-stage"
DEGREE = "--num-virtual-stages-per-pipeline-rank"


def stage_fields(
    options: Options, fields: Mapping[str, Any], problem: PlanningProblem
) -> dict[str, Any]:
    """Return virtual stages, layers and recomputed layers of each stage.

    Raises
    ------
    InputError
        Where layers do not fall on whole stages.
    """
    pp, layers = int(fields["pp"]), problem.job.transformer.layers
    chunks = _chunks(options, pp, layers, problem.job.transformer.mtp_layers)
    if sum(chunks) != layers:
        name = problem.job.transformer.name
        message = f"places {sum(chunks)} layers, {name} has {layers}."
        raise InputError(options.source.fault(LAYOUT, message, "Count again."))
    found: dict[str, Any] = {"vpp": len(chunks) // pp, "layers": stage_layers(chunks, pp)}
    again = _again(options, chunks, pp)
    if again is None or fields["recompute"] != "none":
        return found
    if again == found["layers"]:
        return {**found, "recompute": "full"}
    return {**found, "recomputed_layers": again}


def _chunks(options: Options, pp: int, layers: int, mtp_layers: int) -> tuple[int, ...]:
    """Return the layers of each virtual stage in the order of the model."""
    uneven = [name for name in (FIRST, LAST) if options.has(name)]
    counted = [name for name in (EMBEDDING, LOSS) if options.has(name)]
    virtual = [name for name in (PER_STAGE, DEGREE) if options.has(name)]
    given = [*uneven, *counted, *virtual]
    if options.has(LAYOUT) and given:
        raise InputError(options.source.fault(LAYOUT, f"and {given[0]} exclude each other."))
    if len(virtual) > 1:
        raise InputError(options.source.fault(DEGREE, f"and {PER_STAGE} exclude each other."))
    if uneven and counted:
        raise InputError(options.source.fault(uneven[0], f"and {counted[0]} exclude each other."))
    if options.has(LAYOUT):
        return _layout(options, pp, mtp_layers)
    each = _each_stage(options, pp, layers + len(counted), uneven)
    vpp = _virtual(options, each, virtual)
    if any(count % vpp for count in each):
        message = f"{vpp} virtual stages do not divide {'/'.join(map(str, each))} layers."
        raise InputError(options.source.fault(virtual[0] if virtual else DEGREE, message))
    chunks = [count // vpp for _ in range(vpp) for count in each]
    chunks[0] -= options.has(EMBEDDING)
    chunks[-1] -= options.has(LOSS)
    return tuple(chunks)


def _each_stage(options: Options, pp: int, count: int, uneven: list[str]) -> list[int]:
    """Return what each stage counts, embedding and loss among it where they are counted."""
    first = options.number(FIRST, 1) if FIRST in uneven else None
    last = options.number(LAST, 1) if LAST in uneven else None
    ends = [n for n in (first, last) if n is not None]
    left, stages = count - sum(ends), pp - len(ends)
    if stages < 0 or left < 0 or (stages and left % stages) or (not stages and left):
        message = f"{left} layers do not fall on {stages} stages evenly."
        hint = "Change pp, or use --decoder-first-pipeline-num-layers and -last-."
        raise InputError(options.source.fault("--pipeline-model-parallel-size", message, hint))
    middle = left // stages if stages else 0
    head = [first] if first is not None else []
    tail = [last] if last is not None else []
    return [*head, *[middle] * stages, *tail]


def _virtual(options: Options, each: list[int], virtual: list[str]) -> int:
    if DEGREE in virtual:
        return options.number(DEGREE, 1)
    if PER_STAGE not in virtual:
        return 1
    size = options.number(PER_STAGE, 1)
    if each[0] % size:
        message = f"{size} layers do not divide the {each[0]} of a stage."
        raise InputError(options.source.fault(PER_STAGE, message))
    return each[0] // size


def _layout(options: Options, pp: int, mtp_layers: int) -> tuple[int, ...]:
    text = options.text(LAYOUT)
    parsed = parse_layout(text)
    if parsed is None or len(parsed[0]) % pp:
        what = "is no layout" if parsed is None else f"has {len(parsed[0])} stages for pp {pp}"
        message = f"'{text[:60]}' {what}."
        raise InputError(options.source.fault(LAYOUT, message, "Write e.g. Et*3|(t*4|)*6t*3L."))
    if parsed[1] not in (0, mtp_layers):
        message = f"places {parsed[1]} MTP modules, the model has {mtp_layers}."
        raise InputError(options.source.fault(LAYOUT, message))
    return parsed[0]


def _again(options: Options, chunks: tuple[int, ...], pp: int) -> tuple[int, ...] | None:
    """Return the fully recomputed layers of each stage under ``--recompute-method block``."""
    full = options.text("--recompute-granularity") == "full"
    if not full or options.text("--recompute-method") != "block":
        return None
    return recomputed(chunks, pp, options.number("--recompute-num-layers", 1))
