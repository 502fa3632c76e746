from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.report.layouts import parse_layout
from topology.errors import InputError


def test_reads_every_key() -> None:
    text = "tp=8, pp=4,vpp=2,cp=1,ep=1,dp=2,dp_replicate=1,zero=1,micro_batch=1,recompute=full"
    values = parse_layout(text)
    assert values["tp"] == 8
    assert values["recompute"] == "full"
    assert len(values) == 10


def test_short_names() -> None:
    assert parse_layout("mbs=2,hsdp=4") == {"micro_batch": 2, "dp_replicate": 4}


def test_every_fault_at_once() -> None:
    with pytest.raises(InputError) as caught:
        parse_layout("tp=0,pq=1,zero=9,recompute=no")
    assert len(caught.value.problems) == 4


@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    with contextlib.suppress(InputError):
        assert parse_layout(text)
