"""The ``objective`` section of a problem file: one objective or several in order, and the front."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator

from topology.faults import FieldError, checked
from topology.offers import KINDS
from topology.units import parse_percent, shown

from .fields import choice, several
from .frozen import Frozen
from .job import AIMS, MAX_TOP
from .written import FLAG_OR_AXES, SEVERAL, WRITTEN_OR_NOT, Share

FRONT = ("time", "cost", "gpus")


def _kinds(value: Any) -> tuple[str, ...]:
    """Take one kind of price, a list of them, or ``on-demand,spot``."""
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",")]
    found: tuple[str, ...] = several(*KINDS)(value)
    return found


def _aims(value: Any) -> tuple[str, ...]:
    """Take further objectives in their order, each once."""
    if not isinstance(value, str | list | tuple | None):
        raise FieldError("SP112", f"{shown(value)} is no objective.", "Write e.g. [gpus, memory].")
    names = [value] if isinstance(value, str) else list(value or ())
    found = [choice(*AIMS)(name) for name in names[: 2 * len(AIMS)]]
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise FieldError("SP114", f"names {twice} twice.", "Write each objective once.")
    return tuple(found)


def _first(value: Any) -> Any:
    """Take the objective that comes first."""
    if value in ("gpus", "memory"):
        hint = "Start with time or cost, e.g. time,gpus; --objective gpus alone finds the fewest."
        raise FieldError("SP112", f"'{value}' cannot come first.", hint)
    return choice("time", "cost")(value)


class ObjectiveSpec(Frozen):
    """The ``objective`` section, or just ``time`` or ``cost``."""

    minimise: Annotated[str, BeforeValidator(_first)] = "time"
    then: Annotated[tuple[str, ...], BeforeValidator(_aims), SEVERAL] = Field(
        default=(), examples=["[gpus, memory]"]
    )
    pareto: Annotated[bool, FLAG_OR_AXES] = False
    top: int = Field(default=5, ge=1, le=MAX_TOP, examples=[5])
    tolerance: Annotated[
        float | None, BeforeValidator(checked(parse_percent, "SP109")), WRITTEN_OR_NOT
    ] = Field(default=None, examples=["3%"])
    gap: Share = Field(default=0.0, lt=1, examples=["1%"])
    price_kinds: Annotated[tuple[str, ...], BeforeValidator(_kinds), SEVERAL] = Field(
        default=(), examples=["[on-demand, spot]"]
    )

    @model_validator(mode="after")
    def _ordered(self) -> ObjectiveSpec:
        if self.minimise in self.then:
            raise FieldError(
                "SP114", f"names {self.minimise} twice.", "Write each objective once.", ("then",)
            )
        return self

    @field_validator("pareto", mode="before")
    @classmethod
    def _axes(cls, value: Any) -> bool:
        """Take a list of axes for true: the front always shows time, cost and GPUs."""
        if value is None or isinstance(value, bool):
            return bool(value)
        axes = value if isinstance(value, list | tuple) else [value]
        for axis in axes:
            choice(*FRONT)(axis)
        return bool(axes)


def objective_section(value: Any) -> Any:
    """Take ``time`` for the whole section, and ``time,cost`` or a list for objectives in order."""
    if isinstance(value, str | list | tuple):
        value = {"minimise": value}
    if not isinstance(value, dict) or "then" in value:
        return value
    given = value.get("minimise")
    names = given.split(",") if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or len(names) < 2:  # noqa: PLR2004  (one is no order)
        return value
    try:
        first, *then = _aims([name.strip() if isinstance(name, str) else name for name in names])
    except FieldError as error:
        raise FieldError(error.code, str(error), error.hint, ("minimise",)) from None
    return {**value, "minimise": first, "then": then}
