"""Names of stage classes, the three verdicts on memory, and the chance of running out."""

from __future__ import annotations

import math
from typing import Literal

from ..estimate import Verdict

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


def oom_probability(need: float, usable: float, error: float, reclaimable: float = 0.0) -> float:
    """Return the chance that a need exceeds the card: P(need · (1 + e) > usable).

    Parameters
    ----------
    need, reclaimable, usable
        Bytes, as in `verdict`; a half where the verdict turns to out of memory.
    error
        Mean absolute error of a peak, relative. The error e is normal, so that its standard
        deviation is the root of pi/2 times as large.
    """
    least = need - reclaimable
    deviation = math.sqrt(math.pi / 2) * error
    return 0.5 * math.erfc((usable / least - 1) / (deviation * math.sqrt(2)))
