"""The ``model`` of a problem file: a known id, a config.json, or the shape itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from topology.errors import InputError, Problem
from topology.faults import faults
from topology.source import Loc, Source
from topology.units import shown

from .huggingface import read_config
from .presets import find_model, is_model, suggest
from .transformer import Transformer

_LONGEST_NAME = 1000


def read_model(
    value: Any, source: Source, folder: Path
) -> tuple[Transformer | None, list[Problem]]:
    """Read the model.

    Parameters
    ----------
    value
        What the key holds.
    source
        The problem file, for positions.
    folder
        Folder that a relative path starts from.

    Returns
    -------
    The shape, or None and what is wrong.
    """
    loc: Loc = ("model",)
    if isinstance(value, dict):
        return _inline(value, source)
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_NAME:
        message = f"needs an id, a config.json or a mapping, got {shown(value)}."
        return None, [source.fault(loc, "SP102", message, "Write e.g. model: llama3-70b.")]
    if is_model(value):
        return find_model(value), []
    return _from_file(value, source, Path(value) if loc in source.flags else folder / value)


def _from_file(value: str, source: Source, path: Path) -> tuple[Transformer | None, list[Problem]]:
    file = path / "config.json" if _is_folder(path) else path
    if file == path and not value.endswith(".json"):
        message = f"'{value[:100]}' is not a known model."
        return None, [source.fault(("model",), "SP102", message, suggest(value))]
    if not _is_file(file):
        message = f"no such file: {shown(str(file))}."
        hint = "A relative path starts from the folder of the problem file."
        return None, [source.fault(("model",), "SP102", message, hint)]
    try:
        return read_config(file), []
    except InputError as error:
        return None, list(error.problems)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name that no file system takes
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _inline(value: dict[str, Any], source: Source) -> tuple[Transformer | None, list[Problem]]:
    try:
        return Transformer.model_validate(value), []
    except ValidationError as error:
        return None, faults(error, source, Transformer, ("model",))
