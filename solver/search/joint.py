"""What to change beside money: where no single change makes a plan appear."""

from __future__ import annotations

from collections.abc import Iterator

from ..result import Relaxation
from .clashes import Grounds
from .levers import levers
from .relaxations import Relaxer

MONEY = (("budget",), ("deadline",), ("deadline", "budget"))
"""Limits that a user can always drop: the others have a default, or are facts."""


def without_money(grounds: Grounds) -> Iterator[Relaxation]:
    """Yield each change that makes a plan appear once budget or deadline, or both, are lifted."""
    for names in MONEY:
        if not set(names) <= set(grounds.limits):
            continue
        lifted = Grounds(grounds.instance.without(*names), grounds.settings, grounds.clock)
        found = [r for r in (*Relaxer(lifted).all(), *levers(lifted)) if r.command]
        flags = " and ".join(f"--{name}" for name in names)
        for one in found:
            yield one.model_copy(
                update={
                    "limit": " and ".join((one.limit, *names)),
                    "command": f"{one.command}, without {flags}",
                }
            )
        if found:
            return
