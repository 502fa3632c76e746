"""What failures and checkpoints take of a run, in words."""

from __future__ import annotations

from topology.units import show_bandwidth, show_bytes, show_seconds

from ..cost.goodput import checkpoint_bytes
from ..job.job import PlanningProblem
from ..plan import Plan
from .cells import things


def failures(problem: PlanningProblem) -> str:
    """Say what wall-clock and cost count besides training."""
    given = problem.reliability
    if given is None:
        return "not counted in wall-clock and cost (--failures 3.79 counts them)"
    size = given.checkpoint_bytes or checkpoint_bytes(problem.job)
    every = "Young's interval" if given.interval_s is None else f"every {given.interval_s:g} s"
    parts = [f"{given.failures:g} per 1,000 node-days"]
    if given.interruptions:
        parts.append(f"{given.interruptions:g} interruptions besides")
    parts.append(f"restart {show_seconds(given.restart_s)}")
    parts.append(
        f"checkpoint {show_bytes(size)} at {show_bandwidth(given.node_bytes_per_s)} a node"
    )
    if given.bytes_per_s is not None:
        parts.append(f"at most {show_bandwidth(given.bytes_per_s)} in all")
    return " · ".join([*parts, every])


def goodput_line(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Say what of the wall-clock time trains; nothing where failures are not counted."""
    given = plan.cost.goodput
    if given is None:
        return ()
    parts = [f"{given.share:.1%} of the time trains on {things(plan.nodes, 'node')}"]
    if given.mttf_s is not None:
        parts.append(f"a failure every {show_seconds(given.mttf_s)} in the mean")
    if given.interval_s is not None:
        write = show_seconds(given.write_s)
        parts.append(f"a checkpoint every {show_seconds(given.interval_s)}, {write} to write")
    return (("Goodput", ", ".join(parts)),)
