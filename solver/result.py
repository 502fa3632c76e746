"""What a search comes to: plans, proof, or why there is none. Frozen; bytes, seconds, USD."""

from __future__ import annotations

from typing import Literal

from .estimate import Output
from .plan import Plan

Status = Literal["optimal", "feasible", "infeasible", "unknown"]


class Relaxation(Output):
    """The smallest change of one limit, the others as they are, that makes a plan appear.

    Attributes
    ----------
    limit, field
        Limit (or ``gpus``), and where the problem file says it.
    have, to, unit
        What it is, and what it must become; ``to`` is None where no value of it suffices.
    text
        Need against have.
    command
        Flag, or line of the problem file, to try.
    layout
        The plan that then appears.
    """

    limit: str
    field: str
    have: float
    to: float | None
    unit: str
    text: str
    command: str
    layout: str


class Infeasibility(Output):
    """Why nothing fits.

    Attributes
    ----------
    reasons
        In words.
    clashes
        Minimal sets of limits: no plan keeps one of these sets, and each proper subset has a plan.
    relaxations
        What to change; one suffices.
    """

    reasons: tuple[str, ...]
    clashes: tuple[tuple[str, ...], ...]
    relaxations: tuple[Relaxation, ...]


class Certificate(Output):
    """Why the optimum is one: everything opened was closed, and nothing left can be better.

    Attributes
    ----------
    shapes
        Layout shapes that were looked at.
    dropped
        Shapes that a limit excludes, counted by the limit's name.
    opened
        Shapes that went into a CP-SAT model.
    models
        CP-SAT models solved, with how many ended OPTIMAL or INFEASIBLE.
    closed
        Models that ended proved.
    incumbent, next_bound, bound
        Objective of the best plan, least bound of what was never opened, certified lower bound.
    gap
        (incumbent - bound) / incumbent.
    """

    shapes: int
    dropped: dict[str, int]
    opened: int
    models: int
    closed: int
    incumbent: float | None
    next_bound: float | None
    bound: float | None
    gap: float | None


class Preference(Output):
    """One of several objectives in order, of one step: seconds, USD, GPUs or bytes.

    Attributes
    ----------
    objective
        Its name.
    least
        Least value among the plans that the objectives before it left.
    allowed
        Most that was left to the objectives after it: ``least`` and the tolerance.
    """

    objective: Literal["time", "cost", "gpus", "memory"]
    least: float
    allowed: float


class Result(Output):
    """What ``solve`` returns: best plan first, then the next best different layouts.

    ``recommended`` is the rank of the simplest plan within the tolerance of the optimum;
    ``fastest`` stands next to the cheapest plan; ``refined`` is the best plan's layout with layers
    and recomputed layers chosen stage by stage, where that is better; ``expected_error`` is the
    mean absolute error of the step time of ``profile`` on runs it never saw; ``tolerance`` is the
    relative difference below which plans count as equal; ``measured`` is False where no training
    run of this GPU was ever fitted; ``preferences`` are what several objectives in order reached.
    """

    status: Status
    objective: Literal["time", "cost"]
    plans: tuple[Plan, ...]
    recommended: int | None
    fastest: Plan | None
    refined: Plan | None = None
    front: tuple[Plan, ...]
    profile: str
    expected_error: float
    tolerance: float
    measured: bool
    gpu_counts_considered: tuple[int, ...]
    certificate: Certificate
    preferences: tuple[Preference, ...] = ()
    infeasibility: Infeasibility | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
