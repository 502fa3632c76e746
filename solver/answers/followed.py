"""The figures of a problem that are followed, and the values that are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice

from topology.cluster import NodeGroup
from topology.units import show_count

from ..job.job import PlanningProblem

MOST_VALUES = 32
"""Whole figures are looked at one by one, so far each way at most: a solve each."""
MOST_TIMES = 4
"""Whole figures are looked at between a quarter and four times of what they are."""
DOUBLINGS = 4
"""Other figures are looked at over four doublings and four halvings."""
PARTS = 4
"""Continuous figures are looked at in quarters of a doubling, each 19 % from the next."""
BATCH_STEPS = 16
"""A batch is looked at in steps of about a sixteenth of the given one, a power of two."""
PERCENT = 100
MOST_HEADROOM = 0.9

Change = Callable[[PlanningProblem, float], PlanningProblem]


@dataclass(frozen=True)
class Parameter:
    """A figure that may change.

    Attributes
    ----------
    name, unit
        For the reader.
    now
        Its value.
    change
        Gives the problem with another value.
    down, up
        Values that are looked at, further and further away.
    every
        Which values these are, in words.
    less, more
        A half and twice of it, or the like: a step that is large enough to matter; None where
        there is no such value.
    continuous
        Whether there are values between those that are looked at.
    """

    name: str
    unit: str
    now: float
    change: Change
    down: tuple[float, ...]
    up: tuple[float, ...]
    every: str
    less: float | None
    more: float | None
    continuous: bool = False


def _group(problem: PlanningProblem, **update: object) -> PlanningProblem:
    group: NodeGroup = replace(problem.cluster.group, **update)  # type: ignore[arg-type]
    return replace(problem, cluster=replace(problem.cluster, groups=(group,)))


def _batch(problem: PlanningProblem, value: float) -> PlanningProblem:
    return replace(problem, job=problem.job.model_copy(update={"global_batch": int(value)}))


def _length(problem: PlanningProblem, value: float) -> PlanningProblem:
    """Change the sequence length; the tokens of a step stay."""
    job = problem.job
    sequences = max(job.step_tokens // int(value), 1)
    update = {"seq_len": int(value), "global_batch": sequences}
    return replace(problem, job=job.model_copy(update=update))


def _network(problem: PlanningProblem, value: float) -> PlanningProblem:
    return _group(problem, inter_bytes_per_s=value)


def _gpus(problem: PlanningProblem, value: float) -> PlanningProblem:
    group = problem.cluster.group
    nodes = -(-int(value) // group.gpus_per_node)
    if problem.search.gpus is None:
        return _group(problem, nodes=nodes)
    search = problem.search.model_copy(update={"gpus": int(value)})  # within a cluster of its size
    return _group(replace(problem, search=search), nodes=max(nodes, group.nodes))


def _headroom(problem: PlanningProblem, value: float) -> PlanningProblem:
    limits = problem.limits.model_copy(update={"mem_headroom": value})
    return replace(problem, limits=limits)


def _mfu(problem: PlanningProblem, value: float) -> PlanningProblem:
    return replace(problem, account=problem.account.model_copy(update={"mfu": value}))


def parameters(problem: PlanningProblem) -> tuple[Parameter, ...]:
    """Return the figures of a problem that are followed."""
    group, job = problem.cluster.group, problem.job
    unit = 2 ** max((job.global_batch // BATCH_STEPS).bit_length() - 1, 0)
    gpus, node = problem.search.gpus or group.gpus, group.gpus_per_node
    found = [
        _whole("global batch", "sequences", job.global_batch, _batch, unit,
               f"every multiple of {show_count(unit)} sequences" if unit > 1 else "every one"),
        _bandwidth(group),
        _whole("GPUs", "GPUs", gpus, _gpus, node, "every number of whole nodes"),
        _doubled_length(job.seq_len),
        _headrooms(problem.limits.mem_headroom),
    ]  # fmt: skip
    if problem.account.cost_model == "textbook":
        found.append(_utilisation(problem.account.mfu))
    return tuple(found)


def _whole(name: str, unit: str, now: int, change: Change, step: int, every: str) -> Parameter:
    """Follow a whole figure over every multiple of its step."""
    least, most = max(now // MOST_TIMES, 1), MOST_TIMES * max(now, step)
    down = _some(value for value in range((now - 1) // step * step, 0, -step) if value >= least)
    up = _some(range((now // step + 1) * step, most + 1, step))
    half = now / 2
    less = half if half >= step and half % step == 0 else None
    return Parameter(name, unit, float(now), change, down, up, every, less, 2.0 * now)


def _some(values: Iterable[int]) -> tuple[float, ...]:
    return tuple(map(float, islice(values, MOST_VALUES)))


def _bandwidth(group: NodeGroup) -> Parameter:
    """Follow the network's bandwidth, where there is a network."""
    now = group.inter_bytes_per_s
    steps = DOUBLINGS * PARTS if group.nodes > 1 else 0
    factors = [2 ** (number / PARTS) for number in range(1, steps + 1)]
    down, up = tuple(now / factor for factor in factors), tuple(now * factor for factor in factors)
    return Parameter(
        "network bandwidth", "bytes/s per GPU", now, _network, down, up,
        "in steps of 19 %, closer where another one is best", now / 2, now * 2, continuous=True,
    )  # fmt: skip


def _doubled_length(now: int) -> Parameter:
    """Follow the sequence length: other lengths than doubled ones split no usual batch."""
    up = tuple(float(now * 2**power) for power in range(1, DOUBLINGS + 1))
    down = tuple(float(now // 2**power) for power in range(1, DOUBLINGS + 1) if now % 2**power == 0)
    less = down[0] if down else None
    return Parameter(
        "sequence length", "tokens", float(now), _length, down, up,
        "halved and doubled only", less, up[0],
    )  # fmt: skip


def _headrooms(now: float) -> Parameter:
    """Follow the headroom over every whole percent."""
    percent = round(now * PERCENT, 9)
    most = round(MOST_HEADROOM * PERCENT)
    down = _some(value for value in range(most, -1, -1) if value < percent)
    up = _some(value for value in range(most + 1) if value > percent)
    less, more = round(now * 0.75, 2), round(now + (MOST_HEADROOM - now) * 0.25, 2)
    return Parameter(
        "memory headroom", "share", now, _headroom,
        tuple(value / PERCENT for value in down), tuple(value / PERCENT for value in up),
        "every whole percent", less if less < now else None, more if more > now else None,
    )  # fmt: skip


def _utilisation(now: float) -> Parameter:
    """Follow the utilisation of the textbook account, down and towards 1."""
    factors = [2 ** (number / PARTS) for number in range(1, DOUBLINGS * PARTS + 1)]
    return Parameter(
        "utilisation", "share", now, _mfu,
        tuple(now / factor for factor in factors), tuple(1 - (1 - now) / f for f in factors),
        "in steps of 19 % of it or of what it lacks, closer where another one is best",
        now / 2, 1 - (1 - now) / 2, continuous=True,
    )  # fmt: skip
