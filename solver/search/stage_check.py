"""The estimate of one given pipeline whose stages are given one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topology.errors import InputError, Problem, UnsupportedError

from ..cost.calibrated import Calibrated
from ..cost.shapes import Shapes, Shardings
from ..cost.stage_options import StageOptions
from ..cost.stages import layers_by_rule
from ..plan import Plan
from .instance import LONGEST_STEP, Instance
from .pipelines import Pipeline, even_layers
from .split_plan import split_plan
from .stagewise import evaluate_split, options_of


@dataclass(frozen=True)
class StageChoice:
    """Layers and fully recomputed layers of each stage, None as the rule has them; and the kind."""

    layers: tuple[int, ...] | None
    recomputed: tuple[int, ...] | None
    kind: str


def check_stages(
    instance: Instance, shape: Shapes, columns: Shardings, wanted: StageChoice
) -> Plan:
    """Estimate a pipeline, every limit judged.

    Raises
    ------
    InputError
        Where the numbers do not fit the model or the pipeline.
    UnsupportedError
        Where the account or the job has no stages of its own.
    """
    if not isinstance(instance.cost, Calibrated) or instance.job.finetune is not None:
        message = "layers a stage are given in the calibrated account, for whole models, only."
        raise UnsupportedError(_fault("stage_layers", message, "Leave them out."))
    stages = int(shape.pp[0])
    pipeline = Pipeline((instance,) * stages, shape, columns)
    rule = layers_by_rule(instance.job.transformer, stages, int(shape.vpp[0]))
    layers = wanted.layers or rule
    recomputed = wanted.recomputed or (0,) * stages
    _check(pipeline, layers, recomputed, wanted)
    [options] = options_of(pipeline, [(count,) for count in layers])
    kind = instance.cost.kinds.index(wanted.kind)
    choice = tuple(_place(o, kind, r) for o, r in zip(options, recomputed, strict=True))
    split = evaluate_split(pipeline, tuple(options), choice)
    if split.totals.step > LONGEST_STEP:
        raise InputError(_fault("stage_layers", "a step is longer than is planned.", ""))
    return split_plan(split, 1, strict=False)


def _place(options: StageOptions, kind: int, recomputed: int) -> int:
    return int(np.flatnonzero((options.kind == kind) & (options.recomputed == recomputed))[0])


def _check(
    pipeline: Pipeline, layers: tuple[int, ...], recomputed: tuple[int, ...], wanted: StageChoice
) -> None:
    total, stages = pipeline.instances[0].job.transformer.layers, pipeline.stages
    for field, counts in (("stage_layers", layers), ("recomputed_layers", recomputed)):
        if len(counts) != stages:
            message = f"{len(counts)} numbers for {stages} stages."
            raise InputError(_fault(field, message, "Write one number a stage."))
    empty = next((stage for stage, count in enumerate(layers) if count < 1), None)
    if empty is not None:
        message = f"stage {empty} has no layers; every stage needs at least one."
        fewer = f", or use pp {stages - 1}" if stages > 1 else ""
        raise InputError(_fault("stage_layers", message, f"Move a layer to stage {empty}{fewer}."))
    if sum(layers) != total:
        message = f"{'/'.join(map(str, layers))} are {sum(layers)} layers, the model has {total}."
        off = total - sum(layers)
        hint = f"{'Add' if off > 0 else 'Take away'} {abs(off)}, e.g. {_mended(layers, off)}."
        raise InputError(_fault("stage_layers", message, hint))
    pairs = zip(recomputed, layers, strict=True)
    over = next((stage for stage, (r, n) in enumerate(pairs) if r > n), None)
    if over is not None:
        message = (
            f"{recomputed[over]} layers are recomputed on stage {over}, which has {layers[over]}."
        )
        hint = f"Write at most {layers[over]} there."
        raise InputError(_fault("recomputed_layers", message, hint))
    even, vpp = even_layers(pipeline), int(pipeline.shape.vpp[0])
    if even is not None and layers != even:
        message = f"interleaved stages hold {'/'.join(map(str, even))} layers."
        raise InputError(_fault("stage_layers", message, "Use vpp 1, or leave them out."))
    if any(r % vpp for r in recomputed):
        message = f"virtual stages recompute alike: multiples of vpp {vpp}."
        raise InputError(_fault("recomputed_layers", message, "Use vpp 1, or multiples."))
    moe = pipeline.instances[0].job.transformer.moe
    if moe is not None and (layers[0] < min(moe.first_dense, total) or
                            any(n % moe.every for n in layers)):  # fmt: skip
        message = "leading dense layers or periods of expert layers do not fall on whole stages."
        raise InputError(_fault("stage_layers", message, "Give the first stage more layers."))
    if wanted.kind == "full" and any(recomputed):
        message = "recompute=full recomputes every layer already."
        raise InputError(_fault("recomputed_layers", message, "Use none or selective."))


def _mended(layers: tuple[int, ...], off: int) -> str:
    """Write numbers that add up: what is missing or too much is spread over the stages."""
    total, stages = sum(layers) + off, len(layers)
    if off < 0:
        even, rest = divmod(total, stages)
        return "/".join(str(even + (stage < rest)) for stage in range(stages))
    each, rest = divmod(off, stages)
    return "/".join(str(n + each + (stage < rest)) for stage, n in enumerate(layers))


def _fault(field: str, message: str, hint: str) -> Problem:
    return Problem("--layout", 0, 0, field, "SP108", message, hint)
