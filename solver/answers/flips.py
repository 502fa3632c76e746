"""When the answer changes: the value of a figure at which another plan becomes best."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from topology.cluster import NodeGroup
from topology.errors import InputError

from ..job.job import PlanningProblem
from ..plan import Plan
from ..report.layouts import layout_values
from ..search.search import solve
from .outputs import Flip

CLOSE = 1e-3
"""Continuous figures are found to a thousandth."""
REACH = 4
"""A figure is followed over four doublings and four halvings."""
HEADROOM_STEP = 0.01
BATCH_STEPS = 16
"""A batch is looked at in sixteenths of the given one."""

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
    step
        Smallest difference; 0 for a continuous figure.
    down, up
        Values that are looked at, further and further away.
    """

    name: str
    unit: str
    now: float
    change: Change
    step: float
    down: tuple[float, ...]
    up: tuple[float, ...]


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
    if problem.search.gpus is not None:  # an exact number follows the cluster
        search = problem.search.model_copy(update={"gpus": int(value)})
        problem = replace(problem, search=search)
    return _group(problem, nodes=int(value) // problem.cluster.group.gpus_per_node)


def _headroom(problem: PlanningProblem, value: float) -> PlanningProblem:
    limits = problem.limits.model_copy(update={"mem_headroom": value})
    return replace(problem, limits=limits)


def _mfu(problem: PlanningProblem, value: float) -> PlanningProblem:
    return replace(problem, account=problem.account.model_copy(update={"mfu": value}))


def parameters(problem: PlanningProblem) -> tuple[Parameter, ...]:
    """Return the figures of a problem that are followed."""
    group, job = problem.cluster.group, problem.job
    unit = max(2 ** ((job.global_batch // BATCH_STEPS).bit_length() - 1), 1)
    node, headroom = float(group.gpus_per_node), problem.limits.mem_headroom
    found = [
        _doubled("global batch", "sequences", job.global_batch, _batch, float(unit)),
        _doubled("network bandwidth", "bytes/s per GPU", group.inter_bytes_per_s, _network, 0.0),
        _doubled("GPUs", "GPUs", group.gpus, _gpus, node),
        _doubled("sequence length", "tokens", job.seq_len, _length, float(job.seq_len)),
        Parameter(
            "memory headroom", "share", headroom, _headroom, HEADROOM_STEP,
            down=tuple(round(headroom * part, 2) for part in (0.75, 0.5, 0.25, 0.0)),
            up=tuple(round(headroom + (0.9 - headroom) * part, 2) for part in (0.25, 0.5, 0.75, 1)),
        ),
    ]  # fmt: skip
    if problem.account.cost_model == "textbook":
        mfu = problem.account.mfu
        up = tuple(1 - (1 - mfu) / 2**power for power in (1, 2, 3))
        found.append(Parameter("utilisation", "share", mfu, _mfu, 0.0, (mfu / 2, mfu / 4), up))
    return tuple(found)


def _doubled(name: str, unit: str, now: float, change: Change, step: float) -> Parameter:
    """Follow a figure over doublings and halvings, as long as these are whole steps."""
    down = [now / 2**power for power in range(1, REACH + 1)]
    if step:
        down = [value for value in down if value >= step and value % step == 0]
    up = tuple(float(now * 2**power) for power in range(1, REACH + 1))
    return Parameter(name, unit, float(now), change, step, tuple(down), up)


USUAL = (1, False, "tp-cp-ep-dp-pp", "1f1b")
"""What a layout is written without."""


def layout_key(plan: Plan) -> str:
    """Write what makes a plan the same plan on another batch or number of GPUs: all but DP."""
    values = layout_values(plan)
    shown = (
        "tp", "pp", "vpp", "cp", "ep", "etp", "zero", "micro_batch", "recompute", "order",
        "schedule",
    )  # fmt: skip
    hybrid = {"hsdp": plan.layout.dp_replicate > 1}
    kept = {name: values[name] for name in shown} | hybrid
    return ",".join(f"{n}={v}" for n, v in kept.items() if v not in USUAL)


def flips(problem: PlanningProblem) -> tuple[Flip, ...]:
    """Follow each figure both ways until another plan is best; what never changes is left out."""
    return tuple(flip for one in parameters(problem) for flip in _both_ways(problem, one))


def _both_ways(problem: PlanningProblem, one: Parameter) -> Iterator[Flip]:
    @cache
    def best(value: float) -> str:
        """Return the best layout at a value; empty where nothing fits."""
        return layout_at(problem, one, value)

    today = best(one.now)
    for path in (one.down, one.up):
        changed = next((i for i, value in enumerate(path) if best(value) != today), None)
        if changed is None:
            continue
        last = path[changed - 1] if changed else one.now
        last, first = _bisect(one, best, today, last, path[changed])
        yield Flip(
            parameter=one.name, unit=one.unit, now=one.now, last=last, first=first,
            before=today, after=best(first),
        )  # fmt: skip


def layout_at(problem: PlanningProblem, one: Parameter, value: float) -> str:
    """Return the best layout with another value of a figure; empty where nothing fits."""
    found = best_at(one.change(problem, value))
    return "" if found is None else layout_key(found)


def best_at(problem: PlanningProblem) -> Plan | None:
    """Return the best plan of a changed problem, layers spread by rule; None where nothing fits."""
    even = problem.search.model_copy(update={"stages": "even"})
    try:
        result = solve(replace(problem, search=even), top=1, explain=False)
    except InputError:  # such a problem cannot be, e.g. its steps are too long
        return None
    return result.plans[0] if result.plans else None


def _bisect(
    one: Parameter, best: Callable[[float], str], today: str, last: float, first: float
) -> tuple[float, float]:
    """Bring the last value of today's layout and the first of another one together."""
    while abs(first - last) > (one.step or CLOSE * abs(last)) * (1 + CLOSE):
        middle = (last + first) / 2
        if one.step:
            middle = round(last + one.step * round((middle - last) / one.step), 9)
        if best(middle) == today:
            last = middle
        else:
            first = middle
    return last, first
