"""Host lists such as ``node[01-08,12],login1``, through ClusterShell's NodeSet."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod

from ..faults import installing
from .imported import Dump

MOST_HOSTS = 200_000
"""Hosts of one file; the largest cluster that `topology.spec` takes."""

_LONGEST = 200_000
_ALLOWED = re.compile(r"[\w.,:\[\]/-]+")
_OUTSIDE = re.compile(r"[^,\[\]]*(?:\[[^\[\]]*\][^,\[\]]*)*")
_RANGE = re.compile(r"(\d{1,18})-(\d{1,18})")
_NOTHING = {"", "(null)", "n/a", "none", "null"}


class Hosts:
    """Expands the host lists of one file, within a common bound.

    A list that cannot be read gives a warning and no hosts.
    """

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self.left = MOST_HOSTS
        self.warnings: list[str] = []

    def expand(self, text: str) -> tuple[str, ...]:
        """Return the hosts of a list, each once."""
        text = text.strip().strip("\"'").strip().strip(",")
        if text.lower() in _NOTHING:
            return ()
        if len(text) > _LONGEST:
            return self._unread(text, f"longer than {_LONGEST:,} characters")
        if not _ALLOWED.fullmatch(text):
            return self._unread(text, "odd characters")
        size = sum(map(_size, _OUTSIDE.findall(text)))
        if size > self.left:
            return self._unread(text, f"more than {MOST_HOSTS:,} hosts in the file")
        if "[" not in text and "]" not in text:
            names = tuple(dict.fromkeys(filter(None, text.split(","))))
        else:
            names = self._folded(text)
        self.left -= len(names)
        return names

    def all(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Return the hosts of several lists, each once."""
        return tuple(dict.fromkeys(name for text in texts for name in self.expand(text)))

    def _unread(self, text: str, reason: str) -> tuple[str, ...]:
        self.warnings.append(f"host list '{text[:60]}' is left out: {reason}")
        return ()

    def _folded(self, text: str) -> tuple[str, ...]:
        try:
            from ClusterShell.NodeSet import (  # noqa: PLC0415 - only for lists with brackets
                RESOLVER_NOGROUP,
                NodeSet,
                NodeSetException,
            )
        except ImportError:
            hint = f"Install it: {installing('hostlist')}."
            message = "holds host lists with brackets, which the package ClusterShell reads."
            raise self.dump.refuse(message, hint) from None
        try:
            # Without a resolver, @group stays text: no outside command is asked for groups.
            return tuple(NodeSet(text, resolver=RESOLVER_NOGROUP))
        except (NodeSetException, ValueError, IndexError, TypeError) as error:
            return self._unread(text, str(error)[:80])


def _size(item: str) -> int:
    """Return an upper bound of the hosts of one list item."""
    groups = re.findall(r"\[([^\[\]]*)\]", item)
    if not item:
        return 0
    return prod(sum(_span(part) for part in group.split(",")) for group in groups)


def _span(part: str) -> int:
    match = _RANGE.match(part.strip())
    return 1 if match is None else max(1, int(match[2]) - int(match[1]) + 1)
