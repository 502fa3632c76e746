"""Mutated dumps: an answer or an InputError, never anything else, and in bounded time."""

from __future__ import annotations

import contextlib
import os
import random
import time
import tracemalloc

import pytest

from tests.topology.importers.own_samples import MATRIX, SAMPLES
from topology.errors import InputError
from topology.importers import FORMATS, cluster_text, load_bytes

MUTATIONS = 200 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 20
"""Of each of 17 samples; 3,400 in the nightly run, and as many under a format that is forced."""
SECONDS, MEGABYTES = 4.0, 300  # twice the aim of 2 s: machines and their load differ

TOKENS = (
    *(b"NV99", b"X", b"GPU999999", b"[1-999999999]", b"-1", b"1e400", b"9" * 5000, b"\x00"),
    *(b"<!ENTITY a 'b'>", b"&a;", b"{", b"]", b"NaN", b"\xff\xfe", b"\x1b[31m", b"&x *x"),
    *(b"%s", b"\xe2\x80\xae", b"GPU0", b"SYS", b"@all", b"n[1-2", b"!!python/object:os.x"),
)


def without_a_line(raw: bytes, dice: random.Random) -> bytes:
    lines = raw.split(b"\n")
    del lines[dice.randrange(len(lines))]
    return b"\n".join(lines)


def with_a_cut_line(raw: bytes, dice: random.Random) -> bytes:
    lines = raw.split(b"\n")
    line = dice.randrange(len(lines))
    lines[line] = lines[line][: dice.randrange(len(lines[line]) + 1)]
    return b"\n".join(lines)


def glued(raw: bytes, dice: random.Random) -> bytes:
    return raw.replace(dice.choice((b"\t", b" ", b"=", b":", b'"')), b"", dice.randint(1, 9))


def with_noise(raw: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(raw) + 1)
    return raw[:at] + dice.randbytes(dice.randint(1, 20)) + raw[at:]


def with_a_token(raw: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(raw) + 1)
    return raw[:at] + dice.choice(TOKENS) + raw[at:]


def with_other_line_ends(raw: bytes, dice: random.Random) -> bytes:
    return raw.replace(b"\n", dice.choice((b"\r\n", b"\r", b"\n\n", b" ")))


def cut_off(raw: bytes, dice: random.Random) -> bytes:
    return raw[: dice.randrange(len(raw) + 1)]


def shuffled(raw: bytes, dice: random.Random) -> bytes:
    lines = raw.split(b"\n")
    dice.shuffle(lines)
    return b"\n".join(lines)


def doubled(raw: bytes, dice: random.Random) -> bytes:
    return raw + raw


def recoded(raw: bytes, dice: random.Random) -> bytes:
    encoding = dice.choice(("utf-16", "utf-16-le", "utf-8-sig"))
    return raw.decode("utf-8", "replace").encode(encoding)


WAYS = (without_a_line, with_a_cut_line, glued, with_noise, with_a_token, with_other_line_ends,
        cut_off, shuffled, doubled, recoded)  # fmt: skip


def mutated(text: str, dice: random.Random) -> bytes:
    """Spoil a dump in one to four ways."""
    raw = text.encode()
    for way in dice.choices(WAYS, k=dice.randint(1, 4)):
        raw = way(raw, dice)
    return raw


def survives(raw: bytes, form: str = "") -> None:
    started, said = time.process_time(), None
    try:
        found = load_bytes(raw, "dump", form, gpu="h100")
        cluster_text(found, "h100")
    except InputError as error:
        said = error
    if said is not None:
        assert str(said).startswith("error[SP1")
        assert all(problem.hint or problem.line for problem in said.problems), str(said)
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize("name", SAMPLES)
def test_mutations(name: str) -> None:
    dice = random.Random(name)
    for _ in range(MUTATIONS):
        survives(mutated(SAMPLES[name][1], dice))
        survives(mutated(SAMPLES[name][1], dice), dice.choice(FORMATS))


@pytest.mark.parametrize("form", FORMATS)
def test_noise(form: str) -> None:
    dice = random.Random(form)
    survives(dice.randbytes(50_000), form)
    survives(bytes(dice.choice(b" \tGPUNVX0123456789[]{}<>=:,-\n\"'") for _ in range(50_000)), form)
    for other in SAMPLES.values():
        survives(other[1].encode(), form)


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE s [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9))
    + "]>"
)
MB4 = 4_000_000 - 1000
"""Just below what most formats may hold."""


def filled(head: bytes, part: bytes, tail: bytes = b"", size: int = MB4) -> bytes:
    """Repeat a part until the text has a size."""
    return head + part * ((size - len(head) - len(tail)) // len(part)) + tail


HUGE = {
    "20 MB": b"GPU0 X NV18\n" * 1_700_000,
    "16 MB of one line": filled(b"", b"GPU0 ", size=4 * MB4),
    "matrix": filled(b"", MATRIX.encode()),
    "cells": filled(b"GPU0 ", b"NV18 "),
    "blanks": filled(b"GPU0", b" ", b"X"),
    "rows": filled(b"", b"GPU0 X NV18\n"),
    "brackets": filled(b"SwitchName=a Nodes=", b"["),
    "hosts": b"SwitchName=a Nodes=n[1-999999999999]\n" * 1000,
    "hosts in many": b"SwitchName=a Nodes=n[1-150000],m[1-9][1-9999999]\n" * 100,
    "hosts by comma": filled(b"SwitchName=a Nodes=", b"n,"),
    "switches": b"".join(b"SwitchName=s%d Nodes=n[%d-%d]\n" % (n, n, n + 9) for n in range(90_000)),
    "nested xml": filled(b"<system>", b"<pci>"),
    "wide xml": filled(b"<system>", b'<pci class="0x030200"/>', b"</system>"),
    "nested graphml": filled(b"<graphml>", b"<node>", size=4 * MB4),
    "wide graphml": filled(b"<graphml>", b"<node id='1'/>", size=4 * MB4),
    "nested json": filled(b'{"nodes":[', b"[", size=2 * MB4),
    "wide json": filled(b'{"nodes": [', b'{"id":1,"kind":"gpu"},', b'{"id":1}]}', size=2 * MB4),
    "huge int": b'{"nodes": [{"id": ' + b"9" * 100_000 + b', "kind": "gpu"}], "links": []}',
    "yaml bomb": b"- topology: a\n" + b"".join(b"  k%d: &k [*k, *k]\n" % n for n in range(99)),
    "deep yaml": b"- topology: " + b"[" * 900_000,
    "wide yaml": b"- topology: a\n  tree: {}\n" * 38_000,
    "records": filled(b"", b"NodeName=n1 Gres=gpu:h100:8 State=IDLE\n"),
    "sinfo rows": filled(b"NODELIST GRES\n", b"n[1-2] gpu:8\n"),
    "adapters": filled(b'Switch 4 "S-00a1"\n', b'[1] "H-00b1"[1](b1) # 4xNDR\n', size=4 * MB4),
    "labels": filled(b"", b'kind: Node\nnvidia.com/gpu.count: "8"\n'),
    "accelerators": filled(b"", b"accelerators:\n"),
    "escapes": filled(b"", b"\x1b]", size=4 * MB4),
}


@pytest.mark.parametrize("form", ["nccl-xml", "graphml"])
def test_entity_bombs_are_refused(form: str) -> None:
    for root in ("system", "graphml"):
        with pytest.raises(InputError):
            load_bytes(f"{BOMB}<{root}>&j;</{root}>".encode(), "bomb.xml", form)


@pytest.mark.parametrize("name", HUGE)
def test_large_files_take_bounded_time(name: str) -> None:
    survives(HUGE[name])


@pytest.mark.nightly
@pytest.mark.parametrize("name", HUGE)
def test_large_files_take_bounded_memory(name: str) -> None:
    tracemalloc.start()
    with contextlib.suppress(InputError):
        load_bytes(HUGE[name], "dump", gpu="h100")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MEGABYTES * 10**6
