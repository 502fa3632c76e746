"""Where another plan becomes best: just below and just above."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import solve
from solver.answers.flips import flips, layout_key
from solver.answers.followed import parameters
from solver.answers.outputs import Flip
from solver.answers.reports import flips_report
from solver.job.job import PlanningProblem
from solver.job.search import Search
from tests.oracle.problems import random_problem
from tests.search.helpers import TEXTBOOK, problem
from topology.errors import InputError


def best(asked: PlanningProblem) -> str:
    even = asked.search.model_copy(update={"stages": "even"})
    try:
        plans = solve(replace(asked, search=even), top=1, explain=False).plans
    except InputError:  # such a problem cannot be, so nothing fits it
        return ""
    return layout_key(plans[0]) if plans else ""


def check(asked: PlanningProblem) -> int:
    """Solve again on both sides of every flip."""
    by_name = {one.name: one for one in parameters(asked)}
    found = flips(asked)
    for flip in found:
        one = by_name[flip.parameter]
        assert best(one.change(asked, flip.last)) == flip.before
        if flip.first is None:
            assert flip.last in (*one.down[-1:], *one.up[-1:])
            continue
        assert best(one.change(asked, flip.first)) == flip.after != flip.before
        if one.continuous:
            assert abs(flip.first - flip.last) <= 1e-3 * flip.last * 1.01
        else:
            path = (one.now, *(one.up if flip.first > one.now else one.down))
            assert path.index(flip.first) == path.index(flip.last) + 1
        assert min(flip.first, flip.last) >= 0
    return len(found)


def of(found: tuple[Flip, ...], name: str) -> list[tuple[float, float | None]]:
    return [(flip.last, flip.first) for flip in found if flip.parameter == name]


def test_seed_003_names_its_three_conditions_on_the_right_side() -> None:
    found = {
        (flip.parameter, flip.first > flip.now): flip
        for flip in flips(problem("seed-70b", account=TEXTBOOK))
        if flip.first is not None
    }
    batch = found["global batch", False].first
    assert batch is not None
    assert 256 <= batch < 1024
    assert "tp=2" in found["global batch", False].after
    network = found["network bandwidth", False].first
    assert network is not None
    assert 25e9 < network < 50e9
    assert "hsdp=yes" in found["network bandwidth", False].after
    slow = problem("seed-70b", account=TEXTBOOK, inter="29GB/s")
    assert "tp=2" in best(slow)


@pytest.mark.parametrize(
    ("model", "nodes", "batch", "expected"),
    [
        # Twice the nodes hold the same plan, nine do not.
        ("llama3-70b", 8, 1024, [(64, 56), (64, 72)]),
        # Half and twice the nodes hold the same plan, three and six do not.
        ("llama3-8b", 4, 512, [(32, 24), (40, 48)]),
    ],
)
def test_every_number_of_nodes_between_is_looked_at(
    model: str, nodes: int, batch: int, expected: list[tuple[float, float]]
) -> None:
    asked = problem(model, nodes=nodes, batch=batch)
    today = best(asked)

    def other(n: int) -> bool:
        return best(problem(model, nodes=n, batch=batch)) != today

    down, up = next(filter(other, range(nodes, 0, -1))), next(filter(other, range(nodes, 99)))
    found = of(flips(asked), "GPUs")
    assert found == [(8 * (down + 1), 8 * down), (8 * (up - 1), 8 * up)] == expected


def test_what_never_changes_says_how_far_it_was_looked_at() -> None:
    asked = problem("llama3-8b", nodes=1, batch=64, search=Search(max_gpus=8))
    found = of(flips(asked), "GPUs")
    assert found == [(32, None)]
    text = str(flips_report(asked).blocks)
    assert "the same so far; not looked at beyond" in text
    assert "every number of whole nodes" in text


def test_an_exact_number_of_gpus_within_a_larger_cluster_starts_from_itself() -> None:
    asked = problem("llama3-8b", nodes=8, batch=512, search=Search(gpus=32))
    gpus = next(flip for flip in flips(asked) if flip.parameter == "GPUs")
    assert gpus.now == 32
    assert gpus.before == best(asked)


def test_hybrid_sharding_and_each_zero_stage_are_plans_of_their_own() -> None:
    plan = solve(problem("llama3-8b", nodes=2, batch=256), top=1).plans[0]
    keys = {
        layout_key(plan.model_copy(update={"layout": plan.layout.model_copy(update=update)}))
        for update in ({"zero": 0}, {"zero": 1}, {"zero": 3}, {"zero": 3, "dp_replicate": 2})
    }
    assert len(keys) == 4


@pytest.mark.parametrize("number", [3, 8])
def test_both_sides_of_every_flip(number: int) -> None:
    check(drawn(number))


@pytest.mark.nightly
def test_both_sides_of_every_flip_of_fifty_problems() -> None:
    assert sum(check(drawn(number)) for number in range(50)) > 50


def drawn(number: int) -> PlanningProblem:
    return random_problem(77, number)
