"""Rules and lists of the search on one axis that no degree keeps together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from ..job.rules import AXES, RULE_FIELDS
from ..job.search import Search

FIELDS = {relation: field for field, relation in RULE_FIELDS.items()}


@dataclass(frozen=True)
class _Demand:
    """What one field asks of an axis: a range and what is left out of it, or a list."""

    text: str
    least: int = 0
    most: int | None = None
    without: int | None = None
    listed: tuple[int, ...] | None = None

    def keeps(self, degree: int) -> bool:
        """Whether a degree is allowed."""
        if self.listed is not None:
            return degree in self.listed
        high = self.most is None or degree <= self.most
        return degree >= self.least and high and degree != self.without


def contradiction(search: Search) -> str:
    """Name the fewest rules and lists of one axis that leave no degree; empty where none do."""
    for axis in AXES:
        demands = list(_demands(search, axis))
        for size in range(1, len(demands) + 1):
            for some in itertools.combinations(demands, size):
                tried = [n for n in _tried(some) if n >= (axis != "zero")]
                if not any(all(d.keeps(n) for d in some) for n in tried):
                    return f"no {axis} keeps {' and '.join(demand.text for demand in some)}"
    return ""


def _tried(demands: tuple[_Demand, ...]) -> Iterator[int]:
    """Yield degrees among which there is one that all keep, if there is any at all."""
    yield 1
    for demand in demands:
        yield from demand.listed or ()
        for end in (demand.least, demand.most, demand.without):
            if end is not None:
                yield from range(end - len(demands), end + len(demands) + 1)


def _demands(search: Search, axis: str) -> Iterator[_Demand]:
    listed = getattr(search, axis, None) if axis != "gpus" else None
    if listed is not None:
        yield _Demand(f"search.{axis} {list(listed)}", listed=tuple(listed))
    if axis == "gpus" and search.gpus is not None:
        yield _Demand(f"search.gpus {search.gpus}", listed=(search.gpus,))
    if axis == "gpus" and search.max_gpus is not None:
        yield _Demand(f"search.max_gpus {search.max_gpus}", most=search.max_gpus)
    for rule in search.rules:
        if rule.axis != axis:
            continue
        value, field = rule.value, FIELDS[rule.relation]
        if rule.relation == "<=" and value <= 1:  # what forbidding the whole axis comes to
            field = "max or forbid"
        text = f"{rule} (search.{field})"
        yield {
            "=": _Demand(text, listed=(value,)),
            "!=": _Demand(text, without=value),
            "<=": _Demand(text, most=value),
            ">=": _Demand(text, least=value),
        }[rule.relation]
