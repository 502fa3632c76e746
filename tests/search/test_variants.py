"""Alternatives of precision, offload, exchange and modules: the best of all, and one proof."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from solver import solve
from solver.axes import context
from solver.job.job import Objective
from solver.job.read import parse_problem
from solver.job.search import Search, Variants
from solver.report.resolved import problem_data
from tests.job.test_read import BASE, only
from tests.search.helpers import problem


def searched(**several: object) -> Search:
    return Search.model_validate({"tp": (4, 8), "variants": several})


def test_the_best_of_all_alternatives() -> None:
    asked = problem(search=searched(precision=("bf16", "fp8")))
    both = solve(asked, top=4)
    assert both.status == "optimal"
    single = {
        precision: solve(
            replace(
                problem(search=Search(tp=(4, 8))),
                job=asked.job.model_copy(
                    update={"recipe": asked.job.recipe.model_copy(update={"precision": precision})}
                ),
            ),
            top=1,
        )
        for precision in ("bf16", "fp8")
    }
    steps = {name: r.plans[0].estimate.time.step_s for name, r in single.items()}
    assert both.plans[0].estimate.time.step_s == min(steps.values())
    assert both.plans[0].options.precision == min(steps, key=lambda name: steps[name])
    assert both.certificate.shapes == sum(r.certificate.shapes for r in single.values())
    assert both.certificate.gap == 0


def test_alternatives_that_change_nothing_are_shown_once() -> None:
    asked = problem(search=searched(cp_comm=("ring", "all_to_all")))
    plans = solve(asked, top=5).plans
    shown = [(p.layout, p.batch, p.recompute) for p in plans if p.layout.cp == 1]
    assert len(shown) == len(set(shown)) > 0


def test_heads_bound_the_exchange_of_heads() -> None:
    search = Search(tp=(4,), cp_comm="all_to_all", cp=(1, 2, 4))
    plans = solve(problem(nodes=8, batch=64, seq_len=32_768, search=search), top=8).plans
    model = problem().job.transformer
    assert {plan.layout.cp for plan in plans} <= {1, 2}  # 8 key-value heads over TP 4
    two, four = np.array([2]), np.array([4])
    assert context.splits_heads(model, four, two).all()
    assert not context.splits_heads(model, four, four).any()


def test_the_front_is_the_union_without_what_is_dominated() -> None:
    asked = problem(
        nodes=4, batch=64, search=searched(precision=("bf16", "fp8")),
        objective=Objective(pareto=True),
    )  # fmt: skip
    front = solve(asked, top=1).front
    assert len(front) > 1
    steps = [plan.estimate.time.step_s for plan in front]
    assert steps == sorted(steps, reverse=True)
    assert len({plan.gpus for plan in front}) == len(front)


def test_read_and_written_back() -> None:
    text = BASE + "search: {offload: [none, optimizer], recompute_modules: [core_attn+mlp, mlp]}\n"
    asked = parse_problem(text).search
    assert asked.variants == Variants(
        offload=("none", "optimizer"), recompute_modules=(("core_attn", "mlp"), ("mlp",))
    )
    assert parse_problem(json.dumps(problem_data(parse_problem(text)))).search == asked
    single = parse_problem(BASE + "search: {offload: optimizer, recompute_modules: mlp}\n").search
    assert (single.offload, single.recompute_modules) == ("optimizer", ("mlp",))
    assert single.variants == Variants()


@pytest.mark.parametrize(
    ("written", "match"),
    [
        ("precision: [bf16, fp9]", "'fp9' unknown"),
        ("recompute_modules: [core_attn+mpl]", "'mpl' unknown"),
        ("recompute_modules: [3]", "is not a set of modules"),
    ],
)
def test_refused(written: str, match: str) -> None:
    assert match in str(only(BASE + f"search: {{{written}}}\n"))
