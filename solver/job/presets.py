"""Known models, one data file each."""

from __future__ import annotations

import difflib
import functools
import importlib.resources
from collections.abc import Mapping
from types import MappingProxyType

from topology.errors import InputError, Problem
from topology.packaged import packaged

from .transformer import Transformer

EXAMPLE_SUGGESTIONS = 3


@functools.cache
def _load() -> tuple[Mapping[str, Transformer], Mapping[str, str]]:
    """Read every preset: id to model, and lower-case id or alias to id."""
    found: dict[str, Transformer] = {}
    names: dict[str, str] = {}
    folder = importlib.resources.files(__package__).joinpath("presets")
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".yaml"):
            continue
        data = packaged(file.read_text(encoding="utf-8"))
        aliases = data.pop("aliases")
        model = Transformer(**data)
        found[model.name] = model
        for name in (model.name, *aliases):
            # A second owner of a name would make the answer depend on the file order.
            if names.setdefault(name.lower(), model.name) != model.name:
                raise AssertionError(f"{file.name}: '{name}' already names {names[name.lower()]}")
    return MappingProxyType(found), MappingProxyType(names)


def models() -> Mapping[str, Transformer]:
    """Every known model by id, in alphabetical order."""
    return _load()[0]


def is_model(name: str) -> bool:
    """Whether the name is an id or an alias of a known model."""
    return name.strip().lower() in _load()[1]


def suggest(name: str) -> str:
    """Say which known model was probably meant, or how to see them all."""
    near = difflib.get_close_matches(name.strip().lower()[:100], _load()[1], EXAMPLE_SUGGESTIONS)
    listing = "(shardplan models list, or pass a HF config.json)"
    if not near:
        return f"Known are e.g. llama3-70b, mixtral-8x7b, deepseek-v3 {listing}."
    return f"Did you mean '{_load()[1][near[0]]}'? {listing}"


def find_model(name: str) -> Transformer:
    """Look a model up by id or alias, in any case.

    Parameters
    ----------
    name
        Id such as ``llama3-70b``, an alias such as ``llama-3-70b``, or the repository name
        ``meta-llama/Meta-Llama-3-70B``.

    Returns
    -------
    The shape.

    Raises
    ------
    InputError
        SP102 with the nearest name.
    """
    found, names = _load()
    key = name.strip().lower()
    if key not in names:
        message = f"'{name[:100]}' is not a known model."
        raise InputError(Problem("--model", 0, 0, "", "SP102", message, suggest(name)))
    return found[names[key]]
