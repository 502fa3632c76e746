"""What a target cannot say, or does not understand."""

from __future__ import annotations

from topology.errors import InputError, Problem

INEXPRESSIBLE = "SP160"
NOT_UNDERSTOOD = "SP161"


class LaunchError(InputError):
    """A plan that a target cannot express; it is refused, never cut down to what fits."""


class Refusals:
    """Collects what a target cannot say of one plan, so that all of it is told at once."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._found: list[Problem] = []

    def unless(self, said: bool, field: str, reason: str, fix: str) -> None:
        """Note a reason where something cannot be said."""
        if not said:
            where = f"--to {self.target}"
            self._found.append(Problem(where, 0, 0, field, INEXPRESSIBLE, reason, fix))

    def settle(self) -> None:
        """Raise what was noted.

        Raises
        ------
        LaunchError
            With every reason.
        """
        if self._found:
            raise LaunchError(*self._found)
