"""How long a job may take and how often it saves."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from topology.errors import InputError, Problem
from topology.units import show_seconds

from ..cost.goodput import whole_steps
from .description import Run
from .targets.base import Wanted

DAY_S = 86_400
MARGIN = 0.20
"""Added to a prediction: start, data and evaluation, and twice the error of a step, which
docs/accuracy.md gives by profile."""
SPARE_S = 300
"""Left at the end of a job that another one continues, beside its last step and checkpoint: start
of the container, of the processes and of the data."""


@dataclass(frozen=True, slots=True)
class Times:
    """Limits of a run.

    Attributes
    ----------
    limit_s
        Time of one job.
    jobs
        Jobs, one after the other, each from the last checkpoint.
    save_steps
        Optimizer steps between checkpoints.
    save_every_s
        The same in seconds.
    leave_s
        When a job has to end by itself, its checkpoint written, for the next one to go on.
    """

    limit_s: int
    jobs: int
    save_steps: int
    save_every_s: float
    leave_s: int


def times(run: Run, wanted: Wanted) -> Times:
    """Return the limits of a run: the prediction and a margin, and how often it saves.

    Raises
    ------
    InputError
        SP113 where neither the plan nor the user says how long the run is.
    """
    every = wanted.save_every_s or run.interval_s
    steps = whole_steps(every, run.step_s)
    margin = MARGIN if wanted.margin is None else wanted.margin
    if wanted.time_s is not None:
        whole = wanted.time_s
    elif run.wall_clock_s is not None:
        whole = run.wall_clock_s * (1 + margin)
    else:
        hint = "Solve with --tokens, or give --time."
        message = "the plan has no length: its problem names no tokens."
        raise InputError(Problem("--time", 0, 0, "tokens", "SP113", message, hint))
    longest = wanted.longest_s or whole
    # Every job after the first starts from a checkpoint that is up to one interval old.
    useful = max(longest - every, longest / 2)
    jobs = 1 if whole <= longest else ceil(whole / useful)
    limit = ceil(min(whole, longest))
    leave = limit - SPARE_S - 2 * run.step_s - run.write_s
    return Times(limit, jobs, steps, steps * run.step_s, max(int(leave), 1))


def late(limits: Times) -> tuple[str, ...]:
    """Warn of a chain of jobs that each end before their first checkpoint."""
    if limits.jobs == 1 or limits.save_every_s < limits.leave_s:
        return ()
    return (
        f"jobs of {show_seconds(limits.limit_s)} end before their first checkpoint, after "
        f"{show_seconds(limits.save_every_s)}: only what a job saves as it ends is kept; give a "
        "shorter --save-every",
    )


def clock(seconds: int) -> str:
    """Write seconds as Slurm takes them, ``days-hours:minutes:seconds``."""
    days, rest = divmod(seconds, DAY_S)
    hours, rest = divmod(rest, 3600)
    return f"{days}-{hours:02}:{rest // 60:02}:{rest % 60:02}"
