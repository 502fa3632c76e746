"""CP-SAT's portfolio against every choice in every order, on random small studies."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from solver.search.cpsat.factory import SolverSettings
from solver.search.cpsat.portfolio import solve_portfolio
from solver.search.portfolio import Aim, Choice, NoSchedule, Pool, Portfolio, Schedule


def random_portfolio(number: int) -> Portfolio:
    dice = random.Random(f"portfolio {number}")
    pools = tuple(_pool(dice) for _ in range(dice.randint(1, 3)))
    jobs = dice.randint(1, 3)
    choices = []
    for job in range(jobs):
        work = dice.randint(4, 60)
        for place, pool in enumerate(pools):
            for nodes in sorted(dice.sample(range(1, 9), dice.randint(1, 3))):
                hours = -(-work // nodes) + dice.randint(0, 2)
                rate = 0 if pool.node_cents is not None else dice.randint(1, 20)
                cents = max(hours, dice.choice((0, 0, 24))) * nodes * rate + dice.randint(0, 5)
                choices.append(Choice(job, place, nodes, hours, cents))
    aim: Aim = dice.choice(("cost", "makespan"))
    return Portfolio(
        pools=pools,
        due=tuple(dice.choice((None, None, 15, 30, 60)) for _ in range(jobs)),
        choices=tuple(choices),
        aim=aim,
        most_cents=dice.choice((None, 200, 600, 2000)),
        last_hour=dice.choice((None, None, 25, 60)),
    )


def _pool(dice: random.Random) -> Pool:
    opens = dice.choice((0, 0, 3, 10))
    if dice.random() < 0.4:
        return Pool(dice.randint(1, 8), opens, opens + dice.randint(10, 60), dice.randint(10, 200))
    return Pool(dice.randint(1, 10), opens)


def earliest(asked: Portfolio, taken: tuple[Choice, ...], order: tuple[int, ...],
             room: tuple[int, ...]) -> list[int] | None:  # fmt: skip
    """Start each job in turn as early as the pool has room; None where it never has."""
    used: dict[tuple[int, int], int] = {}
    starts = [0] * len(taken)
    for job in order:
        choice = taken[job]
        pool = asked.pools[choice.pool]
        ends = [asked.horizon, asked.due[job], pool.closes]
        last = min(e for e in ends if e is not None) - choice.hours
        for start in range(pool.opens, last + 1):
            hours = [(choice.pool, start + h) for h in range(choice.hours)]
            if all(used.get(h, 0) + choice.nodes <= room[choice.pool] for h in hours):
                for h in hours:
                    used[h] = used.get(h, 0) + choice.nodes
                starts[job] = start
                break
        else:
            return None
    return starts


def every_schedule(asked: Portfolio) -> Iterator[tuple[int, int]]:
    """Cost and makespan of each choice, order and number of reserved nodes.

    Starting jobs as early as possible in some order reaches the least makespan and every deadline.
    """
    jobs = range(len(asked.due))
    options = [[c for c in asked.choices if c.job == job] for job in jobs]
    rooms = [range(p.nodes + 1) if p.node_cents is not None else [p.nodes] for p in asked.pools]
    for taken in itertools.product(*options):
        for room in itertools.product(*rooms):
            fixed = sum((p.node_cents or 0) * n for p, n in zip(asked.pools, room, strict=True))
            cents = fixed + sum(choice.cents for choice in taken)
            if asked.most_cents is not None and cents > asked.most_cents:
                continue
            for order in itertools.permutations(jobs):
                starts = earliest(asked, taken, order, room)
                if starts is not None:
                    yield cents, max(s + c.hours for s, c in zip(starts, taken, strict=True))


def keeps_everything(asked: Portfolio, found: Schedule) -> None:
    taken = [asked.choices[n] for n in found.taken]
    assert [choice.job for choice in taken] == list(range(len(asked.due)))
    for number, pool in enumerate(asked.pools):
        room = found.reserved[number] if pool.node_cents is not None else pool.nodes
        for hour in range(found.makespan):
            used = sum(c.nodes for c, start in zip(taken, found.starts, strict=True)
                       if c.pool == number and start <= hour < start + c.hours)  # fmt: skip
            assert used <= room <= pool.nodes
    costs = sum((p.node_cents or 0) * n for p, n in zip(asked.pools, found.reserved, strict=True))
    assert found.cents == costs + sum(choice.cents for choice in taken)


@pytest.mark.parametrize("number", range(50))
def test_the_choice_equals_brute_force(number: int) -> None:
    asked = random_portfolio(number)
    found = solve_portfolio(asked, SolverSettings())
    key = (lambda p: p) if asked.aim == "cost" else (lambda p: p[::-1])
    best = min(every_schedule(asked), key=key, default=None)
    if best is None:
        assert found == NoSchedule(proved=True)
        return
    assert isinstance(found, Schedule)
    assert found.proved
    assert (found.cents, found.makespan) == best
    keeps_everything(asked, found)


def test_most_studies_have_an_answer_and_some_have_none() -> None:
    answers = [solve_portfolio(random_portfolio(n), SolverSettings()) for n in range(50)]
    found = sum(isinstance(answer, Schedule) for answer in answers)
    assert 25 <= found <= 47
