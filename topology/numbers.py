"""Numbers as people write them: the checks that every unit parser shares."""

from __future__ import annotations

import math
import re
from fractions import Fraction

NUMBER = r"[0-9]{1,40}(?:_[0-9]{1,40})*(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,2})?"
_QUANTITY = re.compile(
    rf"\s*({NUMBER}|[0-9]{{1,3}}(?:,[0-9]{{3}})+)\s*([^\s0-9.,_][^\n]{{0,20}}?)?\s*"
)
# Beyond any machine or run; keeps float arithmetic exact enough and finite.
_LARGEST = 10**24
LONGEST_ECHO = 40
LONGEST_NAME = 60
"""Longer than any key of a file."""
_WIDEST_ECHO_BITS = 128


def shown(value: object) -> str:
    """Return a short, safe way to print any input, huge integers and long text included."""
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and value.bit_length() > _WIDEST_ECHO_BITS
    ):
        return f"a number of about 10^{int(value.bit_length() * math.log10(2))}"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST_ECHO else text[:LONGEST_ECHO] + "…"


def plain(name: object) -> str:
    """Return a name to print: control and writing-direction characters escaped, and not long."""
    text = repr(str(name))[1:-1]
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"


def finite(value: object, what: str) -> Fraction:
    """Return a plain number as an exact fraction.

    Raises
    ------
    ValueError
        For anything that is not a finite number from 0 to 1e24; truth values are not numbers here.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        msg = f"{shown(value)} is not a number; write {what}."
        raise ValueError(msg)
    if isinstance(value, float) and not math.isfinite(value):
        msg = f"{value} is not a finite number; write {what}."
        raise ValueError(msg)
    if value < 0:
        msg = f"{shown(value)} is negative; write {what}."
        raise ValueError(msg)
    if value > _LARGEST:
        msg = f"{shown(value)} is too large; write {what}."
        raise ValueError(msg)
    # str() keeps 0.1 at one tenth, where the binary value would carry its rounding along.
    return Fraction(value) if isinstance(value, int) else Fraction(str(value))


def split(text: str, what: str) -> tuple[Fraction, str]:
    """Return number and unit of ``text``, e.g. (80, "GB")."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        msg = f"{shown(text)} is not understood; write {what}."
        raise ValueError(msg)
    number = Fraction(match[1].replace(",", "").replace("_", ""))
    if number > _LARGEST:
        msg = f"{shown(text)} is too large; write {what}."
        raise ValueError(msg)
    return number, match[2] or ""


def positive(number: Fraction, value: object, what: str) -> Fraction:
    """Return ``number``, read from ``value``, if above 0 and not absurd; else ``ValueError``."""
    if number <= 0:
        msg = f"{shown(value)} must be above 0; write {what}."
        raise ValueError(msg)
    if number > _LARGEST:
        msg = f"{shown(value)} is too large; write {what}."
        raise ValueError(msg)
    return number
