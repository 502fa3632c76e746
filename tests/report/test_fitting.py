"""Tables keep within a width: text folds, heads shorten, columns go in order; no word is cut."""

from __future__ import annotations

import pytest

from solver.report.blocks import Column, Report, Sheet
from solver.report.render import render

COLUMNS = (
    Column("name", "layout of it", align="left"),
    Column("step", "seconds", short="s"),
    Column("share", "bubble", drop=2),
    Column("more", "communication", drop=1),
)
ROW = {"name": "tp=4,pp=4,zero=1", "step": "12,345.6", "share": "4.0 %", "more": "1.0 %"}
REPORT = Report((Sheet(COLUMNS, (ROW,)),), {}, (ROW,))


def lines(width: int | None) -> list[str]:
    return render(REPORT, "table", width=width).splitlines()


def test_a_table_with_room_is_as_it_was() -> None:
    assert lines(None) == lines(200)
    assert lines(200) == [
        "layout of it       seconds  bubble  communication",
        "tp=4,pp=4,zero=1  12,345.6   4.0 %          1.0 %",
    ]


def test_text_folds_first_and_numbers_never() -> None:
    assert lines(48) == [
        "layout of it   seconds  bubble  communication",
        "tp=4,pp=4,    12,345.6   4.0 %          1.0 %",
        "zero=1",
    ]


def test_columns_go_in_their_order_and_are_named() -> None:
    assert lines(34) == [
        "layout of it            s bubble",
        "tp=4,pp=4,zero=1 12,345.6  4.0 %",
        "Left out at this width:",
        "communication.",
    ]
    assert lines(28)[-1] == "bubble, communication."


@pytest.mark.parametrize("width", range(20, 60))
def test_no_width_is_exceeded_and_no_head_cut(width: int) -> None:
    shown = lines(width)
    assert max(map(len, shown)) <= width
    words = {word.strip(".,") for line in shown for word in line.split()}
    assert {"layout", "12,345.6"} <= words


def test_programs_keep_every_column() -> None:
    assert "communication" not in lines(28)[0]
    assert render(REPORT, "csv", width=28).splitlines()[0] == "name,step,share,more"
