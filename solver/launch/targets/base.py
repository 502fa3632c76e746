"""What every target has: how it writes, what it can say, and under which names."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..description import Launch, Run

Words = tuple[str, ...]
"""One option with its values, as a command line has them."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a user asks of an export beside the plan.

    Attributes
    ----------
    version
        Release of the target's names; empty for its first.
    name
        Of the job.
    time_s, longest_s, margin
        Time limit in place of the prediction's, longest time that a queue gives one job, and what
        is added to the prediction, a fraction of it.
    save_every_s
        Seconds between checkpoints; None for the optimum of the failure rate.
    script
        Training script in place of the framework's.
    """

    version: str = ""
    name: str = "train"
    time_s: float | None = None
    longest_s: float | None = None
    margin: float | None = None
    save_every_s: float | None = None
    script: str = ""


@dataclass(frozen=True, slots=True)
class Exported:
    """A configuration.

    Attributes
    ----------
    text
        The file.
    file
        Name to keep it under.
    notes
        What has to be done beside it.
    words
        The same as command-line words, where the target is a command line.
    """

    text: str
    file: str
    notes: tuple[str, ...] = ()
    words: Words = field(default=())


@dataclass(frozen=True, slots=True)
class Target:
    """A target of export.

    Attributes
    ----------
    name
        As ``--to`` takes it.
    write
        Writer; raises LaunchError for what the target cannot say.
    says
        Fields of `Launch` that the configuration holds, and gives back when it is read.
    versions
        Releases whose names are known, the default first.
    search
        Fields of ``Search`` that keep a search to what the target can say; not all of it fits in
        them, so the writer still decides.
    parts
        Fields that split that search further, where some values only go together.
    """

    name: str
    write: Callable[[Launch, Run, Wanted], Exported]
    says: frozenset[str] = frozenset()
    versions: tuple[str, ...] = ("",)
    search: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[Mapping[str, tuple[Any, ...]], ...] = ({},)


def words_of(options: Iterable[Words]) -> Words:
    """Join options to the words of a command line."""
    return tuple(word for option in options for word in option)


def lines(options: Sequence[Words]) -> str:
    """Write options one a line, quoted for a shell where they must be."""
    return "".join(" ".join(map(shlex.quote, option)) + "\n" for option in options)


def continued(parts: Sequence[str], indent: str = "  ") -> str:
    """Join the lines of one shell command."""
    return f" \\\n{indent}".join(parts)
