"""More freedom never worsens the optimum: looser limits, more degrees, more GPUs, freer stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from solver import solve
from solver.job.job import MAX_DEADLINE_S, MAX_USD, Account, Limits, PlanningProblem
from solver.job.rules import AXES, Rule
from solver.job.schedules import SCHEDULES
from solver.job.search import CP_COMMS, OFFLOADS, RECOMPUTE, Search, Variants
from tests.oracle.models import FAMILIES
from tests.oracle.problems import random_problem
from topology.placement import ORDERS

SEVERAL = settings(deadline=None, max_examples=max(2, settings().max_examples // 20))
"""A solve takes a thousand times as long as what other properties look at."""

SMALL = 16
"""Most GPUs of a quick problem."""

INFINITE = float("inf")


def value(problem: PlanningProblem) -> float:
    """The objective's value; infinite where nothing fits."""
    result = solve(problem, top=1, explain=False)
    assert result.status in ("optimal", "infeasible")
    if not result.plans:
        return INFINITE
    plan = result.plans[0]
    return plan.cost.gpu_hours if result.objective == "cost" else plan.cost.wall_clock_s


def small(seed: int, family: int, **search: Any) -> PlanningProblem:
    """A small random problem of a family, without the restrictions that its draw came with."""
    for attempt in range(100):
        drawn = random_problem(seed, len(FAMILIES) * attempt + family)
        if drawn.cluster.gpus <= SMALL:
            break
    job = drawn.job.model_copy(update={"tokens": 10**11, "finetune": None})
    return replace(
        drawn,
        job=job.model_copy(update={"recipe": job.recipe.model_copy(update={"precision": "bf16"})}),
        account=Account(),
        search=Search.model_validate({"stages": "even", **search}),
        objective=drawn.objective.model_copy(update={"pareto": False}),
        reliability=None,
    )


# -- limits --------------------------------------------------------------------------------------

TIGHT_TO_LOOSE: dict[str, Sequence[Any]] = {
    "mem_headroom": (0.9, 0.6, 0.4, 0.2, 0.1, 0.0),
    "max_bubble": (0.0, 0.02, 0.05, 0.15, 0.33, 1.0),
    "max_comm": (0.0, 0.01, 0.03, 0.1, 0.2, 0.5, 10.0),
    "comm_metric": ("total", "exposed"),
    "tp_within_node": (True, False),
    "max_stages": (1, 2, 3, 4, 8, 32),
}
"""Every limit that needs nothing else, from the tightest to the loosest value."""
FACTORS = (0.5, 0.9, 0.999, 1.0, 1.001, 1.1, 2.0, 10.0)
"""Of what the best plan takes: deadlines and budgets around it."""
MONEY = {"deadline_s": MAX_DEADLINE_S, "budget_usd": MAX_USD}


def test_every_limit_is_looked_at() -> None:
    assert {*TIGHT_TO_LOOSE, *MONEY} == set(Limits.model_fields)


def ordered(values: Sequence[Any]) -> st.SearchStrategy[tuple[Any, Any]]:
    """Two of several values, the tighter one first."""
    places = st.integers(0, len(values) - 1)
    return st.tuples(places, places).map(lambda two: (values[min(two)], values[max(two)]))


problems = st.tuples(st.integers(0, 10**6), st.integers(0, len(FAMILIES) - 1))


@pytest.mark.parametrize("name", TIGHT_TO_LOOSE)
@SEVERAL
@given(st.data())
def test_looser_limits(name: str, data: st.DataObject) -> None:
    problem = small(*data.draw(problems))
    tight, loose = (
        replace(problem, limits=problem.limits.model_copy(update={name: limit}))
        for limit in data.draw(ordered(TIGHT_TO_LOOSE[name]))
    )
    assert value(loose) <= value(tight)


@pytest.mark.parametrize("name", MONEY)
@SEVERAL
@given(st.data())
def test_looser_deadlines_and_budgets(name: str, data: st.DataObject) -> None:
    problem = small(*data.draw(problems))
    plans = solve(problem, top=1, explain=False).plans
    assume(plans)
    cost = plans[0].cost
    taken = cost.wall_clock_s if name == "deadline_s" else cost.usd
    assert taken is not None
    tight, loose = (
        replace(problem, limits=problem.limits.model_copy(update={name: min(limit, MONEY[name])}))
        for limit in data.draw(ordered([taken * factor for factor in FACTORS]))
    )
    assert value(problem) <= value(loose) <= value(tight)


# -- what is looked at ---------------------------------------------------------------------------


class Axis(NamedTuple):
    """Values of a field of the search; ``of`` writes some of them."""

    values: tuple[Any, ...]
    of: Callable[[tuple[Any, ...]], dict[str, Any]]


def listed(name: str, *values: Any) -> tuple[str, Axis]:
    return name, Axis(values, lambda some: {name: some})


def variant(name: str, *values: Any) -> tuple[str, Axis]:
    return name, Axis(values, lambda some: {"variants": Variants.model_validate({name: some})})


DEGREES = (1, 2, 3, 4, 6, 8)
LISTS: dict[str, Axis] = dict(
    (
        *(listed(name, *DEGREES) for name in ("tp", "pp", "vpp", "cp", "ep", "etp", "micro_batch")),
        listed("zero", 0, 1, 2, 3),
        listed("recompute", *RECOMPUTE),
        listed("order", *ORDERS),
        variant("precision", "bf16", "fp8", "fp16"),
        variant("offload", *OFFLOADS),
        variant("cp_comm", *CP_COMMS),
        variant("schedule", *SCHEDULES),
        variant("recompute_modules", ("core_attn",), ("core_attn", "mlp"), ("layernorm",)),
    )
)
"""Every field that lists what plans may have."""
FREER: dict[str, tuple[Any, Any]] = {
    "recompute_by_stage": (False, True),
    "hsdp": (False, True),
    "gpus": (SMALL // 2, None),
    "max_gpus": (SMALL // 4, None),
    "stages": ("even", "free"),
}
"""Every other field, from less to more."""
SINGLE = {"offload", "cp_comm", "recompute_modules", "schedule"}
"""One value for all plans; the variants of these names list several."""


def test_every_field_of_the_search_is_looked_at() -> None:
    assert {*LISTS, *FREER, *SINGLE, "rules", "variants"} == {
        *Search.model_fields,
        *Variants.model_fields,
    }


@pytest.mark.parametrize("name", LISTS)
@SEVERAL
@given(st.data())
def test_a_value_more(name: str, data: st.DataObject) -> None:
    axis, (seed, family) = LISTS[name], data.draw(problems)
    wide = data.draw(st.lists(st.sampled_from(axis.values), min_size=2, unique=True))
    kept = [v for v in axis.values if v in wide]
    few = tuple(v for v in kept if v != wide[0])
    less, more = (small(seed, family, **axis.of(some)) for some in (few, tuple(kept)))
    if name == "schedule":  # a stack that has both
        stack = Account(profile="zero-bubble-megatron")
        less, more = replace(less, account=stack), replace(more, account=stack)
    if name == "precision" and not peaks(less, few):
        return
    assert value(more) <= value(less)


def peaks(problem: PlanningProblem, precisions: tuple[str, ...]) -> bool:
    """Whether the GPU has units for one of them: others are left out."""
    return any(problem.cluster.group.gpu.peak_flops.get(p) for p in precisions)


@pytest.mark.parametrize("name", FREER)
@SEVERAL
@given(problems)
def test_more_freedom(name: str, drawn: tuple[int, int]) -> None:
    less, more = (small(*drawn, **{name: chosen}) for chosen in FREER[name])
    if name == "gpus" and less.cluster.gpus < (FREER[name][0] or 0):
        return
    assert value(more) <= value(less)


@SEVERAL
@given(problems, st.sampled_from(AXES), st.sampled_from(("=", "!=", "<=", ">=")), st.data())
def test_a_rule_less(drawn: tuple[int, int], axis: str, relation: str, data: st.DataObject) -> None:
    number = data.draw(st.sampled_from((1, 2, 4, 8)))
    rule = Rule.model_validate({"axis": axis, "relation": relation, "value": number})
    assert value(small(*drawn)) <= value(small(*drawn, rules=(rule,)))


@pytest.mark.nightly
@SEVERAL
@given(st.integers(0, 10**6))
def test_layers_chosen_freely(seed: int) -> None:
    drawn = random_problem(seed, 0)
    if drawn.account.cost_model == "textbook" or drawn.job.finetune is not None:
        return
    even, free = (
        replace(drawn, search=Search(gpus=drawn.search.gpus, stages=stages))
        for stages in ("even", "free")
    )
    assert value(free) <= value(even)
