"""Single values as text."""

from __future__ import annotations

import pytest

from solver.report.cells import percent


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.999, "99.9 %"), (1.0, "100 %"), (0.1, "10 %"), (0.155, "15.5 %"), (0.05, "5.0 %"),
     (0.0, "0 %"), (0.29, "29 %"), (10.0, "1000 %")],
)  # fmt: skip
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text
