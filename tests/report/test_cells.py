"""Single values as text."""

from __future__ import annotations

import pytest

from solver.answers.amounts import apart
from solver.report.cells import axis_name, percent, things
from solver.report.ledger import measure


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.999, "99.9 %"), (1.0, "100 %"), (0.1, "10 %"), (0.155, "15.5 %"), (0.05, "5.0 %"),
     (0.0, "0 %"), (0.29, "29 %"), (10.0, "1000 %")],
)  # fmt: skip
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text


def test_one_thing_is_singular() -> None:
    assert (things(1, "node"), things(1250, "node")) == ("1 node", "1,250 nodes")
    assert (measure(1, "domains"), measure(0, "domains")) == ("1 domain", "0 domains")


def test_axes_have_names() -> None:
    names = [axis_name(axis) for axis in ("tp", "dp_shard", "host")]
    assert names == ["TP", "DP shard", "copies to the host"]


def test_figures_of_two_sides_differ() -> None:
    assert apart(34.2e9, 50e9, "bytes/s per GPU") == ("34.2 GB/s", "50.0 GB/s")
    assert apart(34.2411e9, 34.2409e9, "bytes/s per GPU") == ("34.2411 GB/s", "34.2409 GB/s")
    assert apart(0.10001, 0.10002, "share") == ("10.001 %", "10.002 %")
    assert apart(8, 16, "GPUs") == ("8 GPUs", "16 GPUs")
