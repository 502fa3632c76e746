"""A nested configuration: its keys held against the framework's, its values by their kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from topology.errors import InputError, Problem
from topology.faults import did_you_mean
from topology.source import Source, load_yaml
from topology.units import shown

from ..errors import NOT_UNDERSTOOD
from .base import Text

AUTO = "auto"
"""What Transformers fills in from its own arguments."""


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration file.

    Attributes
    ----------
    source
        Contents with their places.
    keys
        Known keys of each section, by its dotted name; ``top`` for those outside of any.
    """

    source: Source
    keys: Mapping[str, list[str]]

    @staticmethod
    def of(text: Text, keys: Mapping[str, list[str]]) -> Config:
        """Read YAML or JSON.

        Raises
        ------
        InputError
            For anything else, and with every unknown key.
        """
        config = Config(load_yaml(text.text, text.where), keys)
        if not isinstance(config.source.data, dict):
            raise InputError(config.fault((), "needs a mapping (key: value)."))
        unknown = list(config._unknown())
        if unknown:
            raise InputError(*unknown)
        return config

    def fault(self, loc: tuple[str, ...], message: str, hint: str = "",
              code: str = NOT_UNDERSTOOD) -> Problem:  # fmt: skip
        """Describe what is wrong where it stands."""
        return self.source.fault(loc, code, message, hint)

    def _unknown(self) -> Iterable[Problem]:
        for section, known in self.keys.items():
            loc = () if section == "top" else tuple(section.split("."))
            part = self.get(loc)
            if not isinstance(part, dict):
                continue
            for key in part:
                if key not in known:
                    hint = did_you_mean(str(key), known) or f"Known there: {', '.join(known)}."
                    yield self.fault((*loc, str(key)), "unknown key.", hint, "SP101")

    def get(self, loc: tuple[str, ...], default: Any = None) -> Any:
        """Return what stands at a place; ``auto`` and nothing give the default."""
        part = self.source.data
        for key in loc:
            if not isinstance(part, dict) or part.get(key) is None:
                return default
            part = part[key]
        return default if part == AUTO else part

    def number(self, loc: tuple[str, ...], default: int, least: int = 1) -> int:
        """Return a whole number.

        Raises
        ------
        InputError
            SP114 for anything else, SP109 below the least.
        """
        value = self.get(loc, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(self.fault(loc, f"needs a whole number, got {shown(value)}.",
                                        code="SP114"))  # fmt: skip
        if value < least:
            raise InputError(self.fault(loc, f"{value} is below {least}.", code="SP109"))
        return value

    def choice(self, loc: tuple[str, ...], choices: Iterable[Any], default: Any) -> Any:
        """Return one of several values.

        Raises
        ------
        InputError
            SP112 for another one.
        """
        value, known = self.get(loc, default), tuple(choices)
        plain = [entry for entry in known if entry == value and type(entry) is type(value)]
        if not plain:
            listing = ", ".join(map(str, known)).replace("True", "true").replace("False", "false")
            message = f"{shown(value)} unknown. Choose {listing}."
            raise InputError(self.fault(loc, message, code="SP112"))
        return plain[0]

    def flag(self, loc: tuple[str, ...], default: bool = False) -> bool:
        """Return true or false."""
        return bool(self.choice(loc, (True, False), default))
