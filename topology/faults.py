"""Turn pydantic's validation errors into faults with file, line, need versus have, and a fix."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from .errors import InputError, Problem, UnsupportedError
from .numbers import plain
from .source import Loc, Source, dotted
from .units import shown

UNSUPPORTED = "SP115"

_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list",
    "list": "a list",
    "dict": "a mapping (key: value)",
    "model": "a mapping (key: value)",
}
_RELATIONS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "above"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "below"),
}


class FieldError(ValueError):
    """A fault raised inside a pydantic validator, with its code and the fix.

    Attributes
    ----------
    code
        Stable id.
    hint
        What to write instead.
    field
        Location below the validated value, e.g. ``("moe", "top_k")``.
    """

    def __init__(self, code: str, message: str, hint: str = "", field: Loc = ()) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.field = field


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``Did you mean 'x'?`` for the nearest known name, or nothing."""
    lower = {entry.lower(): entry for entry in known}
    near = difflib.get_close_matches(name.lower()[:100], lower, 1)
    return f"Did you mean '{lower[near[0]]}'?" if near else ""


def unknown_key(source: Source, loc: Loc, known: Iterable[str]) -> Problem:
    """Describe a key that is not known where it stands."""
    names = sorted(known)
    key = str(loc[-1])
    section = dotted(loc[:-1]) or "problem"
    listing = f"Known keys: {', '.join(names)}."
    hint = f"{did_you_mean(key, names)} {listing}".strip()
    return source.fault(loc, "SP101", f"unknown key '{plain(key)}' in [{section}].", hint)


def raise_all(problems: Iterable[Problem]) -> None:
    """Raise the faults, if any.

    Raises
    ------
    UnsupportedError
        Where nothing is wrong but this version does not support what is asked.
    InputError
        Where something is wrong.
    """
    found = set(problems)
    if not found:
        return
    kind = UnsupportedError if all(p.code == UNSUPPORTED for p in found) else InputError
    raise kind(*found)


def faults(
    error: ValidationError,
    source: Source,
    model: type[BaseModel],
    prefix: Loc = (),
    names: Mapping[str, str] | None = None,
) -> list[Problem]:
    """Describe each error of one validation.

    Parameters
    ----------
    error
        What pydantic raised.
    source
        The file, for positions.
    model
        The model that was validated, for the known keys.
    prefix
        Location of the validated value in the file.
    names
        Model field to the file's name of it, where they differ.

    Returns
    -------
    One fault each.
    """
    return [_fault(entry, source, model, prefix, names or {}) for entry in error.errors()]


def _fault(
    entry: Any, source: Source, model: type[BaseModel], prefix: Loc, names: Mapping[str, str]
) -> Problem:
    inner: Loc = entry["loc"]
    loc = (*prefix, *(names.get(part, part) if isinstance(part, str) else part for part in inner))
    kind: str = entry["type"]
    if kind == "extra_forbidden":
        return unknown_key(source, loc, _keys(model, inner[:-1]))
    if kind == "missing":
        example = _example(model, inner)
        hint = f"Write e.g. {loc[-1]}: {example}." if example else ""
        return source.fault(loc, "SP113", "is missing.", hint)
    context = entry.get("ctx", {})
    if kind == "value_error":
        return _raised(context["error"], source, loc)
    code, message, hint = _plain(kind, entry, context)
    example = _example(model, inner)
    return source.fault(loc, code, message, hint or (f"Write e.g. {example}." if example else ""))


def _raised(error: ValueError, source: Source, loc: Loc) -> Problem:
    """Describe an error that a validator raised."""
    if isinstance(error, FieldError):
        return source.fault((*loc, *error.field), error.code, str(error), error.hint)
    message = str(error)
    # A check of several fields names the first one first: point at its line.
    word = re.match(r"([a-z_]+(?:\.[a-z_]+)?)\b", message)
    if word:
        inner = (*loc, *word[1].split("."))
        if inner in source.positions or inner in source.flags:
            loc = inner
    code = _unit_code(message) or ("SP103" if loc[-1:] == ("gpus",) else "SP114")
    message = message.removeprefix(f"{loc[-1]}: ") if loc else message
    return source.fault(loc, code, message)


def _unit_code(message: str) -> str:
    """Return the code of a forgotten unit, which the parsers of :mod:`topology.units` word so."""
    return "SP106" if "has no unit" in message else ""


def _plain(kind: str, entry: Any, context: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return code, message and hint of one of pydantic's own checks."""
    have = shown(entry["input"])
    if kind in _RELATIONS:
        key, words = _RELATIONS[kind]
        bound = context[key]
        limit = f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"
        return "SP109", f"{have} is out of range: it must be {words} {limit}.", ""
    if kind == "finite_number":
        return "SP109", f"{have} is not a finite number.", ""
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", context["expected"])
        hint = did_you_mean(have.strip("'"), known)
        return "SP112", f"{have} unknown. Choose {', '.join(known)}.", hint
    need = _NAMES.get(kind.split("_", maxsplit=1)[0])
    if need:
        return "SP114", f"needs {need}, got {_kind(entry['input'])} {have}.", ""
    message = str(entry["msg"])
    return "SP114", f"{message[0].lower()}{message[1:]}, got {have}.", ""


def _kind(value: object) -> str:
    kinds: tuple[tuple[type, str], ...] = (
        (bool, "the truth value"),
        (int, "the number"),
        (float, "the number"),
        (str, "the text"),
        (list, "the list"),
        (dict, "the mapping"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "nothing:")


def _field(model: type[BaseModel], loc: Loc) -> Any:
    """Return the pydantic field at a location, None where there is none."""
    field: Any = None
    for part in loc:
        if isinstance(part, int):
            continue
        if model is None or part not in model.model_fields:
            return None
        field = model.model_fields[part]
        model = _model_of(field.annotation)
    return field


def _model_of(annotation: Any) -> Any:
    """Return the pydantic model inside an annotation such as ``X | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (_model_of(part) for part in getattr(annotation, "__args__", ()))
    return next((part for part in inner if part is not None), None)


def _keys(model: type[BaseModel], loc: Loc) -> list[str]:
    target = model if not loc else _model_of(getattr(_field(model, loc), "annotation", None))
    if target is None:
        return []
    return [field.alias or name for name, field in target.model_fields.items()]


def _example(model: type[BaseModel], loc: Loc) -> str:
    examples = getattr(_field(model, loc), "examples", None)
    return str(examples[0]) if examples else ""


def checked(
    parse: Callable[[object], Any], code: str = "SP114", hint: str = ""
) -> Callable[[Any], Any]:
    """Wrap a parser of units as a pydantic validator with a code of its own.

    Parameters
    ----------
    parse
        A function that raises ``ValueError`` with need versus have.
    code, hint
        Code and fix of its faults.

    Returns
    -------
    A validator that lets None pass.
    """

    def validator(value: Any) -> Any:
        if value is None:
            return None
        try:
            return parse(value)
        except FieldError:
            raise
        except ValueError as error:
            message = str(error)
            raise FieldError(_unit_code(message) or code, message, hint) from None

    return validator


def installing(extra: str) -> str:
    """Say how an extra is installed, from a registry and from the folder of the sources."""
    return f'pip install "shardplan[{extra}]", or in the sources pip install ".[{extra}]"'
