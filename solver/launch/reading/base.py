"""What a reader is given, what it returns, and how what it read becomes a problem and a layout."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from topology.errors import InputError, Problem
from topology.faults import did_you_mean
from topology.source import read_text

from ...cost.stages import layers_by_rule
from ...job.job import Job, PlanningProblem
from ...job.recipe import Recipe
from ...job.schema import GRAD_BYTES
from ..description import Launch
from ..errors import NOT_UNDERSTOOD


@dataclass(frozen=True, slots=True)
class Text:
    """A configuration as it was given.

    Attributes
    ----------
    where
        File, or the flag that held the text itself.
    text
        Contents.
    """

    where: str
    text: str

    def fault(
        self, field: str, message: str, hint: str = "", code: str = NOT_UNDERSTOOD
    ) -> Problem:
        """Describe what is wrong at a key or option."""
        return Problem(self.where, 0, 0, field, code, message, hint)

    def unknown(self, field: str, name: str, known: Mapping[str, Any] | set[str]) -> Problem:
        """Describe a key that is not known, with the nearest one."""
        listing = f"Known there: {', '.join(sorted(known)[:12])} …"
        return self.fault(field, "unknown key.", did_you_mean(name, known) or listing, "SP101")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a configuration says.

    Attributes
    ----------
    fields
        Fields of `Launch` that it sets; what it leaves open is taken from the problem.
    notes
        What was passed over, and what the estimate takes for granted.
    gpus
        Ranks that it starts; None where it does not say.
    """

    fields: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    gpus: int | None = None


def given_text(value: str) -> Text:
    """Return the file of that name, or the value itself where it holds options or JSON.

    Raises
    ------
    InputError
        SP100 where it is neither.
    """
    if value.lstrip().startswith(("-", "{")) or "\n" in value:
        return Text("--from", value)
    return Text(value, read_text(Path(value)))


def launch_of(problem: PlanningProblem, reading: Reading, text: Text) -> Launch:
    """Complete what was read with what the problem says.

    Raises
    ------
    InputError
        Where degrees do not multiply to the GPUs, or a value cannot be.
    """
    job, read = problem.job, dict(reading.fields)
    tp, pp, cp = (read.get(axis, 1) for axis in ("tp", "pp", "cp"))
    gpus = reading.gpus or problem.search.gpus or problem.cluster.group.gpus
    if "dp" not in read:
        dp, rest = divmod(gpus, tp * pp * cp)
        if rest or not dp:
            message = f"tp {tp} x pp {pp} x cp {cp} = {tp * pp * cp} does not divide {gpus} GPUs."
            raise InputError(text.fault("", message, "Change a degree, or give --gpus.", "SP108"))
        read["dp"] = dp
    used = tp * pp * cp * read["dp"]
    if reading.gpus is not None and used != reading.gpus:
        message = f"its degrees multiply to {used} ranks, it starts {reading.gpus}."
        raise InputError(text.fault("", message, "Make both the same.", "SP108"))
    if pp > job.transformer.layers:
        message = f"{pp} stages need as many layers, the model has {job.transformer.layers}."
        raise InputError(text.fault("pp", message, f"Use up to {job.transformer.layers}.", "SP108"))
    if "layers" not in read:
        read["layers"] = layers_by_rule(job.transformer, pp, read.get("vpp", 1))
    try:
        return Launch.model_validate({**_unsaid(problem), **read})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise InputError(text.fault(field, f"{first['msg']}.", code="SP109")) from None


def _unsaid(problem: PlanningProblem) -> dict[str, Any]:
    """Return what holds where a configuration says nothing."""
    job, search = problem.job, problem.search
    moe = job.transformer.moe
    names = {size: name for name, size in GRAD_BYTES.items()}
    return {
        "mtp_layers": job.transformer.mtp_layers,
        "experts": moe.experts if moe is not None else 0,
        "micro_batch": 1,
        "global_batch": job.global_batch,
        "seq_len": job.seq_len,
        "steps": job.steps,
        "precision": job.recipe.precision,
        "optimizer": job.recipe.optimizer,
        "grad_dtype": names[job.recipe.grad_bytes],
        "cp_comm": search.cp_comm,
        "offload": search.offload,
        "recompute_modules": search.recompute_modules or ("core_attn",),
    }


def problem_of(problem: PlanningProblem, launch: Launch) -> PlanningProblem:
    """Return the problem with the batch, precision, optimizer and options of a launch.

    Raises
    ------
    InputError
        Where these cannot be.
    """
    job = problem.job
    tokens = job.tokens
    if launch.steps is not None and launch.steps != job.steps:
        tokens = launch.steps * launch.global_batch * launch.seq_len
    recipe = Recipe.of(launch.optimizer, launch.precision, GRAD_BYTES[launch.grad_dtype])
    values = {name: getattr(job, name) for name in Job.model_fields}
    values |= {
        "seq_len": launch.seq_len,
        "global_batch": launch.global_batch,
        "tokens": tokens,
        "recipe": recipe,
    }
    try:
        asked = Job(**values)
    except ValidationError as error:
        message = f"{error.errors()[0]['msg']}."
        raise InputError(Problem("--from", 0, 0, "batch", "SP109", message)) from None
    names = ("cp_comm", "offload", "schedule")
    update: dict[str, Any] = {name: getattr(launch, name) for name in names}
    if launch.recompute == "selective":
        update["recompute_modules"] = launch.recompute_modules
    return dataclasses.replace(problem, job=asked, search=problem.search.model_copy(update=update))
