"""Names of stage classes, and the three verdicts on memory."""

from __future__ import annotations

from typing import Literal

from ..plan import Verdict

CLASS_NAMES: tuple[Literal["first", "light", "heavy", "last"], ...] = (
    "first",
    "light",
    "heavy",
    "last",
)
"""Names of the stage classes, in the order of ``stages``."""


def verdict(total: float, limit: float, usable: float, reclaimable: float = 0.0) -> Verdict:
    """Judge a need: it fits the limit, only the card ("tight"), or neither.

    ``reclaimable`` is the part of the need that the allocator gives back before it fails: a run
    that needs it is tight.
    """
    if total <= limit:
        return "fits"
    return "tight" if total - reclaimable <= usable else "out_of_memory"
