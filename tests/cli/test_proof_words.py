"""What a proof is about: evenly spread layers, or all ways to split them."""

from __future__ import annotations

from tests.cli.running import EXAMPLE, SMALL, run

EVENLY = "evenly spread layers"
WIDE = ("--width", "200")
TEXTBOOK = ("--cost-model", "textbook")
NOTHING = (EXAMPLE, "--gpus", "8", *WIDE)


def test_an_optimum_is_one_over_evenly_spread_layers() -> None:
    text = " ".join(run("solve", *SMALL).stdout.split())
    assert f"OPTIMAL (gap 0.0 %) over {EVENLY} (--stages free: over all)" in text
    freely = run("solve", *SMALL, "--stages", "free")
    assert freely.exit_code == 0
    assert "OPTIMAL (gap 0.0 %) ·" in freely.stdout
    assert EVENLY not in freely.stdout


def test_what_nothing_fits_for_names_free_stages() -> None:
    text = run("solve", *NOTHING).stdout
    assert f"proved infeasible with {EVENLY}" in text
    assert "try --stages free" in text


def test_what_nothing_fits_for_with_free_stages_says_whose_figures_follow() -> None:
    text = run("solve", *NOTHING, "--stages", "free").stdout
    assert "proved infeasible\n" in text
    assert f"figures and clashes below are of {EVENLY}" in text
    assert "try --stages free" not in text


def test_free_stages_are_named_only_where_they_can_be_had() -> None:
    text = run("solve", *NOTHING, *TEXTBOOK).stdout
    assert f"proved infeasible with {EVENLY}" in text
    assert "--stages free" not in text
    # A textbook plan without a pipeline has nothing to spread.
    assert EVENLY not in run("solve", *NOTHING, *TEXTBOOK, "--fix", "pp=1").stdout
