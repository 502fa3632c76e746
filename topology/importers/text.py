"""Bytes to text: encodings, escape sequences, and what is no text at all."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import InputError, Problem
from .imported import Dump

MAX_BYTES = 16_000_000
"""A fabric of 16,384 adapters prints some 11 MB; a larger file is another file."""

_PICTURES = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"BM": "a BMP picture",
    b"RIFF": "a picture or sound",
    b"%PDF": "a PDF",
    b"PK\x03\x04": "a ZIP archive or office document",
    b"\x1f\x8b": "a gzip archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"\x7fELF": "a program",
}
_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
# Colours, and their remains in a paste where the escape character was lost.
_ESCAPES = re.compile(r"\x1b\][^\x07\x1b]{0,200}\x07?|\x1b\[[0-?]{0,20}[ -/]{0,5}[@-~]|\x1b[@-_]?")
_BARE_COLOURS = re.compile(r"(?:\^|␛)?\[\d{0,3}(?:;\d{1,3}){0,4}m(?![\w-])|\^?\[(?:0|1|4|22|24)m")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_MOST_CONTROL = 0.02  # share of control characters above which a file is no text
_SAMPLE = 4096
_QUOTED_LINES = 3  # a text with fewer lines and with "\\n" in it was quoted by a logger


def read_dump(path: str | Path, gpu: str = "") -> Dump:
    """Read one file.

    Raises
    ------
    InputError
        SP100 where it cannot be read, SP130 where it is empty, too large, a picture or an archive.
    """
    name = str(path)
    try:
        if Path(path).is_dir():
            raise InputError(Problem(name, 0, 0, "", "SP100", "is a folder.", "Name a file in it."))
        with Path(path).open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        hint = "Check the name and the folder."
        raise InputError(Problem(name, 0, 0, "", "SP100", "no such file.", hint)) from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(Problem(name, 0, 0, "", "SP100", f"cannot be read: {reason}.")) from None
    return decode(raw, name, gpu)


def decode(raw: bytes, name: str, gpu: str = "") -> Dump:
    """Turn the bytes of a file into clean text.

    Raises
    ------
    InputError
        SP130 where they are no text.
    """
    empty = Dump(name, "", gpu)
    if len(raw) > MAX_BYTES:
        message = f"is larger than {MAX_BYTES // 1_000_000} MB: not the output of one command."
        raise empty.refuse(message, "Give the output of a single command, e.g. nvidia-smi topo -m.")
    for magic, what in _PICTURES.items():
        if raw.startswith(magic) and (len(magic) > 2 or b"\x00" in raw[:64]):  # noqa: PLR2004
            hint = "Save the output as text: nvidia-smi topo -m > topo.txt."
            raise empty.refuse(f"is {what}, not text.", hint)
    text, notes = _decoded(raw)
    text = _BARE_COLOURS.sub("", _ESCAPES.sub("", text)).replace("\r\n", "\n").replace("\r", "\n")
    if text.count("\n") < _QUOTED_LINES and "\\n" in text:
        text = text.replace("\\n", "\n").replace("\\t", "\t")
    if not text.strip():
        hint = "The command failed or its output went elsewhere (stderr?): run it again."
        raise empty.refuse("is empty.", hint)
    head = text[:_SAMPLE]
    if len(_CONTROL.findall(head)) > max(4, _MOST_CONTROL * len(head)):
        raise empty.refuse("is binary data, not text.", "Save the output of the command as text.")
    return Dump(name, _CONTROL.sub(" ", text), gpu, notes)


def _decoded(raw: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the text and what was odd about its encoding."""
    if raw[:2] in _UTF16:
        return raw[2:].decode(_UTF16[raw[:2]], errors="replace"), ()
    head = raw[:_SAMPLE]
    for encoding, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
        if zeros and zeros.count(0) > 0.8 * len(zeros):
            return raw.decode(encoding, errors="replace"), ()
    try:
        return raw.decode("utf-8-sig"), ()
    except UnicodeDecodeError as error:
        text = raw.decode("utf-8-sig", errors="replace")
        return text, (f"byte {error.start} and {text.count(chr(0xFFFD))} in all are not UTF-8",)
