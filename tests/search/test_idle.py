"""GPUs that the best plan leaves without work are said, and only what is proved of them."""

from __future__ import annotations

from dataclasses import replace

from solver import solve
from solver.job.job import Objective
from solver.job.search import Search
from solver.search.idle import with_notes_on_gpus
from tests.search.helpers import problem


def test_idle_gpus_are_named_with_what_was_proved() -> None:
    cheapest = replace(problem(nodes=8), objective=Objective(minimise="cost"))
    result = solve(cheapest, top=1)
    used = result.plans[0].gpus
    assert result.status == "optimal"
    assert used < 64 == max(result.gpu_counts_considered)
    assert result.notes[-1] == (
        f"{used} of 64 GPUs work, {64 - used} stay idle: "
        "none of the layouts on more GPUs that keep the limits is cheaper"
    )


def test_unproved_is_said() -> None:
    cheapest = replace(problem(nodes=8), objective=Objective(minimise="cost"))
    stopped = solve(cheapest, top=1).model_copy(update={"status": "feasible", "notes": ()})
    (note,) = with_notes_on_gpus(cheapest, stopped).notes
    assert note.endswith("stay idle; that no layout on more GPUs is cheaper is not proved")


def test_nothing_is_said_where_all_work_or_the_number_was_asked() -> None:
    assert not any("idle" in note for note in solve(problem(), top=1).notes)
    asked = replace(problem(nodes=8), search=Search(gpus=32))
    assert not any("idle" in note for note in solve(asked, top=1).notes)
    capped = replace(problem(nodes=8), search=Search(max_gpus=32))
    assert not any("idle" in note for note in solve(capped, top=1).notes)
