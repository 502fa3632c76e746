"""``check --from``: an existing launch configuration as a problem and the layout that it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..job.job import PlanningProblem
from ..layout_check import LayoutRequest
from .describe import request_of
from .description import Launch
from .reading import accelerate, deepspeed, megatron, torchtitan
from .reading.base import Reading, Text, given_text, launch_of, problem_of

READERS: dict[str, Callable[[Text, PlanningProblem], Reading]] = {
    "megatron": megatron.read,
    "torchtitan": torchtitan.read,
    "deepspeed": deepspeed.read,
    "accelerate": accelerate.read,
}


@dataclass(frozen=True, slots=True)
class Imported:
    """What a configuration trains and how.

    Attributes
    ----------
    problem
        The given problem with the configuration's batch, precision, optimizer and options.
    request
        The layout, as ``check`` takes it.
    launch
        Everything that was read or taken from the problem.
    notes
        What was passed over or taken for granted.
    """

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
    asked = problem_of(problem, launch)
    return Imported(asked, request_of(launch, asked), launch, reading.notes)
