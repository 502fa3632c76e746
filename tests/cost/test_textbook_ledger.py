"""The ledger: its formulas give its values, its sections are complete, hostile input is refused."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.cost.decision_tree import TYPICAL, Typical, decide, memory_order, typical
from solver.cost.ledger import Ledger, Line, ledger
from solver.cost.textbook_inputs import read_inputs
from topology.errors import InputError

from .textbook_cases import exercise, typical_inputs

LAYOUTS: tuple[dict[str, Any], ...] = (
    {},
    {"zero": 0, "recompute": "none"},
    {"dp": 64, "dp_shard": 8},
    {"tp": 8, "dp": 8, "zero": 2},
    {"tp": 8, "pp": 4, "dp": 2, "zero": 1, "recompute": "selective"},
    {"tp": 4, "pp": 2, "vpp": 2, "dp": 8, "sequence_parallel": False, "recompute": "none"},
)


def value(line: Line) -> float:
    assert isinstance(line.value, float | int)
    return float(line.value)


def find(book: Ledger, section: str, label: str) -> Line:
    (line,) = [one for one in book.lines if (one.section, one.label) == (section, label)]
    return line


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_numbers_written_out_give_the_value(layout: dict[str, Any]) -> None:
    checked = 0
    for line in ledger(read_inputs(exercise(**layout))).lines:
        numbers = line.formula.rpartition(" = ")[2].replace("×", "*").replace(",", "")
        if line.unit and re.fullmatch(r"[0-9eE.+*/() -]+", numbers):
            assert eval(numbers) == pytest.approx(value(line), rel=1e-4), line
            checked += 1
    assert checked > 20


def test_every_line_names_a_source() -> None:
    book = ledger(read_inputs(exercise()))
    assert all(line.source and line.section and line.label for line in book.lines)
    assert book.sections == (
        "memory",
        "memory, planner framework's table (unsharded)",
        "measures in the planner framework's order",
        "decision tree",
        "communication",
        "communication, as the other texts count",
        "time",
        "training run",
    )
    assert len(book.checks) == 14


def test_ledger_of_the_exercises_tp_8_plan() -> None:
    book = ledger(read_inputs(exercise(tp=8, dp=8)))
    assert f"{value(find(book, 'communication', 'FSDP')) / 1e9:.1f}" == "45.9"
    assert f"{value(find(book, 'communication', 'tensor parallel, time')):.1f}" == "10.7"
    assert find(book, "memory", "verdict").value == "fits"
    assert find(book, "training run", "cost").unit == "USD"


def test_without_tokens_or_price_there_is_no_cost() -> None:
    numbers = exercise()
    del numbers["machine"]["usd_per_gpu_hour"]
    labels = {line.label for line in ledger(read_inputs(numbers)).lines}
    assert "GPU-hours of whole nodes" in labels
    assert "cost" not in labels
    del numbers["job"]["tokens"]
    assert "training run" not in ledger(read_inputs(numbers)).sections


def test_cost_holds_whole_nodes() -> None:
    book = ledger(read_inputs(exercise(tp=4, pp=3, dp=1, zero=0)))
    assert book.estimate.held_gpus == 16


def test_the_tree_and_its_table_disagree_on_70b_over_64_and_both_are_printed() -> None:
    book = ledger(read_inputs(exercise()))
    assert (book.path.tp, book.path.pp, book.path.dp, book.path.sharding) == (1, 2, 32, "FSDP")
    assert find(book, "decision tree", "the tree suggests").value == "TP 1, PP 2, DP 32, FSDP"
    differs = find(book, "decision tree", "its typical table differs")
    assert differs.value == "TP 8, PP 1, DP 8, FSDP"


@pytest.mark.parametrize(
    ("row", "tree"),
    list(zip(TYPICAL, [(1, 1, 8), (1, 1, 16), (1, 2, 32), (1, 2, 64), (1, 16, 1024)], strict=True)),
    ids=lambda item: f"{item.name}-{item.gpus}" if isinstance(item, Typical) else "",
)
def test_the_trees_answer_beside_each_row(row: Typical, tree: tuple[int, int, int]) -> None:
    path = decide(typical_inputs(row))
    assert (path.tp, path.pp, path.dp) == tree
    assert path.holds
    assert typical(row.parameters, row.gpus) == row


def test_a_real_70b_is_the_tables_70b_and_an_unknown_size_has_no_row() -> None:
    row = typical(70_553_706_496, 64)
    assert row is not None
    assert row.name == "70B"
    assert typical(30_000_000_000, 64) is None
    assert typical(70_000_000_000, 72) is None


def test_a_layer_too_large_for_a_gpu_takes_tensor_parallelism() -> None:
    numbers = exercise()
    numbers["shape"] |= {"parameters": 500_000_000_000, "layers": 20, "hidden": 16384}
    path = decide(read_inputs(numbers))
    # 16 B × 25e9 = 400 GB a layer: over 8 GPUs it fits, over 4 it does not.
    assert path.tp == 8
    assert path.steps[0].answer == "no"


def test_a_model_too_large_for_the_machine_is_said_so() -> None:
    numbers = exercise(dp=1)
    numbers["machine"] |= {"nodes": 1}
    path = decide(read_inputs(numbers))
    assert not path.holds
    assert "2 nodes would be needed" in path.steps[1].action


def test_sharding_is_reduced_where_fsdp_talks_too_much() -> None:
    numbers = exercise()
    numbers["shape"] |= {"parameters": 7_000_000_000, "layers": 32, "hidden": 4096}
    numbers["job"] |= {"global_batch": 256}
    assert decide(read_inputs(numbers)).sharding == "ZeRO-2"
    numbers["shape"] |= {"parameters": 34_000_000_000}
    path = decide(read_inputs(numbers))
    assert path.sharding == "FSDP"
    assert "do not fit" in path.steps[3].action


def test_measures_in_order_of_communication() -> None:
    names = [(name, fits) for name, _, fits in memory_order(read_inputs(exercise()))]
    assert names == [
        ("no sharding", False),
        ("ZeRO-1", False),
        ("ZeRO-2", False),
        ("FSDP", False),
        ("FSDP + activation checkpointing", True),
        ("FSDP + activation checkpointing + TP 8", True),
    ]


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"tp": 3, "dp": 1}, "does not divide 64 attention heads"),
        ({"dp": 128}, "layout needs 128 GPUs"),
        ({"dp_shard": 5}, "does not divide dp 64"),
        ({"dp_shard": 8, "zero": 1}, "needs zero 3"),
        ({"dp": 64, "micro_batch": 17}, "above the global batch"),
        ({"zero": 4}, "less than or equal to 3"),
        ({"dp": True}, "valid integer"),
        ({"dp": 0}, "greater than or equal to 1"),
        ({"tpp": 2}, "Extra inputs"),
    ],
)
def test_contradictory_layouts_are_refused(layout: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_inputs(exercise(**layout))


def test_all_faults_are_reported_at_once() -> None:
    numbers = exercise(tp=-1)
    numbers["machine"]["peak_flops"] = math.nan
    with pytest.raises(InputError) as caught:
        read_inputs(numbers)
    fields = {problem.field for problem in caught.value.problems}
    assert {problem.code for problem in caught.value.problems} == {"SP150"}
    assert fields == {"layout.tp", "machine.peak_flops"}


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**3), 10**6),
    st.sampled_from([10**400, -1, 0, 2**63, 10**18, 10**7, math.nan, math.inf, -0.0, 5e-324]),
    st.floats(),
    st.text(max_size=4),
    st.lists(st.integers(), max_size=2),
)
FIELDS = [(group, field) for group, fields in exercise().items() for field in fields] + [
    ("layout", name) for name in ("tp", "pp", "vpp", "dp_shard", "zero", "micro_batch")
]


@given(st.lists(st.tuples(st.sampled_from(FIELDS), JUNK), min_size=1, max_size=3))
def test_any_input_is_priced_or_refused(changes: list[tuple[tuple[str, str], object]]) -> None:
    numbers = exercise(dp=1)
    for (group, field), junk in changes:
        numbers[group][field] = junk
    try:
        inputs = read_inputs(numbers)
    except InputError:
        return
    book = ledger(inputs)
    for line in book.lines:
        assert isinstance(line.value, str) or math.isfinite(line.value), line


@pytest.mark.parametrize("junk", [[], None, "70B", 10**400, {"a": 1}])
def test_any_section_may_be_junk(junk: object) -> None:
    for group in exercise():
        with pytest.raises(InputError):
            read_inputs(exercise() | {group: junk})
