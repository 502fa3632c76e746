"""The planner framework's checklist and red flags, over plain numbers of any cost model.

Source of every rule and limit: *Distributed Training Planner*, step 5 and "Red Flags", unless a
line says otherwise. ``CHECKLIST`` holds the eight items CL-01 … CL-08, ``RED_FLAGS`` the six flags
RF-01 … RF-06; each is a function from ``LayoutFacts`` to one ``Check``. Ids never change.
"""

from __future__ import annotations

from .facts import Check, LayoutFacts, Severity
from .items import CHECKLIST
from .red_flags import RED_FLAGS

__all__ = ["CHECKLIST", "RED_FLAGS", "Check", "LayoutFacts", "Severity", "review"]


def review(facts: LayoutFacts) -> tuple[Check, ...]:
    """Return every rule's verdict, checklist first, in the order of the ids."""
    return tuple(rule(facts) for rule in CHECKLIST + RED_FLAGS)
