"""Whether failures are what leaves no plan: runs that train less than a tenth of their time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..result import Infeasibility
from .best_first import Clock, Searcher, Tally
from .cpsat.factory import SolverSettings
from .instance import Instance
from .pricing import NEVER, Priced
from .reasons import why_nothing_fits
from .space import build_space

MONEY = ("deadline", "budget")
NEVER_ENDS = (
    "failures: on every number of GPUs that holds a plan, a run trains less than a tenth of its "
    "time; lower failures or restart, write checkpoints faster, or give an interval that suits them"
)


def why_nothing_ends(instance: Instance, settings: SolverSettings, clock: Clock) -> Infeasibility:
    """Explain that there is no plan where failures are counted.

    Where failures alone are at fault that is the reason; where nothing would fit without them
    either, they are left out of the explanation.
    """
    unhurried = instance.without(*MONEY)
    if instance.goodput is None or _holds_a_plan(unhurried, settings, clock):
        return why_nothing_fits(instance, settings, clock)
    unfailing = replace(unhurried, goodput=None)
    if clock.over():  # nothing was shown either way
        return Infeasibility(reasons=(), clashes=(), relaxations=())
    if _holds_a_plan(unfailing, settings, clock):
        return Infeasibility(reasons=(NEVER_ENDS,), clashes=(), relaxations=())
    return why_nothing_fits(replace(instance, goodput=None), settings, clock)


def _holds_a_plan(instance: Instance, settings: SolverSettings, clock: Clock) -> bool:
    priced = Priced.of(instance, build_space(instance).shapes)
    searcher = Searcher(instance, priced, settings, clock, Tally())
    # The first plan suffices, whatever it takes.
    found = searcher.best(np.flatnonzero(searcher.bounds < NEVER), NEVER, enough=NEVER)
    return found.best is not None
