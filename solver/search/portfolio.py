"""Which job runs on which offer with how many nodes, and when: the problem and its answer.

The integers are hours and cents, so that CP-SAT and any other method agree to the last unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Aim = Literal["cost", "makespan"]


@dataclass(frozen=True)
class Pool:
    """Nodes of one offer.

    Attributes
    ----------
    nodes
        Most nodes at a time.
    opens, closes
        Hours between which they can be used; ``closes`` None is never.
    node_cents
        Cents to reserve a node for its whole contract; None where each option pays for itself.
    """

    nodes: int
    opens: int = 0
    closes: int | None = None
    node_cents: int | None = None


@dataclass(frozen=True)
class Choice:
    """A way to run a job.

    Attributes
    ----------
    job, pool
        Numbers.
    nodes, hours
        What it takes of the pool.
    cents
        What it costs besides what is reserved.
    """

    job: int
    pool: int
    nodes: int
    hours: int
    cents: int


@dataclass(frozen=True)
class Portfolio:
    """Jobs, pools and what is wanted.

    Attributes
    ----------
    pools
        Offers.
    due
        Latest end of each job, in hours; None for none.
    choices
        Ways to run the jobs; each job takes one.
    aim
        Least cost, then least makespan; or the other way round.
    most_cents, last_hour
        Budget, and latest end of everything.
    """

    pools: tuple[Pool, ...]
    due: tuple[int | None, ...]
    choices: tuple[Choice, ...]
    aim: Aim = "cost"
    most_cents: int | None = None
    last_hour: int | None = None

    @property
    def horizon(self) -> int:
        """An hour by which everything can have ended, one job after the other."""
        longest = [
            max((c.hours for c in self.choices if c.job == job), default=0)
            for job in range(len(self.due))
        ]
        late = max((pool.opens for pool in self.pools), default=0) + sum(longest)
        return late if self.last_hour is None else min(late, self.last_hour)


@dataclass(frozen=True)
class Schedule:
    """The best answer.

    Attributes
    ----------
    taken
        Number of the choice of each job.
    starts
        Hour in which each job starts.
    reserved
        Nodes of each pool that are reserved; 0 where nothing is.
    cents, makespan
        Cost of everything, and the hour of the last end.
    proved
        Whether it is proved best.
    """

    taken: tuple[int, ...]
    starts: tuple[int, ...]
    reserved: tuple[int, ...]
    cents: int
    makespan: int
    proved: bool


@dataclass(frozen=True)
class NoSchedule:
    """There is none, proved; or time ran out before one was found."""

    proved: bool
