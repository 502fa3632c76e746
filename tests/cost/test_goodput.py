"""Goodput: published vectors, a simulation of failing runs, and what it does to plans."""

from __future__ import annotations

import csv
import json
import math
import os
import random
from pathlib import Path

import numpy as np
import pytest

from solver.cost.goodput import (
    PARTS,
    Goodput,
    charge,
    checkpoint_bytes,
    longest_within,
    training_share,
    young_interval,
)
from solver.cost.ticks import MAX_TICKS, FloatArray
from solver.job.read import parse_problem
from solver.job.reliability import Reliability
from solver.report.resolved import problem_data
from solver.search.search import solve
from topology.errors import InputError

PROBLEM = """\
model: llama2-7b
cluster: {gpu: h100, nodes: 4, price: 2.5}
training: {seq_len: 4096, global_batch: 256seq, tokens: 10B}
limits: {max_comm: 100%}
"""


def arrays(*values: float) -> tuple[FloatArray, ...]:
    return tuple(np.array(value, dtype=float) for value in values)


SHARED = Path(os.environ.get("SHARDPLAN_SHARED", Path(__file__).parents[3] / "shared"))
FACTS = SHARED / "topology" / "reliability.csv"


@pytest.mark.skipif(not FACTS.is_file(), reason="the facts are not part of the repository")
def test_intervals_of_the_worked_examples() -> None:
    """24 steps of 15 s (6,000 s to failure, 600 s repair, 10 s write), and 38 minutes."""
    with FACTS.open() as file:
        rows = {row["item"]: float(row["value"]) for row in csv.DictReader(file)
                if row["item"].startswith("Worked example")}  # fmt: skip
    first = young_interval(np.array(6000.0), 600.0, np.array(10.0)) / 15
    second = young_interval(np.array(6 * 3600.0), 0.0, np.array(120.0)) / 60
    assert round(float(first)) == rows["Worked example"]
    assert round(float(second)) == rows["Worked example 2"]


def test_the_share_is_what_a_simulation_of_failing_runs_finds() -> None:
    mttf, restart, write, interval = 5000.0, 300.0, 40.0, 700.0
    dice, clock, done = random.Random(0), 0.0, 0
    left = dice.expovariate(1 / mttf)
    while done < 20_000:
        if left >= interval + write:
            clock, left, done = clock + interval + write, left - interval - write, done + 1
            continue
        clock += left
        left = dice.expovariate(1 / mttf)
        while left < restart:  # the restart fails too
            clock, left = clock + left, dice.expovariate(1 / mttf)
        clock, left = clock + restart, left - restart
    mean, wrote, between = arrays(mttf, write, interval)
    share = float(training_share(mean, restart, wrote, between))
    assert done * interval / clock == pytest.approx(share, rel=0.01)


def test_young_s_interval_wastes_least_to_first_order() -> None:
    mttf, write = arrays(20_000.0, 30.0)
    best = young_interval(mttf, 0.0, write)
    around = [float(training_share(mttf, 0.0, write, best * f)) for f in (0.8, 1.0, 1.25)]
    assert around[1] == max(around)


def test_nothing_fails_and_nothing_is_written() -> None:
    never = Goodput(Reliability(failures=0.0), 1e12)
    assert never.slowdown(np.array([1, 1000])).tolist() == [PARTS, PARTS]
    written = Goodput(Reliability(failures=0.0, interval_s=900.0, node_bytes_per_s=1e9), 1e11)
    assert written.slowdown(np.array(1)) == math.ceil(PARTS * (900 + 100) / 900)


def test_large_runs_of_the_llama_3_size_train_nine_tenths_of_their_time() -> None:
    """Llama 3 405B on 2,048 nodes: over 90 % effective training time (as quoted from Meta)."""
    run = Goodput(Reliability(), 405e9 * 14)
    assert float(run.mttf_s(np.array(2048))) == pytest.approx(3.09 * 3600, rel=0.01)
    assert 0.85 < float(run.share(np.array(2048))) < 0.96


def test_the_rank_of_steps_is_kept_on_any_one_number_of_gpus() -> None:
    steps = np.arange(1, 2000)
    for slowdown in (PARTS, PARTS + 1, 1_234_567, 9_999_999):
        charged = charge(steps, np.array(slowdown))
        assert (np.diff(charged) >= 1).all()
        back = [longest_within(int(c), slowdown) for c in charged]
        assert back == steps.tolist()
    assert charge(np.array(5), np.array(10 * PARTS + 1)) == MAX_TICKS


def test_every_figure_counts_failures_once_they_are_switched_on() -> None:
    plain = solve(parse_problem(PROBLEM), top=1).plans[0]
    problem = parse_problem(PROBLEM + "reliability: true\n")
    failing = solve(problem, top=1).plans[0]
    goodput = failing.cost.goodput
    assert plain.cost.goodput is None
    assert goodput is not None
    assert goodput.checkpoint_bytes == checkpoint_bytes(problem.job) == problem.job.trainable * 14
    assert goodput.slowdown == pytest.approx(1 / goodput.share, rel=2e-6)
    assert failing.layout == plain.layout
    assert plain.cost.usd is not None
    assert failing.cost.usd is not None
    for have, had in (
        (failing.cost.wall_clock_s, plain.cost.wall_clock_s),
        (failing.cost.gpu_hours, plain.cost.gpu_hours),
        (failing.cost.usd, plain.cost.usd),
    ):
        # A step is rounded up to a tick of a microsecond, as in the search.
        more = have / (had * goodput.slowdown) - 1
        assert -1e-12 <= more <= 1e-6 / plain.estimate.time.step_s


def test_a_deadline_that_training_alone_would_keep_is_missed() -> None:
    days = solve(parse_problem(PROBLEM), top=1).plans[0].cost.wall_clock_s / 86400
    limit = f"limits: {{max_comm: 100%, deadline: {days * 1.0005}d}}\n"
    asked = PROBLEM.replace("limits: {max_comm: 100%}\n", limit)
    assert solve(parse_problem(asked), top=1).status == "optimal"
    result = solve(parse_problem(asked + "reliability: {failures: 20}\n"), top=1)
    assert result.status == "infeasible"
    assert result.infeasibility is not None
    assert "deadline" in result.infeasibility.clashes[0]


def test_a_run_that_never_ends_is_refused_with_the_reason() -> None:
    asked = PROBLEM + "reliability: {failures: 900000, restart: 2h}\n"
    result = solve(parse_problem(asked), top=1)
    assert result.status == "infeasible"
    assert result.reasons[0].startswith("failures: on every number of GPUs")


def test_the_section_reads_back_what_it_says() -> None:
    text = (
        "reliability: {failures: 6.5, interruptions: 2, restart: 5min, checkpoint: 100GB, "
        "bandwidth: 10GB/s, node_bandwidth: 2GB/s, interval: 1h}\n"
    )
    given = parse_problem(PROBLEM + text)
    assert given.reliability == Reliability(
        failures=6.5, interruptions=2.0, restart_s=300.0, checkpoint_bytes=1e11, bytes_per_s=1e10,
        node_bytes_per_s=2e9, interval_s=3600.0,
    )  # fmt: skip
    again = parse_problem(json.dumps(problem_data(given)))
    assert again.reliability == given.reliability
    assert parse_problem(PROBLEM + "reliability: false\n").reliability is None


def test_a_wrong_section_names_field_and_fix() -> None:
    with pytest.raises(InputError, match=r"reliability\.restart"):
        parse_problem(PROBLEM + "reliability: {restart: soon}\n")
    with pytest.raises(InputError, match="Did you mean 'failures'"):
        parse_problem(PROBLEM + "reliability: {failurs: 3}\n")
