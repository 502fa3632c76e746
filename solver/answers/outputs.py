"""What comes out of the answers; bytes, seconds, USD."""

from __future__ import annotations

from math import inf

from ..estimate import Output
from ..plan import Plan
from ..result import Result


class Binding(Output):
    """A limit next to the best plan: how much is left, and what it costs.

    Attributes
    ----------
    limit, value, allowed, unit
        As in the plan's own check.
    binds
        Without this limit another plan is better.
    gain
        Share of the objective that lifting it saves; 0 where it does not bind.
    layout
        The plan that is best without it, where it binds.
    """

    limit: str
    value: float
    allowed: float
    unit: str
    binds: bool
    gain: float
    layout: str


class Move(Output):
    """The best plan with one thing changed: what it saves and costs.

    Attributes
    ----------
    lever, layout
        What was changed, and the layout that follows.
    step_s, memory_bytes
        Of the changed plan; None where it is impossible.
    more_step_s, more_memory_bytes
        Against the best plan.
    broken
        Limits that it breaks.
    why
        What makes it slower, or why it is impossible.
    """

    lever: str
    layout: str
    step_s: float | None
    memory_bytes: float | None
    more_step_s: float | None
    more_memory_bytes: float | None
    broken: tuple[str, ...]
    why: str = ""


class Family(Output):
    """The best plan of one way to split, next to the best of all.

    Attributes
    ----------
    name
        Family, e.g. ``full sharding``.
    plan
        Its best plan; None where nothing of it fits.
    why
        Why it loses: the part of the step that differs most, or what it lacks.
    """

    name: str
    plan: Plan | None
    why: str


class Explanation(Output):
    """Why the best plan is best."""

    result: Result
    binding: tuple[Binding, ...]
    moves: tuple[Move, ...]
    families: tuple[Family, ...]


class Flip(Output):
    """Where another plan becomes best, or the plan stops fitting, as one figure changes.

    Attributes
    ----------
    parameter, unit
        What changes.
    now
        Its value in the problem.
    last, first
        Last value at which today's layout is best, and first at which it is not: neighbours among
        the values that were looked at, or within 0.1 % of each other. Without another plan ``last``
        is the furthest value that was looked at and ``first`` is None.
    before, after
        Layouts at these two values; empty where nothing fits.
    looked_at
        Which values were looked at, in words.
    """

    parameter: str
    unit: str
    now: float
    last: float
    first: float | None
    before: str
    after: str
    looked_at: str


class Effect(Output):
    """What less and more of one figure do to the optimum.

    Attributes
    ----------
    parameter, unit
        What changes.
    now, less, more
        Its value in the problem, and the two that were looked at; None where there is no such one.
    less_change, more_change
        Change of time or dollars a token of the best plan there, as a share; None where nothing
        fits.
    """

    parameter: str
    unit: str
    now: float
    less: float | None
    more: float | None
    less_change: float | None
    more_change: float | None

    @property
    def widest(self) -> float:
        """The larger of the two changes, whatever its sign; a figure without a plan comes first."""
        looked = ((self.less, self.less_change), (self.more, self.more_change))
        found = [change for value, change in looked if value is not None]
        return max((inf if c is None else abs(c) for c in found), default=0.0)


class Loss(Output):
    """A plan over the error band: its largest loss, and in what share of corners it is best."""

    rank: int
    layout: str
    worst: float
    wins: float


class Measurement(Output):
    """A short run that tells close plans apart."""

    rank: int
    steps: int
    flags: str
    expected_s: float
    outcome: str


class PassedOver(Output):
    """A plan that is not among the proposed runs, and why."""

    rank: int
    why: str


class Robust(Output):
    """Plans held against the error of the predictions.

    Attributes
    ----------
    result, error
        The plans, and the error that compute and traffic may have.
    losses
        One entry a plan; ``choice`` is the rank of the one whose worst is least.
    measurements
        Runs that would tell the close plans apart; ``passed_over`` are the other plans.
    after_loss, after_loss_text
        The best plan with a node less.
    """

    result: Result
    error: float
    losses: tuple[Loss, ...]
    choice: int | None
    measurements: tuple[Measurement, ...]
    passed_over: tuple[PassedOver, ...] = ()
    after_loss: Plan | None
    after_loss_text: str


class Difference(Output):
    """One figure of two plans."""

    name: str
    unit: str
    one: float
    other: float


class Comparison(Output):
    """A layout against the best plan: which limits it breaks and where its time goes."""

    asked: Plan
    best: Plan
    broken: tuple[str, ...]
    differences: tuple[Difference, ...]
    why: str
