"""What measured runs say of predictions at a number of GPUs: errors by band, the largest run.

Figures are in profiles/scale.yaml, which benchmarks/scale.py writes from published runs.
"""

from __future__ import annotations

from typing import Any

from ..job.job import PlanningProblem
from .own_profile import find_profile
from .profile import FRAMEWORK_STACK, Profile, read_figures

CLEARLY = 1.25
"""A band's error over that of all runs from which it is told: less may be due to which stacks it
holds."""


def plan_notes(problem: PlanningProblem, gpus: int) -> tuple[str, ...]:
    """Return `scale_notes` of a plan of this problem; none for the textbook account."""
    given = problem.account
    if given.cost_model == "textbook":
        return ()
    stack = given.profile or FRAMEWORK_STACK[problem.framework]
    mixture = problem.job.transformer.moe is not None
    notes: dict[str, None] = {}
    for group in problem.cluster.groups:
        profile = find_profile(stack, group.gpu.id)
        notes |= dict.fromkeys(scale_notes(profile, gpus, mixture))
    return tuple(notes)


def scale_notes(profile: Profile, gpus: int, mixture: bool) -> tuple[str, ...]:
    """Say where a plan is larger than what was measured, or its size was missed by more.

    Parameters
    ----------
    profile
        Whose stack, GPU family and expected error are looked up.
    gpus
        GPUs of the plan.
    mixture
        Whether the model has experts.
    """
    figures, kind = read_figures("scale.yaml"), "moe" if mixture else "dense"
    notes = []
    whose, largest = _largest(figures["largest_run_gpus"], profile, kind)
    if 0 < largest < gpus:
        notes.append(
            f"{gpus:,} GPUs: the largest measured run of {whose} has {largest:,}; "
            "the expected error says nothing of more"
        )
    errors = figures["errors"][kind]
    expected = profile.expected_error(mixture)
    for band in errors["bands"]:
        inside = band["first_gpus"] <= gpus <= (band["last_gpus"] or gpus)
        if inside and band["error"] > max(CLEARLY * errors["all"], expected):
            notes.append(_missed(band, kind, expected))
    return tuple(notes)


def _largest(known: dict[str, dict[str, int]], profile: Profile, kind: str) -> tuple[str, int]:
    """Return whose largest run counts, and its GPUs: any stack's where this one has none."""
    family = profile.gpu.family
    own = known.get(f"{profile.stack.stack} {kind}", {}).get(family)
    experts = " with experts" if kind == "moe" else ""
    if own is not None:
        return f"{profile.stack.stack}{experts} on {family}", own
    others = (by[family] for name, by in known.items() if name.endswith(kind) and family in by)
    return f"any stack{experts} on {family}", max(others, default=0)


def _missed(band: dict[str, Any], kind: str, expected: float) -> str:
    first, last = band["first_gpus"], band["last_gpus"]
    where = f"{first:,} to {last:,}" if last else f"{first:,} and more"
    way = "short" if band["bias"] < 0 else "long"
    return (
        f"expected error of {expected:.1%} is of runs of all sizes: the {band['runs']} measured "
        f"{kind} runs on {where} GPUs, of all stacks, were missed by {band['error']:.1%}, "
        f"predicted {abs(band['bias']):.1%} too {way} on average"
    )
