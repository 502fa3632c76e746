"""Units: the one place where text becomes bytes, seconds, FLOP and USD, and the way back.

Inside the project every number is in base units. ``GB`` is 10**9 bytes, ``GiB`` 2**30; a small
``b`` is a bit, a capital ``B`` a byte. Bandwidths are per GPU and per direction. Parsers raise
``ValueError`` with a sentence that says what was understood and what to write; callers that know
the file and the line turn it into a `topology.errors.Problem`.
"""

from __future__ import annotations

import re
from fractions import Fraction

from .numbers import LONGEST_ECHO, NUMBER, finite, positive, shown, split
from .show import (
    BITS_PER_BYTE,
    DAY,
    GB,
    GIB,
    HOUR,
    KB,
    KIB,
    MB,
    MIB,
    MINUTE,
    TB,
    TFLOP,
    TIB,
    WEEK,
    show_bandwidth,
    show_bytes,
    show_count,
    show_seconds,
    show_usd,
)

__all__ = [
    "BITS_PER_BYTE",
    "DAY",
    "GB",
    "GIB",
    "HOUR",
    "KB",
    "KIB",
    "MB",
    "MIB",
    "MINUTE",
    "TB",
    "TFLOP",
    "TIB",
    "WEEK",
    "finite",
    "parse_bandwidth",
    "parse_bytes",
    "parse_count",
    "parse_duration",
    "parse_percent",
    "parse_price",
    "show_bandwidth",
    "show_bytes",
    "show_count",
    "show_seconds",
    "show_usd",
    "shown",
]

_DURATION_PART = re.compile(rf"({NUMBER})\s*([a-zA-Z]+)\s*")

_PREFIX = {"": 1, "k": KB, "m": MB, "g": GB, "t": TB, "p": 10**15}
_BINARY = {"ki": KIB, "mi": MIB, "gi": GIB, "ti": TIB, "pi": 2**50}
_COUNT = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12} | _BINARY
_SECONDS: dict[str, int | Fraction] = {
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": 1,
    "sec": 1,
    "min": MINUTE,
    "h": HOUR,
    "d": DAY,
    "day": DAY,
    "days": DAY,
    "w": WEEK,
}
# A bare number is taken as bytes (or bytes per second) from here on. No memory or link of a
# training system is smaller, so a smaller number is one whose unit was forgotten.
_LEAST_BARE = 10**6
_PERCENT = 100


def parse_bytes(value: object) -> int:
    """Return bytes from ``"80GB"`` (10**9), ``"80GiB"`` (2**30) or an integer of bytes.

    Raises
    ------
    ValueError
        For a missing or ambiguous unit, bits, and anything that is not a positive finite amount.
    """
    what = "80GB (10^9 bytes) or 80GiB (2^30 bytes)"
    if not isinstance(value, str):
        number = finite(value, what)
        if 0 < number < _LEAST_BARE or number.denominator != 1:
            raise ValueError(_no_unit(value))
        return int(positive(number, value, what))
    number, unit = split(value, what)
    if unit == "":
        raise ValueError(_no_unit(value.strip()))
    scale = _byte_scale(unit)
    if scale is None:
        raise ValueError(_bad_byte_unit(value, unit))
    return round(positive(number * scale, value, what))


def _no_unit(value: object) -> str:
    number = value if isinstance(value, str) and len(value) <= LONGEST_ECHO else shown(value)
    return (
        f"{number} has no unit. Memory is either {number}GB (10^9 bytes) or "
        f"{number}GiB (2^30 bytes); an H100-80GB reports 81559MiB (79.6GiB) usable."
    )


def _byte_scale(unit: str) -> int | None:
    if unit in {"B", "bytes", "byte"}:
        return 1
    if not unit.endswith("B") or unit[:-1].lower() == "":
        return None
    prefix = unit[:-1].lower()
    return _PREFIX.get(prefix) or _BINARY.get(prefix)


def _bad_byte_unit(value: str, unit: str) -> str:
    prefix = unit[0].upper() if unit[0].lower() in "kmgtp" else "G"
    number = value.strip().removesuffix(unit).strip()
    choice = f"write {number}{prefix}B (decimal) or {number}{prefix}iB (binary)"
    if unit.lower() in _PREFIX or unit.lower() in _BINARY:
        return f"{shown(value)} is ambiguous: {choice}."
    if unit.endswith("b"):
        return f"{shown(value)} reads as bits (small b): {choice}."
    return f"{shown(value)} has the unknown unit {shown(unit)}: {choice}."


def parse_bandwidth(value: object) -> float:
    """Return bytes/s from ``"50GB/s"``, ``"400Gb/s"``, ``"400Gbps"`` or a number of bytes/s.

    Raises
    ------
    ValueError
        For a missing or ambiguous unit and anything that is not a positive finite rate.
    """
    what = "50GB/s (bytes) or 400Gb/s (bits)"
    if not isinstance(value, str):
        number = finite(value, what)
        if 0 < number < _LEAST_BARE:
            raise ValueError(_no_rate(value, shown(value)))
        return float(positive(number, value, what))
    number, unit = split(value, what)
    match = re.fullmatch(r"([kKMmGgTtP]i?|)(B|b|bit)(?:/s|/sec|ps)", unit)
    if match is None:
        raise ValueError(_no_rate(value, value.strip().removesuffix(unit).strip()))
    prefix, kind = match[1].lower(), match[2]
    if kind == "b" and match[1].islower() and unit.endswith("/s") and prefix:
        text = value.strip().removesuffix(unit).strip()
        upper = prefix.upper()
        choice = f"{text}{upper}B/s (bytes) or {text}{upper}b/s (bits)"
        msg = f"{shown(value)} is ambiguous: write {choice}."
        raise ValueError(msg)
    scale = _BINARY[prefix] if prefix in _BINARY else _PREFIX[prefix]
    divisor = 1 if kind == "B" else BITS_PER_BYTE
    return float(positive(number * scale / divisor, value, what))


def _no_rate(value: object, number: str) -> str:
    if len(number) > LONGEST_ECHO:
        number = shown(number)
    return (
        f"{shown(value)} is not a rate with a unit: write {number}GB/s (bytes) or "
        f"{number}Gb/s (bits), per GPU and per direction."
    )


def parse_count(value: object) -> int:
    """Return a whole number from ``"100B"``, ``"1.5T"``, ``"4Mi"``, ``"4,096"`` or an integer.

    K, M, B (or G), T are powers of 1000; Ki, Mi, Gi, Ti powers of 1024.

    Raises
    ------
    ValueError
        For fractions that do not come out whole, unknown suffixes, and what is not positive.
    """
    what = "a whole number such as 4096, 100B (10^9) or 1.5T (10^12)"
    if isinstance(value, str):
        number, unit = split(value, what)
        scale = _COUNT.get(unit.lower())
        if scale is None:
            msg = f"{shown(value)} has the unknown suffix {shown(unit)}; write {what}."
            raise ValueError(msg)
        number *= scale
    else:
        number = finite(value, what)
    number = positive(number, value, what)
    if number.denominator != 1:
        msg = f"{shown(value)} is not a whole number; write {what}."
        raise ValueError(msg)
    return int(number)


def parse_duration(value: object) -> float:
    """Return seconds from ``"30d"``, ``"12h"``, ``"90min"``, ``"3600s"`` or ``"1d 12h"``.

    Raises
    ------
    ValueError
        For a missing unit, the ambiguous ``m`` (minutes or months), and what is not positive.
    """
    what = "a duration such as 30d, 12h, 90min or 3600s"
    if not isinstance(value, str):
        finite(value, what)
        text = shown(value)
        msg = f"{text} has no unit; write {text}d, {text}h or {text}s."
        raise ValueError(msg)
    total, position, text = Fraction(0), 0, value.strip()
    while position < len(text):
        match = _DURATION_PART.match(text, position)
        if match is None:
            msg = f"{shown(value)} is not understood; write {what}."
            raise ValueError(msg)
        scale = _SECONDS.get(match[2].lower())
        if scale is None:
            ambiguous = match[2] in {"m", "M"}
            reason = "minutes or months" if ambiguous else f"unknown unit {shown(match[2])}"
            msg = f"{shown(value)}: {reason}; write {what}."
            raise ValueError(msg)
        total += Fraction(match[1].replace("_", "")) * scale
        position = match.end()
    return float(positive(total, value, what))


def parse_percent(value: object, most: float = 1.0) -> float:
    """Return a share from 0 to ``most``, written ``"15%"``, ``0.15`` or ``"0.15"``.

    Raises
    ------
    ValueError
        Outside 0..most (a bare 15 is asked whether 0.15 was meant) and for what is not finite.
    """
    what = 'a share such as 0.15 or "15%"'
    unit = ""
    if isinstance(value, str):
        number, unit = split(value, what)
        if unit not in {"", "%"}:
            msg = f"{shown(value)} has the unknown unit {shown(unit)}; write {what}."
            raise ValueError(msg)
        share = number / 100 if unit else number
    else:
        share = finite(value, what)
    if share > most:
        raise ValueError(_above(value, share, most, bool(unit)))
    return float(share)


def _above(value: object, share: float | Fraction, most: float, in_percent: bool) -> str:
    """Word the fault of a share that is too large; only a bare number may have meant percent."""
    if in_percent:
        return f"{shown(value)} is out of range 0..{100 * most:g} %."
    percent = float(share)
    guess = f" Did you mean {percent / 100:g} ({percent:g} %)?" if share <= _PERCENT else ""
    return (
        f"{shown(value)} is out of range 0..{most:g}.{guess} "
        'Percent strings such as "15%" are accepted.'
    )


_PRICE_TAIL = re.compile(r"(?:\$|usd)?\s*(?:/|per)\s*(?:gpu[-*·. ]?(?:h|hr|hour))", re.IGNORECASE)


def parse_price(value: object) -> float:
    """Return USD per GPU-hour from ``"2.50 $/gpu-h"``, ``"$2.50/gpu-h"`` or a plain number.

    Raises
    ------
    ValueError
        For another currency or base (node-hours, months), and what is not positive and finite.
    """
    what = "a price per GPU-hour such as 2.50 or '2.50 $/gpu-h'"
    if not isinstance(value, str):
        return float(positive(finite(value, what), value, what))
    text = value.strip()
    number, unit = split(text.removeprefix("$").removeprefix("USD"), what)
    if unit and not _PRICE_TAIL.fullmatch(unit) and unit.upper() not in {"$", "USD"}:
        node = " Divide a node's price by its GPUs." if "node" in unit.lower() else ""
        msg = f"{shown(value)} is not in USD per GPU-hour; write {what}.{node}"
        raise ValueError(msg)
    return float(positive(number, value, what))
