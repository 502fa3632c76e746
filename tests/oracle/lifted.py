"""Whether some plan keeps a set of limits, the others lifted: by enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from solver.cost.shapes import Shapes
from solver.cost.tables import Tables
from solver.job.search import Recompute

from .enumerator import blocks, enumerate_best
from .legal import Estimator, Question

ENDLESS = 2**40
"""MiB of a GPU whose memory is not looked at."""
MOST_STAGES = 128
"""Stages that are looked at where their limit is lifted."""


@dataclass(frozen=True)
class Roomy:
    """A cost model without a memory limit."""

    cost: Estimator

    @property
    def kinds(self) -> tuple[Recompute, ...]:
        """Kinds of recomputation."""
        return self.cost.kinds

    @property
    def capacity_mib(self) -> int:
        """More than anything needs."""
        return ENDLESS

    def tables(self, shapes: Shapes) -> Tables:
        """Return the coefficients of every choice."""
        return self.cost.tables(shapes)


LIFTED: dict[str, dict[str, object]] = {
    "communication": {"max_comm": 1e3},
    "bubble": {"max_bubble": 1.0},
    "tp_within_node": {"tp_within_node": False},
    "max_stages": {"max_stages": MOST_STAGES},
    "deadline": {"deadline_s": None},
    "budget": {"budget_usd": None},
}


def holding(question: Question) -> tuple[str, ...]:
    """Names of the limits that a problem sets."""
    limits = question.limits
    unset = {
        "tp_within_node": not limits.tp_within_node,
        "deadline": limits.deadline_s is None,
        "budget": limits.budget_usd is None,
    }
    return tuple(n for n in ("memory", *LIFTED) if not unset.get(n, False))


def lifted(question: Question, names: frozenset[str]) -> Question:
    """Return the question without some of its limits."""
    update = {k: v for name in names - {"memory"} for k, v in LIFTED[name].items()}
    loose = question.limits.model_copy(update=update)
    cost = Roomy(question.cost) if "memory" in names else question.cost
    return replace(question, limits=loose, cost=cost)


def feasible(question: Question, kept: frozenset[str]) -> bool:
    """Whether a plan keeps these limits."""
    asked = lifted(question, frozenset(holding(question)) - kept)
    return enumerate_best(asked, "time", blocks(asked)) is not None


def minimal_clashes(question: Question) -> Iterator[tuple[str, ...]]:
    """Yield every minimal set of limits that no plan keeps, by trying all."""
    names = holding(question)
    found: list[frozenset[str]] = []
    for size in range(1, len(names) + 1):
        for chosen in combinations(names, size):
            kept = frozenset(chosen)
            if not any(known <= kept for known in found) and not feasible(question, kept):
                found.append(kept)
                yield tuple(sorted(kept))
