from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import units

PARSERS: list[Callable[[object], float]] = [
    units.parse_bytes,
    units.parse_bandwidth,
    units.parse_count,
    units.parse_duration,
    units.parse_percent,
    units.parse_price,
]
HOSTILE = [
    "",
    " ",
    "nan",
    "NaN GB",
    "inf",
    "-5GB",
    "- 1",
    "1e999",
    "9" * 5000,
    "٣GB",
    "80 GB GB",
    "\x00",
    "GB",
    "1.2.3GB",
    math.nan,
    math.inf,
    -math.inf,
    -1,
    True,
    False,
    None,
    10**400,
    10**5000,
    [],
    {},
    b"80GB",
    1 + 2j,
]


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("value", HOSTILE, ids=lambda v: type(v).__name__)
def test_hostile_values_are_refused_with_a_short_sentence(
    parse: Callable[[object], float], value: object
) -> None:
    with pytest.raises(ValueError, match=r"write|has no unit") as caught:
        parse(value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("parse", PARSERS)
@given(text=st.text(max_size=30))
def test_any_text_parses_to_a_finite_number_or_is_refused(
    parse: Callable[[object], float], text: str
) -> None:
    try:
        number = parse(text)
    except ValueError:
        return
    assert math.isfinite(number)
    assert number >= 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("80GB", 80 * 10**9),
        ("80 GiB", 80 * 2**30),
        ("81559MiB", 81559 * 2**20),
        ("1.5TB", 1_500_000_000_000),
        ("80gb".upper(), 80 * 10**9),
        ("80000000000", None),
        (80_000_000_000, 80 * 10**9),
        ("512 kB", 512_000),
    ],
)
def test_bytes(text: object, expected: int | None) -> None:
    if expected is None:
        with pytest.raises(ValueError, match="has no unit"):
            units.parse_bytes(text)
    else:
        assert units.parse_bytes(text) == expected


@pytest.mark.parametrize("value", ["80", 80, " 80 "])
def test_memory_without_a_unit_names_both_readings(value: object) -> None:
    with pytest.raises(ValueError, match="80 has no unit") as caught:
        units.parse_bytes(value)
    assert "80GB (10^9" in str(caught.value)
    assert "80GiB (2^30" in str(caught.value)


@pytest.mark.parametrize("text", ["4M", "80G", "80Gi", "80 g"])
def test_a_bare_prefix_is_ambiguous(text: str) -> None:
    with pytest.raises(ValueError, match="ambiguous: write"):
        units.parse_bytes(text)


def test_bits_are_not_memory() -> None:
    with pytest.raises(ValueError, match="bits"):
        units.parse_bytes("80Gb")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50GB/s", 50e9),
        ("400Gb/s", 50e9),
        ("400 Gbps", 50e9),
        ("400gbps", 50e9),
        ("400Gbit/s", 50e9),
        ("0.9 TB/s", 900e9),
        ("1GiB/s", 2**30),
        (50e9, 50e9),
    ],
)
def test_bandwidth(text: object, expected: float) -> None:
    assert units.parse_bandwidth(text) == expected


@pytest.mark.parametrize("value", [50, "50", "50GB", "50gb/s", "50 GB/h"])
def test_bandwidth_without_a_clear_unit(value: object) -> None:
    with pytest.raises(ValueError, match="write 50GB/s"):
        units.parse_bandwidth(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100B", 100 * 10**9),
        ("1.5T", 15 * 10**11),
        ("4096", 4096),
        ("4,194,304", 4 * 2**20),
        ("4Mi", 4 * 2**20),
        ("1e9", 10**9),
        ("1_000", 1000),
        (4096, 4096),
        (1e9, 10**9),
        ("15.6T", 15_600_000_000_000),
    ],
)
def test_count(text: object, expected: int) -> None:
    assert units.parse_count(text) == expected


@pytest.mark.parametrize("value", ["1.5", 1.5, 0, "0", "3Q", "1,5"])
def test_count_refuses(value: object) -> None:
    with pytest.raises(ValueError, match="write a whole number"):
        units.parse_count(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30d", 2_592_000), ("12h", 43_200), ("90min", 5400), ("3600s", 3600), ("1d 12h", 129_600)],
)
def test_duration(text: str, expected: float) -> None:
    assert units.parse_duration(text) == expected


@pytest.mark.parametrize(("value", "says"), [("30m", "minutes or months"), (30, "no unit")])
def test_duration_refuses(value: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        units.parse_duration(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("15%", 0.15), (0.15, 0.15), ("0.15", 0.15), (0, 0), (1, 1), ("100 %", 1)],
)
def test_percent(value: object, expected: float) -> None:
    assert units.parse_percent(value) == expected


def test_percent_above_one_asks_back() -> None:
    with pytest.raises(
        ValueError, match=r"15 is out of range 0\.\.1\. Did you mean 0\.15 \(15 %\)"
    ):
        units.parse_percent(15)


@pytest.mark.parametrize(
    "value", ["2.50 $/gpu-h", "$2.50/gpu-h", "2.5 USD/GPU-hour", "$2.50", 2.5, "2.50 per gpu-h"]
)
def test_price(value: object) -> None:
    assert units.parse_price(value) == 2.5


@pytest.mark.parametrize("value", ["20 $/node-h", "2.5 €/gpu-h", "2.5 $/month", 0, "free"])
def test_price_refuses(value: object) -> None:
    with pytest.raises(ValueError, match="GPU-hour"):
        units.parse_price(value)


def test_shown_figures() -> None:
    assert units.show_bytes(17.5e9) == "17.5 GB"
    assert units.show_bytes(80 * units.GIB, binary=True) == "80.0 GiB"
    assert units.show_bandwidth(50e9) == "50.0 GB/s"
    assert units.show_seconds(69.6) == "69.6 s"
    assert units.show_seconds(0.0123) == "12.3 ms"
    assert units.show_seconds(19.2 * units.DAY) == "19.2 days"
    assert units.show_seconds(7 * units.HOUR) == "7.00 h"
    assert units.show_usd(73751.2) == "$73,751"
    assert units.show_usd(2.5) == "$2.50"
    assert units.show_count(70.55e9) == "70.5 B" or units.show_count(70.55e9) == "70.6 B"
    assert units.show_count(512) == "512"


@given(st.integers(1, 10**15))
def test_bytes_read_back_exactly(amount: int) -> None:
    assert units.parse_bytes(f"{amount}B") == amount
    assert units.parse_count(str(amount)) == amount
