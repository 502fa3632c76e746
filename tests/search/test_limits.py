"""Each limit: one shape that keeps it, one that breaks it, and its literal switched off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solver import checks
from solver.cost.shapes import Shapes
from solver.job.job import Limits, PlanningProblem
from solver.search.cpsat.factory import SolverSettings
from solver.search.cpsat.limits import LIMITS
from solver.search.cpsat.run import solve_chunk
from solver.search.instance import LIMIT_NAMES, Instance
from solver.search.pricing import NEVER
from solver.search.search import instance_of
from tests.search.helpers import problem
from topology import ClusterSpec

GOOD = {"tp": 4, "pp": 4, "dp": 4, "micro_batch": 1, "microbatches": 256}
"""Keeps every limit of ``problem()``: about 50 s a step and 65 GiB a GPU."""


def status(instance: Instance, **degrees: int) -> str:
    """What CP-SAT says of one shape alone, without any pass before it."""
    tables = instance.cost.tables(Shapes.of(**{"held": 64, **degrees}))
    at_most = NEVER if instance.goal != "time" else 10**11
    return solve_chunk(instance, tables, int(min(at_most, 10**15)), SolverSettings()).status


def with_limits(**limits: object) -> PlanningProblem:
    return replace(problem(), limits=Limits(**limits))  # type: ignore[arg-type]


CASES: dict[str, tuple[PlanningProblem, dict[str, int]]] = {
    "memory": (problem(nodes=1), {"tp": 8, "micro_batch": 1, "microbatches": 1024, "held": 8}),
    "communication": (with_limits(max_comm=0.01), GOOD),
    "bubble": (problem(batch=32), {**GOOD, "microbatches": 8}),
    "tp_within_node": (
        problem("llama2-70b", seq_len=4096),
        {"tp": 8, "pp": 4, "dp": 2, "micro_batch": 1, "microbatches": 512},
    ),
    "max_stages": (with_limits(max_stages=2), GOOD),
    "deadline": (with_limits(deadline_s=1000.0), GOOD),
    "budget": (with_limits(budget_usd=10.0), GOOD),
    "batch_divisibility": (problem(), {**GOOD, "microbatches": 255}),
}


def test_names_agree_in_model_checks_and_cases() -> None:
    names = [limit.__name__ for limit in LIMITS]
    assert names == [check.__name__ for check in checks.CHECKS] == list(LIMIT_NAMES)
    assert set(CASES) == set(LIMIT_NAMES)


def test_a_plain_plan_keeps_every_limit() -> None:
    assert status(instance_of(problem()), **GOOD) == "optimal"


@pytest.mark.parametrize("name", [n for n in LIMIT_NAMES if n != "tp_within_node"])
def test_broken_alone_and_lifted_alone(name: str) -> None:
    given, degrees = CASES[name]
    instance = instance_of(given)
    assert status(instance, **degrees) == "infeasible"
    assert status(instance.without(name), **degrees) == "optimal"


def test_tensor_parallelism_within_a_node() -> None:
    given = replace(problem(), cluster=problem(nodes=16).cluster)
    small = ClusterSpec.model_validate(
        {"nodes": 16, "gpus_per_node": 4, "gpu": "h100-80gb-sxm", "inter": "50GB/s",
         "nvlink_domain": 4, "price": 2.5}
    ).build()  # fmt: skip
    instance = instance_of(replace(given, cluster=small, limits=Limits(max_comm=10.0)))
    degrees = {"tp": 8, "pp": 4, "dp": 2, "micro_batch": 1, "microbatches": 512}
    assert status(instance, **degrees) == "infeasible"
    assert status(instance.without("tp_within_node"), **degrees) == "optimal"
    waived = replace(given, cluster=small, limits=Limits(max_comm=10.0, tp_within_node=False))
    assert status(instance_of(waived), **degrees) == "optimal"


def test_bubble_is_held_to_its_last_digit() -> None:
    """p = 4: m = 17 gives 3/20 = 15 % exactly and passes, m = 16 does not."""
    instance = instance_of(problem())
    one = np.ones(1, np.int64)
    assert instance.bubble_excess(4 * one, one, 17 * one)[0] == 0
    assert instance.bubble_excess(4 * one, one, 16 * one)[0] > 0
