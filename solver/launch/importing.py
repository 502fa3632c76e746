"""``check --from``: an existing launch configuration as a problem and the layout that it has."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from topology.errors import InputError

from ..job.job import PlanningProblem
from ..layout_check import LayoutRequest
from ..plan import Plan
from ..search.validate import validate_schedules
from .describe import request_of
from .description import Launch
from .errors import LaunchError
from .export import TARGETS, export
from .reading import accelerate, deepspeed, megatron, torchtitan
from .reading.base import Reading, Text, given_text, launch_of, problem_of

READERS: dict[str, Callable[[Text, PlanningProblem], Reading]] = {
    "megatron": megatron.read,
    "torchtitan": torchtitan.read,
    "deepspeed": deepspeed.read,
    "accelerate": accelerate.read,
}

FRAMEWORK: dict[str, Literal["megatron", "fsdp"]] = {
    "megatron": "megatron",
    "torchtitan": "fsdp",
    "deepspeed": "fsdp",
    "accelerate": "fsdp",
}
"""Whose profile estimates it, unless the problem names one."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What a configuration trains and how.

    Attributes
    ----------
    source
        Whose configuration it is, a key of `READERS`.
    problem
        The given problem with the configuration's batch, precision, optimizer and options.
    request
        The layout, as ``check`` takes it.
    launch
        Everything that was read or taken from the problem.
    notes
        What was passed over or taken for granted.
    """

    source: str
    problem: PlanningProblem
    request: LayoutRequest
    launch: Launch
    notes: tuple[str, ...]


def import_launch(problem: PlanningProblem, source: str, config: str) -> Imported:
    """Read a configuration of a framework.

    Parameters
    ----------
    problem
        Model and cluster, and what the configuration leaves open.
    source
        Key of `READERS`.
    config
        A file, or the arguments themselves.

    Raises
    ------
    InputError
        With what the framework would refuse, or takes without doing it.
    """
    text = given_text(config)
    reading = READERS[source](text, problem)
    launch = launch_of(problem, reading, text)
    asked = dataclasses.replace(problem_of(problem, launch), framework=FRAMEWORK[source])
    try:
        validate_schedules(asked)
    except InputError as error:
        # the schedule is the configuration's: problem files seldom have one
        faults = [dataclasses.replace(p, path=text.where, field="schedule") for p in error.problems]
        raise InputError(*faults) from None
    return Imported(source, asked, request_of(launch, asked), launch, reading.notes)


def within(imported: Imported) -> tuple[PlanningProblem, ...]:
    """Return the problem with the search kept to what the configuration's framework can say.

    In parts where some values only go together there; parts that the problem excludes are left out.
    """
    target = TARGETS[imported.source]
    search = imported.problem.search.model_copy(update=dict(target.search))
    found = []
    for part in target.parts:
        asked = {name: getattr(search, name) for name in part}
        both = {
            name: values if asked[name] is None else tuple(v for v in values if v in asked[name])
            for name, values in part.items()
        }
        if all(both.values()):
            kept = search.model_copy(update=both)
            found.append(dataclasses.replace(imported.problem, search=kept))
    return tuple(found)


def sayable(
    problem: PlanningProblem, plans: Sequence[Plan], source: str
) -> tuple[Plan | None, str]:
    """Return the first of some plans that a framework can say, else why not the first one."""
    why = ""
    for plan in plans:
        try:
            export(problem, plan, source)
        except LaunchError as error:
            why = why or error.problems[0].message
            continue
        return plan, ""
    return None, why
