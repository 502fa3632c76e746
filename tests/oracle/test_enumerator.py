"""The oracle itself, against figures worked out by hand and against plainer loops."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest

from solver.cost.shapes import Shapes, Shardings
from solver.cost.stages import split
from solver.cost.tables import Choice, Tables, evaluate
from solver.job.job import Limits
from solver.job.search import Search

from .byhand import TICKS, tiny, transformer
from .enumerator import (
    Goal,
    Plan,
    all_plans,
    blocks,
    enumerate_best,
    enumerate_front,
    find_plan,
    longest_step,
    not_dominated,
    price,
)
from .legal import Question, slowdown
from .problems import question, random_problem


def test_price_adds_pace_fill_and_tail() -> None:
    """Three stages, the heavy middle one slowest; the busiest class names the traffic."""
    one, kinds = np.ones((1, 4, 2, 1), np.int64), np.array([1, 2])[:, None]
    model = transformer(layers=3)
    shapes = Shapes.of(pp=3, vpp=1, microbatches=4)
    by_class = np.array([5, 999, 7, 6])[:, None, None]
    tables = Tables(
        shapes,
        Shardings(np.array([[0]]), np.array([[1]]), np.array([[True]])),
        split(model, shapes.pp, shapes.vpp),
        pace=one * by_class * kinds * TICKS,
        share=one * by_class * kinds,
        tail=one * by_class,
        memory=one * by_class * (3 - kinds),
        communication=np.array([[[40], [50]]]),
        compute=np.array([100]),
        busiest=np.array([3]),
    )
    # The light class (999) has no stage. Shares and tail add up to less than a tick: rounded up.
    found = {}
    for kinds_of_stages in ((0, 0, 0), (0, 1, 0), (0, 0, 1)):
        one_plan = price(tables, kinds_of_stages)
        figures = (one_plan.step, one_plan.mebibytes, one_plan.communication)
        found[kinds_of_stages] = tuple(int(figure[0, 0]) for figure in figures)
    assert found == {
        (0, 0, 0): (7 + 1, 14, 40),
        (0, 1, 0): (14 + 1, 12, 40),
        (0, 0, 1): (12 + 1, 14, 50),
    }


def test_best_by_hand() -> None:
    """Two GPUs halve 100 ticks; one GPU costs the same step twice as long, but as much held."""
    fast = enumerate_best(tiny(), "time")
    # 96 MiB on one GPU is too much for 95, so that one GPU must recompute.
    lean = enumerate_best(tiny(cost={"capacity_mib": 95}, search=Search(gpus=1, zero=(0,))), "time")
    assert fast is not None
    assert lean is not None
    assert (fast.step, fast.gpus, fast.mebibytes, fast.held) == (51, 2, 48, 2)
    assert (lean.step, lean.first, lean.mebibytes) == (111, 1, 48)
    # All ties of two GPUs have one axis: fewest stages, then TP 1, then CP 1, least micro-batch.
    assert (fast.pp, fast.tp, fast.cp, fast.dp, fast.micro_batch) == (1, 1, 1, 2, 1)


def test_cost_counts_whole_nodes() -> None:
    """On nodes of two GPUs one GPU is held twice; on nodes of one, two GPUs cost a tick more."""
    whole, single = tiny(per_node=2), tiny(nodes=2, per_node=1)
    both = [enumerate_best(asked, "cost") for asked in (whole, single)]
    assert [best and (best.gpus, best.held * best.step) for best in both] == [(2, 102), (1, 101)]
    assert enumerate_front(whole) == [(1, 101, 202), (2, 51, 102)]
    assert enumerate_front(single) == [(1, 101, 101), (2, 51, 102)]


def test_nothing_fits() -> None:
    asked = tiny(cost={"capacity_mib": 23})
    assert enumerate_best(asked, "time") is None
    assert enumerate_front(asked) == []


def test_the_communication_limit_counts_floors() -> None:
    """TP 2 sends one grain for ten of compute: a limit of a tenth lets it pass, less does not."""
    search = Search(tp=(2,), zero=(0,), hsdp=False)
    passes = tiny(search=search, limits=Limits(max_bubble=1.0, max_comm=0.1))
    refused = tiny(search=search, limits=Limits(max_bubble=1.0, max_comm=0.0999))
    assert enumerate_best(passes, "time") is not None
    assert enumerate_best(refused, "time") is None


def test_not_dominated() -> None:
    points = [(1, 9, 9), (2, 5, 10), (3, 5, 10), (4, 4, 9), (8, 4, 9), (8, 3, 24), (4, 4, 9)]
    assert not_dominated(points) == [(1, 9, 9), (2, 5, 10), (4, 4, 9), (8, 3, 24)]


def test_ties_prefer_few_axes_then_little_memory() -> None:
    base = Plan(pp=1, tp=1, cp=1, ep=1, etp=1, vpp=1, gpus=8, zero=3, micro_batch=1, first=0,
                middle=0, last=0, replicas=1, order=0, dp=8, held=8, step=10,
                mebibytes=50)  # fmt: skip
    hsdp = base._replace(replicas=2, mebibytes=40)
    tensor = base._replace(tp=2, dp=4, mebibytes=30)
    leaner = base._replace(zero=2, mebibytes=49)
    assert (base.axes, hsdp.axes, tensor.axes) == (1, 2, 2)
    order = sorted([hsdp, tensor, base, leaner], key=lambda plan: plan.key("time"))
    assert order == [leaner, base, tensor, hsdp]
    cheap = base._replace(gpus=4, held=4, dp=4, step=19)
    assert min([base, cheap], key=lambda plan: plan.key("time")) == base
    assert min([base, cheap], key=lambda plan: plan.key("cost")) == cheap


def slow_plans(asked: Question) -> Iterator[Plan]:
    """Evaluate one complete choice after another with the estimator's own function."""
    for block in blocks(asked):
        tables, columns = block.tables, block.tables.shardings
        for row, column in zip(*np.nonzero(columns.valid), strict=True):
            shape = tables.shapes.row(row)
            most = int(asked.limits.max_comm * int(tables.compute[row]))
            everything = range(len(asked.cost.kinds))
            for first, middle, last in itertools.product(
                everything,
                everything if shape["pp"] > 2 else [0],
                everything if shape["pp"] > 1 else [0],
            ):
                there = [first] + [middle] * (shape["pp"] > 2) + [last] * (shape["pp"] > 1)
                if not asked.search.recompute_by_stage and len(set(there)) > 1:
                    continue
                choice = Choice(int(column), (first, middle, last))
                step, need, sent = evaluate(tables, row, choice)
                if need > asked.cost.capacity_mib or sent > most:
                    continue
                if step > longest_step(asked, shape["held"]):
                    continue
                names = (
                    "pp",
                    "tp",
                    "cp",
                    "ep",
                    "etp",
                    "vpp",
                    "gpus",
                    "micro_batch",
                    "dp",
                    "held",
                    "order",
                )
                yield Plan(
                    **{name: shape[name] for name in names},
                    zero=int(columns.zero[row, column]),
                    replicas=int(columns.replicas[row, column]),
                    first=first,
                    middle=middle,
                    last=last,
                    step=step,
                    mebibytes=need,
                    slowdown=slowdown(asked, shape["held"]),
                )


def small_problems(count: int) -> list[int]:
    """Numbers of the first problems with few enough shapes for plain loops."""
    numbers = []
    for number in itertools.count():
        asked = question(random_problem(11, number))
        rows = [len(block.tables.shapes) for block in blocks(asked)]
        if 10 <= sum(rows) <= 60:
            numbers.append(number)
        if len(numbers) == count:
            return numbers
    raise AssertionError


@pytest.mark.parametrize("number", small_problems(6))
def test_the_vectors_equal_plain_loops(number: int) -> None:
    """Every plan, the best of both goals and the front, from the estimator's own function."""
    asked = question(random_problem(11, number))
    plain, priced = list(slow_plans(asked)), blocks(asked)
    assert sorted(all_plans(priced)) == sorted(plain)
    goals: tuple[Goal, ...] = ("time", "cost")
    for goal in goals:
        best = min(plain, key=lambda plan: plan.key(goal), default=None)
        assert enumerate_best(asked, goal, priced) == best
    points = [(plan.gpus, plan.wall, plan.held * plan.wall) for plan in plain]
    assert enumerate_front(asked, priced) == not_dominated(points)
    for plan in random.Random(number).sample(plain, min(len(plain), 5)):
        assert find_plan(priced, plan._replace(step=0)) == plan
        assert find_plan(priced, plan._replace(micro_batch=1000)) is None


@pytest.mark.parametrize("number", range(12))
def test_pace_and_share_are_one_stage_time(number: int) -> None:
    """m − 1/v times the stage's time, and count over v times it: their ratio is exact."""
    for block in blocks(question(random_problem(12, number)))[-2:]:
        tables, shapes = block.tables, block.tables.shapes
        count = tables.stages.count[:, :, None, None]
        rounds = (shapes.vpp * shapes.microbatches - 1)[:, None, None, None]
        apart = np.abs(tables.pace * count - tables.share * rounds)
        assert (apart <= count + rounds + 1).all()
