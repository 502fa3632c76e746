"""Look up what a single word names: a model, a GPU, a cluster, a file."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import ValidationError

from topology.cluster import Cluster
from topology.errors import InputError, Problem
from topology.faults import faults
from topology.hardware import Gpu, find_gpu
from topology.source import Source, load_yaml, read_text
from topology.spec import ClusterSpec
from topology.units import parse_duration

from .model_field import read_model
from .transformer import Transformer

_FILE = re.compile(r".*\.(ya?ml|json)", re.IGNORECASE)


def named_model(name: str, where: str = "MODEL") -> Transformer:
    """Return a model by id, alias, ``config.json`` or the folder that holds one.

    Raises
    ------
    InputError
        SP102 with the nearest known name, or what is wrong with the file.
    """
    source = Source(where, {"model": name}, {}, {("model",): where})
    model, problems = read_model(name, source, Path())
    if model is None:
        raise InputError(*problems)
    return model


def named_gpu(name: str, where: str = "GPU") -> Gpu:
    """Return a GPU by id or alias.

    Raises
    ------
    InputError
        SP102 with the nearest known name.
    """
    try:
        return find_gpu(name)
    except ValueError as error:
        hint = "See: shardplan hardware list."
        raise InputError(Problem(where, 0, 0, "", "SP102", str(error), hint)) from None


def named_cluster(name: str, where: str = "CLUSTER") -> Cluster:
    """Return a cluster from shorthand such as ``8x8xH100``, or from a problem or cluster file.

    Raises
    ------
    InputError
        With each fault of the file's cluster; the rest of a problem file is not looked at.
    """
    if not _FILE.fullmatch(name) and not _exists(name):
        source = Source(where, name, {}, {(): where})
        return _built(name, source, ())
    source = load_yaml(read_text(name), name)
    if isinstance(source.data, dict) and "cluster" in source.data:
        return _built(source.data["cluster"], source, ("cluster",))
    return _built(source.data, source, ())


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # a name that no file system takes
        return False


def _built(value: object, source: Source, loc: tuple[str, ...]) -> Cluster:
    try:
        return ClusterSpec.model_validate(value).build()
    except ValidationError as error:
        raise InputError(*faults(error, source, ClusterSpec, loc)) from None


def seconds(text: str | None, where: str) -> float | None:
    """Return seconds from a duration such as ``60s``; None stays None.

    Raises
    ------
    InputError
        SP109 where it is not one.
    """
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InputError(Problem(where, 0, 0, "", "SP109", str(error))) from None
