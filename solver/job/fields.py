"""Parsers of single values of a problem file; each raises with need versus have and a fix."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from topology.faults import UNSUPPORTED, FieldError, did_you_mean
from topology.units import parse_count, shown

from .search import MAX_GPUS, RECOMPUTE_MODULES

MOST_VALUES = 10_000
"""Longest list or range of degrees; a longer one is a slip."""
MILLION, MEBI = 10**6, 2**20

MOST_CHOICES = 20
"""Most alternatives of one kind."""

_RANGE = re.compile(r"\s*([0-9]{1,9})\s*\.\.\s*([0-9]{1,9})\s*")
_BATCH = re.compile(r"\s*([0-9][0-9_,.]{0,30})\s*([A-Za-z]{0,20})\s*")
_SEQUENCES = {"seq", "seqs", "sequence", "sequences", "samples"}
_TOKENS = {"tok": 1, "token": 1, "tokens": 1} | {
    f"{prefix}tok{tail}": scale
    for prefix, scale in (("k", 10**3), ("m", MILLION), ("b", 10**9), ("g", 10**9))
    for tail in ("", "ens")
}
_TOKENS |= {f"{prefix}tok": 2**power for prefix, power in (("ki", 10), ("mi", 20), ("gi", 30))}
_SYNONYMS = {"price": "cost", "usd": "cost", "money": "cost", "dollars": "cost", "speed": "time"}


@dataclass(frozen=True, slots=True)
class Batch:
    """A global batch as written.

    Attributes
    ----------
    amount
        Number of sequences or tokens.
    in_tokens
        Whether it counts tokens.
    """

    amount: int
    in_tokens: bool


def parse_batch(value: object) -> Batch:
    """Read ``1024``, ``1024seq``, ``4194304tok``, ``4Mtok`` (10^6) or ``4Mitok`` (2^20)."""
    if not isinstance(value, str):
        return Batch(_whole(value, "sequences, e.g. 1024seq or 4Mtok"), in_tokens=False)
    match = _BATCH.fullmatch(value)
    if match is None:
        raise FieldError("SP105", f"{shown(value)} is not understood.", "Write 1024seq or 4Mtok.")
    number, unit = match[1], match[2].lower()
    if unit == "" or unit in _SEQUENCES:
        return Batch(_counted(number, 1), in_tokens=False)
    if unit in _TOKENS:
        return Batch(_counted(number, _TOKENS[unit]), in_tokens=True)
    raise FieldError("SP105", *_ambiguous(value, number, unit))


def _ambiguous(value: str, number: str, unit: str) -> tuple[str, str]:
    if unit not in {"k", "m", "b", "g", "ki", "mi", "gi"}:
        return f"{shown(value)} has the unknown unit {shown(unit)}.", "Write 1024seq or 4Mtok."
    prefix = "K" if unit[0] == "k" else "M"
    scale, binary = (10**3, 2**10) if prefix == "K" else (MILLION, MEBI)
    try:
        tokens, mebi = _counted(number, scale), _counted(number, binary)
    except FieldError:
        return f"{shown(value)} is ambiguous.", "Write 1024seq, 4Mtok or 4Mitok."
    hint = (
        f"write '{number}{prefix}tok' ({tokens:,} tokens), "
        f"'{number}{prefix}itok' ({mebi:,}) or '1024seq'."
    )
    return f"{shown(value)} is ambiguous:", hint


def _counted(number: str, scale: int) -> int:
    try:
        if scale == 1:
            return parse_count(number)
        whole, _, decimals = number.replace(",", "").replace("_", "").partition(".")
        unit: int = 10 ** len(decimals)
        scaled, rest = divmod(int(whole + decimals) * scale, unit)
    except ValueError as error:
        raise FieldError("SP105", str(error), "Write 1024seq or 4Mtok.") from None
    if rest or scaled < 1:
        raise FieldError("SP105", f"{shown(number)} times {scale:,} is not a whole number from 1.")
    return scaled


def parse_tokens(value: object) -> int:
    """Read a token count: ``100B``, ``1.5T``, ``100Btok`` or an integer."""
    if isinstance(value, str):
        value = re.sub(r"\s*tok(ens?)?\s*$", "", value, flags=re.IGNORECASE)
    return parse_count(value)


def parse_usd(value: object) -> float:
    """Read an amount of dollars: ``50000``, ``$50,000``, ``49.50``, ``50k USD``."""
    if isinstance(value, str):
        text = re.sub(r"^\s*(\$|USD)|\s*(\$|USD)\s*$", "", value, flags=re.IGNORECASE)
        plain_number = re.fullmatch(r"\s*(\d[\d,]*\.\d+)\s*", text)
        if plain_number is not None:
            return float(plain_number[1].replace(",", ""))
        return float(parse_count(text))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{shown(value)} is not an amount of dollars; write e.g. 50000.")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{shown(value)} is too large; write e.g. 50000.") from None


def parse_degrees(value: object) -> tuple[int, ...]:
    """Read allowed values: ``8``, ``[1, 2, 4]`` or ``1..16``, ascending and without repeats."""
    hint = "Write 8, [1, 2, 4, 8] or 1..16."
    if isinstance(value, str):
        match = _RANGE.fullmatch(value)
        if match is None:
            raise FieldError("SP114", f"{shown(value)} is not a number, list or range.", hint)
        first, last = int(match[1]), int(match[2])
        if not first <= last < first + MOST_VALUES:
            message = f"{shown(value)} must ascend and hold at most {MOST_VALUES:,} values."
            raise FieldError("SP109", message, hint)
        value = list(range(first, last + 1))
    values = list(value) if isinstance(value, list | tuple) else [value]
    if not 0 < len(values) <= MOST_VALUES:
        message = f"{len(values):,} values: it must be from 1 to {MOST_VALUES:,}."
        raise FieldError("SP109", message, hint)
    return tuple(sorted({_degree(entry, hint) for entry in values}))


def _degree(value: object, hint: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise FieldError("SP114", f"needs whole numbers, got {shown(value)}.", hint)
    if not 0 <= value <= MAX_GPUS:
        raise FieldError("SP109", f"{shown(value)} is out of range 0..{MAX_GPUS:,}.", hint)
    return value


def positive(values: tuple[int, ...]) -> tuple[int, ...]:
    """Refuse 0 among degrees."""
    if values[0] < 1:
        raise FieldError("SP109", "0 is out of range: it must be at least 1.", "Write e.g. 1..8.")
    return values


def _whole(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise FieldError("SP114", f"needs a whole number of {what}, got {shown(value)}.")
    if value < 1:
        raise FieldError("SP109", f"{shown(value)} is out of range: it must be at least 1.")
    return value


def choice(*known: str) -> Any:
    """Make a validator that takes one of the names and suggests the nearest for any other."""

    def validator(value: Any) -> Any:
        if isinstance(value, str) and value in known:
            return value
        text = value.lower().strip() if isinstance(value, str) else ""
        near = _SYNONYMS.get(text, "")
        hint = f"Did you mean '{near}'?" if near in known else did_you_mean(text, known)
        raise FieldError("SP112", f"{shown(value)} unknown. Choose {', '.join(known)}.", hint)

    return validator


def module_sets(value: Any) -> tuple[tuple[str, ...], ...]:
    """Read sets of modules: ``core_attn``, ``core_attn+mlp``, or a list of such sets."""
    if value is None:
        return ()
    one = choice(*RECOMPUTE_MODULES)
    given = list(value) if isinstance(value, list | tuple) else [value]
    if not 0 < len(given) <= MOST_CHOICES:
        message = f"{len(given)} sets of modules: it must be from 1 to {MOST_CHOICES}."
        raise FieldError("SP109", message, "Write e.g. [core_attn, core_attn+mlp].")
    sets = []
    for entry in given:
        names = entry.split("+") if isinstance(entry, str) else entry
        if not isinstance(names, list | tuple) or not 0 < len(names) <= MOST_CHOICES:
            hint = "Write e.g. [core_attn, core_attn+mlp]."
            raise FieldError("SP114", f"{shown(entry)} is not a set of modules.", hint)
        wanted = {one(name.strip() if isinstance(name, str) else name) for name in names}
        sets.append(tuple(name for name in RECOMPUTE_MODULES if name in wanted))
    return tuple(dict.fromkeys(sets))


def not_yet(what: str) -> Any:
    """Make a validator that refuses a known feature of a later version; null and false pass."""

    def validator(value: Any) -> None:
        if value is not None and value is not False:
            raise FieldError(UNSUPPORTED, f"{what} is not supported yet.", "Leave the key out.")

    return validator


def elsewhere(where: str) -> Any:
    """Make a validator that says where a key stands; null and false pass."""

    def validator(value: Any) -> None:
        if value is not None and value is not False:
            raise FieldError("SP101", "does not stand here.", f"Write {where}.")

    return validator


def several(*known: str) -> Any:
    """Make a validator that takes choices, one or a list of them, in the order of ``known``."""
    one = choice(*known)

    def validator(value: Any) -> tuple[str, ...]:
        if value is None:
            return ()
        values = list(value) if isinstance(value, list | tuple) else [value]
        if len(values) > MOST_VALUES:
            raise FieldError("SP109", f"{len(values):,} values: at most {MOST_VALUES:,}.")
        named = {one(entry) for entry in values}
        return tuple(entry for entry in known if entry in named)

    return validator
