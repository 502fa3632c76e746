"""Values that no point of a sweep could ever take, refused before anything is solved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from topology.errors import InputError, Problem

from .points import SweepSpec
from .vary import Axis

NONSENSE = ("SP101", "SP105", "SP106", "SP114")
"""An unknown key, and values of the wrong kind. Others, such as an unknown model or a value out of
range, are points that fail."""

LOOKED = 200
"""Points that a value is tried in before it counts as one that fits nowhere."""


def refuse_nonsense(spec: SweepSpec) -> None:
    """Refuse unknown fields, values of the wrong kind, and axes without any value that fits.

    Raises
    ------
    InputError
        With the fault of each, as its points would have it.
    """
    faults: dict[str, Problem] = {}
    for axis in spec.axes:
        found = [_faults(_only(spec, axis, value), [axis.field]) for value in axis.values]
        nowhere = all(found)
        for one in found:
            if nowhere or _is_nonsense(one):
                # A field deep in a section has the place of the section otherwise.
                said = [replace(p, path=f"--vary {axis.field}", line=0, column=0) for p in one[:1]]
                faults |= {str(problem): problem for problem in said}
    for name, fields in spec.scenarios.items():
        one = _faults(replace(spec, scenarios={name: fields}), fields)
        if _is_nonsense(one):
            faults |= {str(problem): problem for problem in one[:1]}
    if faults:
        raise InputError(*faults.values())


def _is_nonsense(faults: list[Problem]) -> bool:
    return any(problem.code in NONSENSE for problem in faults)


def _only(spec: SweepSpec, axis: Axis, value: object) -> SweepSpec:
    """Return the points with one value of an axis."""
    axes = (Axis(a.field, (value,)) if a is axis else a for a in spec.axes)
    return replace(spec, axes=tuple(axes))


def _faults(spec: SweepSpec, fields: Iterable[str]) -> list[Problem]:
    """Return what is wrong with fields in every point; nothing where any point takes them."""
    own, first = tuple(fields), list[Problem]()
    for _, laid in islice(spec.combinations(), LOOKED):
        try:
            spec.problem_of(laid)
        except InputError as error:
            found = [p for p in error.problems if any(_of(p.field, name) for name in own)]
            if not found:
                return []
            first = first or found
        else:
            return []
    return first


def _of(fault: str, field: str) -> bool:
    """Return whether a fault is of a field, of the section that it is in, or inside it."""
    return f"{fault}.".startswith(f"{field}.") or f"{field}.".startswith(f"{fault}.")
