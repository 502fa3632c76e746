"""What is said of plans that are larger than measured runs, or as large as ones badly missed."""

from __future__ import annotations

from benchmarks.scale import bands, largest_runs, lines_of_file
from solver.cost.profile import load_profile
from solver.cost.scale import scale_notes
from topology.packaged import packaged

H100, A100 = "h100-80gb-sxm", "a100-80gb-sxm"


def test_a_plan_of_a_measured_size_has_no_note() -> None:
    assert scale_notes(load_profile("megatron-core", H100), 64, mixture=False) == ()
    assert scale_notes(load_profile("megatron-core", H100), 2048, mixture=True) == ()


def test_a_plan_beyond_the_largest_run_names_it() -> None:
    larger, missed = scale_notes(load_profile("megatron-core", H100), 8192, mixture=False)
    assert larger.startswith("8,192 GPUs: the largest measured run of megatron-core on h100 has 2")
    assert "expected error of 4.8%" in missed
    assert "14 measured dense runs on 2,049 and more GPUs" in missed
    assert "missed by 9.2%, predicted 8.6% too short" in missed


def test_a_stack_without_runs_of_this_gpu_is_held_against_any() -> None:
    (note, _) = scale_notes(load_profile("megatron-core", A100), 4096, mixture=False)
    assert "largest measured run of any stack on a100 has 3,072" in note
    assert scale_notes(load_profile("torchtitan", A100), 4096, mixture=True) == ()  # none at all


def test_figures_are_those_of_the_rows() -> None:
    rows = [
        {"class": "s dense", "gpu": "h100", "gpus": gpus, "error": error}
        for gpus, error in ((8, 0.1), (64, -0.3), (65, 0.2), (4096, -0.4))
    ]
    assert [len(part) for _, _, part in bands(rows)] == [2, 1, 0, 1]
    assert largest_runs(rows) == {"s dense": {"h100": 4096}}
    data = packaged("\n".join(lines_of_file(rows, "today")))
    assert data["errors"]["dense"]["all"] == 0.25
    first, *_, last = data["errors"]["dense"]["bands"]
    assert (first["error"], first["bias"]) == (0.2, -0.1)
    assert (last["first_gpus"], last["last_gpus"], last["bias"]) == (2049, None, -0.4)
