"""``export``: a plan as a target's configuration."""

from __future__ import annotations

from topology.errors import InputError, Problem

from ..job.job import PlanningProblem
from ..plan import Plan
from .describe import describe, run_of
from .targets.accelerate import ACCELERATE
from .targets.base import Exported, Target, Wanted
from .targets.bridge import BRIDGE
from .targets.deepspeed import DEEPSPEED
from .targets.megatron import MEGATRON
from .targets.shell import SLURM, TORCHRUN
from .targets.skypilot import SKYPILOT
from .targets.torchtitan import TORCHTITAN

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        MEGATRON, BRIDGE, TORCHTITAN, DEEPSPEED, ACCELERATE, TORCHRUN, SLURM, SKYPILOT,
    )
}  # fmt: skip


def export(problem: PlanningProblem, plan: Plan, to: str, wanted: Wanted | None = None) -> Exported:
    """Write a plan for a target.

    Raises
    ------
    LaunchError
        Where the target cannot express the plan.
    InputError
        For a release of the target whose names are not known.
    """
    target, asked = TARGETS[to], wanted or Wanted()
    if asked.version and asked.version not in target.versions:
        known = " or ".join(filter(None, target.versions))
        message = f"'{asked.version[:40]}' is no release of {to} whose names are known."
        hint = f"Use {known}." if known else "Leave it out."
        raise InputError(Problem("--target-version", 0, 0, "", "SP112", message, hint))
    return target.write(describe(problem, plan), run_of(problem, plan), asked)
