"""Options of a command line: out of a shell script, a file of arguments, or words themselves."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from topology.errors import InputError, Problem

from .base import Text

_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(?!\()(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?::?-([^}]*))?\}|([A-Za-z_]\w*))")
_NEAR = 0.87
"""Similarity from which an unknown option is taken for a mistyped one."""
_LONGEST_NUMBER = 12


@dataclass(frozen=True)
class Options:
    """Options with their values.

    Attributes
    ----------
    source
        Where they stand.
    values
        Values of each known option; the last one counts where it is given twice.
    words
        Words that belong to no option, e.g. a subcommand.
    passed_over
        Options that are not known.
    """

    source: Text
    values: Mapping[str, tuple[str, ...]]
    words: tuple[str, ...]
    passed_over: tuple[str, ...]

    def has(self, name: str) -> bool:
        """Whether an option is given."""
        return name in self.values

    def text(self, name: str, default: str = "") -> str:
        """Return the value of an option.

        Raises
        ------
        InputError
            SP113 where it has none.
        """
        if name not in self.values:
            return default
        if not self.values[name]:
            raise InputError(self.source.fault(name, "needs a value.", code="SP113"))
        return self.values[name][0]

    def number(self, name: str, default: int) -> int:
        """Return a whole number from 1.

        Raises
        ------
        InputError
            SP114 for anything else.
        """
        text = self.text(name, str(default))
        if not re.fullmatch(rf"[0-9]{{1,{_LONGEST_NUMBER}}}", text) or int(text) < 1:
            hint = "Write out what a script computes." if "$" in text else "Write e.g. 8."
            message = f"needs a whole number from 1, got '{text[:40]}'."
            raise InputError(self.source.fault(name, message, hint, "SP114"))
        return int(text)

    def choice(self, name: str, choices: Iterable[str], default: str = "") -> str:
        """Return one of several values.

        Raises
        ------
        InputError
            SP112 for another one.
        """
        value, known = self.text(name, default), tuple(choices)
        if name in self.values and value not in known:
            message = f"'{value[:40]}' unknown. Choose {', '.join(known)}."
            raise InputError(self.source.fault(name, message, code="SP112"))
        return value


def split(source: Text) -> list[str]:
    """Cut a text into words as a shell does, variables that it sets filled in.

    Raises
    ------
    InputError
        Where a quotation does not end.
    """
    try:
        raw = shlex.split(source.text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise InputError(source.fault("", f"{str(error).lower()}.", "Close the quotes.")) from None
    known: dict[str, str] = {}
    unused: dict[str, str] = {}
    words: list[str] = []
    for word in raw:
        filled = _VARIABLE.sub(lambda m: known.get(m[1] or m[3], m[2] or m[0]), word)
        assigned = _ASSIGNED.fullmatch(filled)
        alone = _VARIABLE.fullmatch(word)
        if alone is not None:  # without quotes a shell splits what the variable holds
            unused.pop(alone[1] or alone[3], None)
            words += filled.split()
        elif assigned is not None and not word.startswith("-"):
            known[assigned[1]] = unused[assigned[1]] = assigned[2]
        else:
            words.append(_unbracketed(filled))
    # A file that only sets variables means the options in them.
    return words + [w for value in unused.values() if "--" in value for w in value.split()]


def _unbracketed(word: str) -> str:
    """Drop the brackets of a bash array that stick to a word."""
    if word.count(")") > word.count("("):
        return word.rstrip(")")
    return word


def read_options(
    source: Text, takes: Mapping[str, str], others: Iterable[str], dashes: bool = True
) -> Options:
    """Read options.

    Parameters
    ----------
    source
        The text.
    takes
        Known options and what each takes: ``flag``, ``one``, ``three``, ``list``.
    others
        Options that are known to have no bearing.
    dashes
        Whether ``_`` and ``-`` are told apart.

    Raises
    ------
    InputError
        With every option that looks like a mistyped one.
    """
    known, ignored = dict(takes), set(others)
    spelled = known if dashes else {name.replace("_", "-"): name for name in known}
    values: dict[str, tuple[str, ...]] = {}
    words: list[str] = []
    passed: list[str] = []
    current: str | None = None
    for word in split(source):
        if not word.startswith("--") or word == "--":
            if current is not None:
                values[current] = (*values[current], word)
            else:
                words.append(word)
            continue
        name, equals, value = word.partition("=")
        key = name if dashes else spelled.get(name.replace("_", "-"), name)
        current = key if key in known else None
        if current is None:
            passed.append(name)
        else:
            values[current] = (value,) if equals else ()
    mistyped = [_mistyped(source, name, known, ignored) for name in dict.fromkeys(passed)]
    faults = [fault for fault in mistyped if fault is not None]
    faults += [
        source.fault(name, f"takes no value, got '{given[0][:40]}'.", code="SP114")
        for name, given in values.items()
        if takes[name] == "flag" and given and _is_value(given[0])
    ]
    if faults:
        raise InputError(*faults)
    unknown = tuple(name for name in dict.fromkeys(passed) if name not in ignored)
    return Options(source, values, tuple(words), unknown)


def _is_value(word: str) -> bool:
    return bool(re.fullmatch(r"[0-9]+|true|false|True|False", word))


def _mistyped(
    source: Text, name: str, known: Mapping[str, str], ignored: set[str]
) -> Problem | None:
    """Take an option that nearly has the name of one for a mistyped one."""
    if name in ignored:
        return None
    near = difflib.get_close_matches(name, [*known, *ignored], 1, _NEAR)
    if not near or near[0] in ignored:
        return None
    return source.fault(name, "unknown option.", f"Did you mean '{near[0]}'?", "SP101")
