"""The points of a sweep: the base problem with every combination of values laid over it."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from topology.errors import InputError, Problem
from topology.source import load_yaml, read_text
from topology.units import shown

from ..job.job import PlanningProblem
from ..job.read import parse_problem
from ..job.settings import nested
from ..report.resolved import canonical, problem_sha256, tool_version
from ..report.stored import problem_path
from .vary import Axis, axis_of, parse_vary, scenario_of

MOST_POINTS = 1_000_000
SCENARIO = "scenario"
EVEN = "even"


@dataclass(frozen=True)
class Point:
    """One problem of a sweep.

    Attributes
    ----------
    labels
        Varied field, or ``scenario``, to its value.
    key
        Fingerprint of the resolved problem and the version: equal problems are solved once.
    problem
        The problem; None where it is not valid.
    error
        Why it is not.
    """

    labels: dict[str, Any]
    key: str
    problem: PlanningProblem | None
    error: str | None


@dataclass(frozen=True)
class SweepSpec:
    """What a sweep is of, in text and plain values so that it can be stored and continued.

    Attributes
    ----------
    text, path
        The base problem file.
    overrides
        Dotted field to the value that a flag gave.
    axes
        What is varied.
    scenarios
        Name to dotted fields; empty for the base alone.
    """

    text: str
    path: str
    overrides: Mapping[str, Any]
    axes: tuple[Axis, ...]
    scenarios: Mapping[str, Mapping[str, Any]]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the labels, in order."""
        fields = tuple(axis.field for axis in self.axes)
        return (SCENARIO, *fields) if self.scenarios else fields

    @cached_property
    def key(self) -> str:
        """Fingerprint of the sweep."""
        axes = [[axis.field, list(axis.values)] for axis in self.axes]
        parts = [self.text, self.path, dict(self.overrides), axes,
                 {k: dict(v) for k, v in self.scenarios.items()}]  # fmt: skip
        return hashlib.sha256(canonical(parts).encode()).hexdigest()

    @property
    def size(self) -> int:
        """Points of the cross product."""
        count = max(len(self.scenarios), 1)
        for axis in self.axes:
            count *= len(axis.values)
        return count

    def points(self) -> Iterator[Point]:
        """Yield every point, the last axis fastest."""
        return (self._point(labels, fields) for labels, fields in self.combinations())

    def combinations(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Yield the labels of every point, and every field that it lays over the file."""
        for name in self.scenarios or (None,):
            scenario = self.scenarios[name] if name is not None else {}
            for values in itertools.product(*(axis.values for axis in self.axes)):
                chosen = {a.field: v for a, v in zip(self.axes, values, strict=True)}
                labels = ({SCENARIO: name} if name is not None else {}) | chosen
                yield labels, {**self.overrides, **scenario, **chosen}

    def problem_of(self, fields: Mapping[str, Any]) -> PlanningProblem:
        """Return the file's problem with fields laid over it.

        Raises
        ------
        InputError
            Where it is not valid.
        """
        return parse_problem(self.text, self.path, tree(fields), _where(fields))

    def _point(self, labels: dict[str, Any], fields: Mapping[str, Any]) -> Point:
        try:
            problem = self.problem_of(fields)
        except InputError as error:
            parts = [self.key, canonical(list(labels.values())), tool_version()]
            key = hashlib.sha256(canonical(parts).encode()).hexdigest()
            return Point(labels, key, None, str(error))
        problem = replace(problem, positions={})
        parts = [problem_sha256(problem), tool_version()]
        key = hashlib.sha256(canonical(parts).encode()).hexdigest()
        return Point(labels, key, problem, None)


def tree(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Turn dotted fields of any depth into the nested values of a problem file."""
    shallow = {k: v for k, v in fields.items() if k.count(".") < 2}  # noqa: PLR2004
    found = nested(shallow)
    for key, value in fields.items():
        if key in shallow:
            continue
        *sections, last = key.split(".")
        here = found
        for section in sections:
            inner = here.get(section)
            here[section] = inner if isinstance(inner, dict) else {}
            here = here[section]
        here[last] = value
    return found


def _where(fields: Mapping[str, Any]) -> dict[str, str]:
    return {field: f"--vary {field}" for field in fields}


def sweep_of(
    path: str | None, flags: Mapping[str, Any], varied: Sequence[str], scenarios: Sequence[str]
) -> SweepSpec:
    """Return the sweep that a command line asks for; see `read_sweep`."""
    axes = [parse_vary(text) for text in varied]
    return read_sweep(problem_path(path), flags, axes, scenarios)


def read_sweep(
    path: str, overrides: Mapping[str, Any], varied: Sequence[Axis], scenarios: Sequence[str]
) -> SweepSpec:
    """Read a problem file with its ``sweep`` and ``scenarios``, and lay what was asked over them.

    Parameters
    ----------
    path
        The problem file.
    overrides
        Dotted field to value, of flags.
    varied
        Axes of ``--vary``: they replace those of the file.
    scenarios
        Names to take; empty takes all of the file.

    Raises
    ------
    InputError
        With the fault.
    """
    text = read_text(path)
    data = load_yaml(text, path).data
    data = data if isinstance(data, dict) else {}
    axes = tuple(varied) or _axes(data.get("sweep"), path)
    _once(axes, "--vary" if varied else f"{path}: sweep")
    listed = _scenarios(data.get("scenarios"), path)
    unknown = [name for name in scenarios if name not in listed]
    if unknown:
        known = ", ".join(listed) or "none"
        message = f"{shown(unknown[0])} is no scenario of {path}. It has: {known}."
        raise InputError(Problem("--scenario", 0, 0, "", "SP112", message))
    taken = {name: listed[name] for name in scenarios or listed}
    settled = {"objective.top": 1, **({} if _says_stages(data) else {"search.stages": EVEN})}
    spec = SweepSpec(text, path, {**settled, **overrides}, axes, taken)
    if not axes and not taken:
        hint = "Add --vary cluster.nodes=4,8,16, or a sweep section to the file."
        raise InputError(Problem(path, 0, 0, "sweep", "SP113", "nothing is varied.", hint))
    if spec.size > MOST_POINTS:
        message = f"{spec.size:,} points: at most {MOST_POINTS:,}."
        raise InputError(Problem(path, 0, 0, "sweep", "SP109", message, "Vary less."))
    return spec


def _once(axes: Sequence[Axis], where: str) -> None:
    """Refuse a field that is varied twice, which two names of it can hide."""
    fields = [axis.field for axis in axes]
    for field in fields:
        if fields.count(field) > 1:
            hint = "Put all of its values into one list."
            raise InputError(Problem(where, 0, 0, field, "SP112", "is varied twice.", hint))


def _says_stages(data: Mapping[str, Any]) -> bool:
    search = data.get("search")
    return isinstance(search, dict) and "stages" in search


def _axes(listed: Any, path: str) -> tuple[Axis, ...]:
    if listed is None:
        return ()
    if not isinstance(listed, dict):
        message = f"needs a mapping of fields to values, got {shown(listed)}."
        hint = "Write e.g. {cluster.nodes: [4, 8, 16]}."
        raise InputError(Problem(path, 0, 0, "sweep", "SP114", message, hint))
    return tuple(axis_of(str(key), values, f"{path}: sweep") for key, values in listed.items())


def _scenarios(listed: Any, path: str) -> dict[str, dict[str, Any]]:
    if listed is None:
        return {}
    if not isinstance(listed, dict):
        message = f"needs a mapping of names, got {shown(listed)}."
        hint = "Write e.g. {small: {training.global_batch: 256seq}}."
        raise InputError(Problem(path, 0, 0, "scenarios", "SP114", message, hint))
    where = f"{path}: scenarios"
    return {str(name): scenario_of(given, str(name), where) for name, given in listed.items()}
