"""Write a result to a file: a regular one whole or not at all, a device or pipe straight."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from topology.errors import InputError, Problem

_STREAMS = ("/dev/std", "/dev/fd/", "/proc/")
"""Names of open files: renaming over one would leave its other users with the old file."""


def write_whole(path: str, text: str) -> None:
    """Write under a temporary name beside the target of the path, then rename.

    What exists and is no regular file is written straight.

    Raises
    ------
    InputError
        SP100 where the file cannot be written; what stood there before is left alone.
    """
    try:
        if _is_stream(path):
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text)
        else:
            _replace(Path(os.path.realpath(path)), text)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise _refused(path, path, _reason(error)) from None


def check_targets(targets: Mapping[str, str], problem: str) -> None:
    """Refuse, before any work, files that cannot be written.

    Parameters
    ----------
    targets
        Flag to the path that it names.
    problem
        The problem file, which is not to be written over.

    Raises
    ------
    InputError
        SP100 for every such file.
    """
    faults: list[Problem] = []
    taken = {_identity(problem): "the problem file"}
    for flag, path in targets.items():
        reason = _obstacle(path)
        if not reason and _identity(path) in taken:
            reason = f"it is also {taken[_identity(path)]}"
        if reason:
            faults += _refused(flag, path, reason).problems
        taken.setdefault(_identity(path), flag)
    if faults:
        raise InputError(*faults)


def _refused(where: str, path: str, reason: str) -> InputError:
    named = "" if where == path else f"{path[:100]!r} "
    message = f"{named}cannot be written: {reason}."
    return InputError(Problem(where, 0, 0, "", "SP100", message, "Name another file."))


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


def _identity(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path


def _is_stream(path: str) -> bool:
    """Whether a path exists and is no regular file, or names an open one."""
    if os.path.abspath(path).startswith(_STREAMS):
        return True
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False


def _obstacle(path: str) -> str:
    """Return why a path cannot be written, empty where nothing speaks against it."""
    if not path:
        return "the name is empty"
    try:
        if os.path.isdir(path) or path.endswith("/"):
            return "it is a folder"
        if os.path.exists(path) and not os.access(path, os.W_OK):
            return "permission denied"
        return "" if _is_stream(path) else _folder_obstacle(os.path.realpath(path))
    except (OSError, ValueError) as error:
        return _reason(error)


def _folder_obstacle(path: str) -> str:
    folder = os.path.dirname(path)
    if not os.path.exists(folder):
        return "its folder does not exist"
    if not os.path.isdir(folder):
        return "its folder is a file"
    return "" if os.access(folder, os.W_OK | os.X_OK) else "its folder is not writable"


def _replace(target: Path, text: str) -> None:
    # A short name: one with the target's in it could be too long where the target's is not.
    part = target.with_name(f".shardplan-{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            part.unlink(missing_ok=True)
        raise
