"""Write a result to a file, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from topology.errors import InputError, Problem


def write_whole(path: str, text: str) -> None:
    """Write under a temporary name in the same folder, then rename.

    Raises
    ------
    InputError
        SP100 where the file cannot be written; what stood there before is left alone.
    """
    part = Path(f"{path}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        if "\0" not in path:
            part.unlink(missing_ok=True)
        reason = getattr(error, "strerror", None) or str(error)
        message = f"cannot be written: {reason}."
        raise InputError(Problem(path, 0, 0, "", "SP100", message, "Name another file.")) from None
