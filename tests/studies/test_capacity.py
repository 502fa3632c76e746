"""Capacity studies from file to answer: bills, contracts, limits, warnings, faults."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run

OFFER = """\
  - name: {name}
    cluster: {{gpu: h100, nodes: {nodes}, price: {{usd_per_gpu_hour: {price}, date: "{date}"}}}}
"""
JOB = """\
  - name: {name}
    model: llama3-8b
    training: {{seq_len: 4096, global_batch: 128seq, tokens: {tokens}}}
    limits: {{max_comm: 50%}}
"""


def study(tmp_path: Path, text: str) -> str:
    (tmp_path / "study.yaml").write_text(text)
    return str(tmp_path / "study.yaml")


def offer(name: str, price: float = 2.0, nodes: int = 2, date: str = "2026-01-01",
          more: str = "") -> str:  # fmt: skip
    return OFFER.format(name=name, price=price, nodes=nodes, date=date) + more


def job(name: str, tokens: str = "10B", more: str = "") -> str:
    return JOB.format(name=name, tokens=tokens) + more


def file(offers: str, jobs: str, head: str = "") -> str:
    return f"today: 2026-01-31\n{head}offers:\n{offers}jobs:\n{jobs}"


def answer(tmp_path: Path, text: str, code: int = 0) -> dict[str, Any]:
    result = run("capacity", study(tmp_path, text), "--jobs=1", "--format=json")
    assert result.exit_code == code, result.stderr
    data: dict[str, Any] = json.loads(result.stdout)
    return data


def test_the_cheaper_offer_of_the_same_nodes_wins(tmp_path: Path) -> None:
    data = answer(tmp_path, file(offer("dear", 2.5) + offer("cheap", 2.0), job("a")))
    assert (data["status"], data["runs"][0]["offer"]) == ("optimal", "cheap")
    assert data["usd"] == pytest.approx(data["runs"][0]["usd"])


def test_every_run_pays_at_least_the_minimum(tmp_path: Path) -> None:
    plain = answer(tmp_path, file(offer("one"), job("a", "1B")))
    rented = answer(tmp_path, file(offer("one", more="    min_rental: 2d\n"), job("a", "1B")))
    assert plain["runs"][0]["days"] < 2
    assert rented["usd"] == pytest.approx(48 * 8 * 2.0)  # one node, two days


def test_a_contract_pays_when_it_is_busy_and_not_before(tmp_path: Path) -> None:
    contract = "    contract: 10d\n    lead_time: 1d\n"
    offers = offer("demand", 2.0) + offer("reserved", 1.0, more=contract)
    short = answer(tmp_path, file(offers, job("a", "10B")))
    assert {run["offer"] for run in short["runs"]} == {"demand"}
    long = answer(tmp_path, file(offers, job("a", "50B") + job("b", "50B")))
    assert {run["offer"] for run in long["runs"]} == {"reserved"}
    nodes = long["reserved_nodes"]["reserved"]
    assert long["usd"] == pytest.approx(nodes * 10 * 24 * 8 * 1.0)
    assert min(run["start_days"] for run in long["runs"]) >= 1
    assert long["makespan_s"] <= 11 * 86400
    assert long["break_even"] == [
        {"contract": "reserved", "offer": "demand", "share_of_use": 0.5}
    ]  # fmt: skip


def test_jobs_take_turns_on_what_there_is(tmp_path: Path) -> None:
    jobs = job("a", "20B") + job("b", "20B")
    one = answer(tmp_path, file(offer("one", nodes=1), jobs))
    first, second = sorted(one["runs"], key=lambda run: run["start_days"])
    assert second["start_days"] == pytest.approx(first["start_days"] + first["days"])
    assert any("the only node is taken" in text for text in one["binding"])
    two = answer(tmp_path, file(offer("two", nodes=2), jobs, "objective: makespan\n"))
    assert two["makespan_s"] < one["makespan_s"]


def test_a_deadline_costs_money_and_the_answer_says_how_much(tmp_path: Path) -> None:
    minimum = "    min_rental: 3d\n"
    offers = offer("slow", 1.0, nodes=1) + offer("fast", 3.0, nodes=2, more=minimum)
    free = answer(tmp_path, file(offers, job("a", "50B")))
    days = free["makespan_s"] / 86400
    bound = answer(tmp_path, file(offers, job("a", "50B"), f"deadline: {days * 0.7:.2f}d\n"))
    assert (free["runs"][0]["offer"], bound["runs"][0]["offer"]) == ("slow", "fast")
    saved = bound["usd"] - free["usd"]
    assert any(text.startswith(f"deadline: without it {saved:,.2f} USD less")
               for text in bound["binding"])  # fmt: skip


def test_the_deadline_of_a_job_is_named(tmp_path: Path) -> None:
    jobs = job("long", "50B") + job("hasty", "10B", more="    deadline: 1h\n")
    asked = study(tmp_path, file(offer("one"), jobs, "deadline: 40d\n"))
    result = run("capacity", asked, "--jobs=1", "--width=200")
    assert result.exit_code == 3
    assert "deadline 40.0 days · hasty within 60.0 min" in result.stdout
    assert re.search(r"deadline of hasty: without it .* USD and [\d.]+ days", result.stdout)
    assert "deadline: without" not in result.stdout


def test_days_are_days_and_nothing_is_zero_point_zero(tmp_path: Path) -> None:
    offers = offer("slow", 1.0, nodes=1) + offer("fast", 3.0, nodes=2)
    text = file(offers, job("a", "50B", more="    deadline: 4d\n"))
    found = run("capacity", study(tmp_path, text), "--jobs=1").stdout
    assert re.search(r"deadline of a: without it [\d,.]+ USD less, [\d.]+ days later", found)
    contract = "    contract: 10d\n"
    offers = offer("demand", 2.0) + offer("reserved", 1.0, more=contract)
    offers += offer("dear", 2.5, more=contract)
    text = file(offers, job("a", "50B") + job("b", "50B"))
    found = run("capacity", study(tmp_path, text), "--jobs=1").stdout
    assert "0.0000" not in found
    assert re.search(r"reserved against demand +cheaper above 50% use", found)
    assert re.search(r"dear against demand +never cheaper: its price is 1.25 × the other", found)


def test_what_stands_in_the_way_is_named(tmp_path: Path) -> None:
    poor = answer(tmp_path, file(offer("one"), job("a"), "budget: 1\n"), code=3)
    assert poor["status"] == "infeasible"
    assert poor["binding"][0].startswith("budget: without it a schedule takes")
    large = job("a").replace("llama3-8b", "llama3-405b")
    none = answer(tmp_path, file(offer("one"), large), code=3)
    assert none["binding"] == ["a: no offer holds a plan within its limits"]


def test_failures_and_interruptions_lengthen_the_run(tmp_path: Path) -> None:
    calm = answer(tmp_path, file(offer("one", nodes=1), job("a", "50B"), "reliability: true\n"))
    spot = offer("one", nodes=1, more="    interruptions: 500\n")
    rough = answer(tmp_path, file(spot, job("a", "50B"), "reliability: true\n"))
    assert rough["usd"] > 1.01 * calm["usd"]
    assert rough["runs"][0]["goodput"] < calm["runs"][0]["goodput"] < 1


def test_storage_and_egress_are_paid(tmp_path: Path) -> None:
    plain = answer(tmp_path, file(offer("one"), job("a")))
    prices = "    storage_usd_per_gb_month: 0.10\n    egress_usd_per_gb: 0.05\n"
    kept = job("a", more="    stored: 1TB\n    taken_out: 200GB\n")
    paid = answer(tmp_path, file(offer("one", more=prices), kept))
    months = paid["runs"][0]["days"] / (365 / 12)
    assert paid["usd"] - plain["usd"] == pytest.approx(1000 * 0.10 * months + 10, rel=0.05)


def test_stale_and_undated_prices_are_warned_of(tmp_path: Path) -> None:
    offers = offer("old", date="2025-06-01") + offer("new") + offer("undated", date="last spring")
    result = run("capacity", study(tmp_path, file(offers, job("a"))), "--jobs=1")
    assert "old: the price is 244 days old (2025-06-01)" in result.stderr
    assert "undated: the price has no date (last spring)" in result.stderr
    assert "new:" not in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (file(offer("one"), job("a").replace("llama3-8b", "llama3-8")), "a on one: model"),
        (file(offer("one"), job("a").replace(", tokens: 10B", "")), "tokens are missing"),
        (file(offer("one").replace("h100", "h1000"), job("a")), "SP102"),
        (file(offer("one") + offer("one"), job("a")), "is there twice"),
        (file(offer("one", more="    contrct: 10d\n"), job("a")), "Did you mean 'contract'"),
        (file(offer("one", more="    interruptions: 5\n"), job("a")), "Add reliability: true"),
        (file("  - {name: x, cluster: 2x8xH100}\n", job("a")), "has no price"),
        ("offers: []\njobs: []\n", "offers"),
        ("[1]\n", "needs a mapping"),
    ],
)
def test_faults(tmp_path: Path, text: str, message: str) -> None:
    result = run("capacity", study(tmp_path, text))
    assert result.exit_code == 2
    assert message in result.stderr
