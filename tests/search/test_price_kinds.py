"""One front over several kinds of price, against the enumerator's fronts of each kind."""

from __future__ import annotations

import json

import pytest

from solver import solve
from solver.job.read import parse_problem
from solver.job.settings import nested
from solver.report.resolved import problem_data, problem_sha256
from tests.cli.running import run
from topology import ClusterSpec, InputError, UnsupportedError

from ..oracle.compare_kinds import compare_kinds, with_kinds

SEED = 41
QUICK = (0, 6, 13, 14, 21, 29, 31, 39)
"""Problems that the enumerator goes through in half a second."""

TEXT = """
model: llama3-8b
cluster:
  gpu: h100-80gb-sxm
  nodes: 4
  gpus_per_node: 8
  prices: {on-demand: 2.99, spot: {usd_per_gpu_hour: 1.60, interruptions: 300}}
training: {seq_len: 4096, global_batch: 512seq, tokens: 1T}
"""


@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=() if n in QUICK else pytest.mark.nightly) for n in range(40)],
)
def test_the_front_is_that_of_every_kind_together(number: int) -> None:
    assert compare_kinds(with_kinds(SEED, number)).mismatches == ()


def test_interruptions_make_spot_slower_where_failures_count() -> None:
    counted = parse_problem(TEXT + "reliability: true\nobjective: {pareto: true}\n")
    front = solve(counted).front
    by_kind = {k: {p.gpus: p for p in front if p.price_kind == k} for k in ("on-demand", "spot")}
    for gpus in by_kind["on-demand"].keys() & by_kind["spot"].keys():
        sure, cheap = by_kind["on-demand"][gpus], by_kind["spot"][gpus]
        assert cheap.cost.wall_clock_s > sure.cost.wall_clock_s
        assert cheap.cost.usd is not None
        assert sure.cost.usd is not None
        assert cheap.cost.usd < sure.cost.usd
    assert len(by_kind["on-demand"]) == len(by_kind["spot"]) == 5


def test_without_failures_the_cheapest_kind_is_the_front_and_a_note_says_why() -> None:
    result = solve(parse_problem(TEXT + "objective: {pareto: true}\n"))
    assert {p.price_kind for p in result.front} == {"spot"}
    assert any("take equally long" in note for note in result.notes)


def test_only_some_kinds() -> None:
    text = TEXT + "objective: {pareto: true, price_kinds: on-demand}\n"
    assert {p.price_kind for p in solve(parse_problem(text)).front} == {"on-demand"}


def test_a_kind_without_a_price() -> None:
    with pytest.raises(InputError) as caught:
        parse_problem(TEXT + "objective: {price_kinds: [spot, reserved]}\n")
    (fault,) = caught.value.problems
    assert fault.code == "SP112"
    assert fault.field == "objective.price_kinds"
    assert "no price of reserved nodes: the cluster has only on-demand and spot" in fault.message
    assert "prices: {reserved: 2.50}" in fault.hint


def test_price_and_prices_are_not_both_taken() -> None:
    with pytest.raises(InputError, match="price and prices are both given"):
        parse_problem(TEXT.replace("  prices:", "  price: 2\n  prices:"))


def test_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match="not a kind of price"):
        parse_problem(TEXT.replace("on-demand", "weekly"))


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("spot=1,spot=2", "a kind is named twice"),
        ("catalogue", "prices: catalogue goes with system: NAME"),
        ("", "'' is not a kind of price"),
        ("spot", "is not understood"),
    ],
)
def test_prices_by_flag_that_cannot_be(written: str, said: str) -> None:
    done = run("solve", "--prices", written)
    assert done.exit_code == 2
    assert f"--prices: cluster.prices{'.spot' if written == 'spot' else ''}" in done.stderr
    assert said.removeprefix("prices: ") in done.stderr


def test_the_catalogue_s_prices_of_every_kind() -> None:
    group = ClusterSpec.model_validate(
        {"system": "nebius-h100", "nodes": 4, "prices": "catalogue"}
    ).build()
    offers = [(o.kind, o.usd_per_gpu_hour) for o in group.groups[0].offers]
    assert offers == [("on-demand", 2.95), ("spot", 1.25)]


def test_groups_that_are_interrupted_at_different_rates() -> None:
    groups = [
        {"gpu": gpu, "nodes": 1, "gpus_per_node": 2,
         "prices": {"spot": {"usd_per_gpu_hour": 1.5, "interruptions": often}}}
        for gpu, often in (("h100", 5), ("a100", 50))
    ]  # fmt: skip
    text = "training: {seq_len: 4096, global_batch: 8seq}\nmodel: llama3-8b\nreliability: true\n"
    problem = parse_problem(f"{text}cluster: {json.dumps({'groups': groups})}")
    with pytest.raises(UnsupportedError, match="interrupted at different rates"):
        solve(problem)


def test_a_plan_json_gives_its_problem_back() -> None:
    problem = parse_problem(TEXT + "reliability: true\nobjective: {price_kinds: [spot]}\n")
    again = parse_problem(json.dumps(problem_data(problem)))
    assert problem_sha256(again) == problem_sha256(problem)
    assert again.cluster.group.offers == problem.cluster.group.offers


def test_one_price_on_the_command_line_takes_the_place_of_several() -> None:
    overrides = nested({"cluster.price": "2.5"})
    assert parse_problem(TEXT, overrides=overrides).cluster.group.offers == ()
    text = TEXT.replace("prices: {on-demand: 2.99,", "price: 2.99 #")
    overrides = nested({"cluster.prices": "spot=1.6, reserved=2"})
    group = parse_problem(text, overrides=overrides).cluster.group
    assert [(o.kind, o.usd_per_gpu_hour) for o in group.offers] == [("reserved", 2), ("spot", 1.6)]
    assert group.price_usd_per_gpu_hour == 2
