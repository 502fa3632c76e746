"""Whatever a file holds: a launch or an InputError, never another exception."""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from solver.launch.importing import READERS, import_launch
from solver.layout_check import check
from topology import InputError

from .plans import problem_of
from .wrong import ACCELERATE, DEEPSPEED, DENSE, MEGATRON, TORCHTITAN

VALUES = (
    "",
    "0",
    "-1",
    "1e9",
    "99999999999999999999",
    "nan",
    "None",
    "true",
    "[1]",
    "'",
    "$X",
    "é",
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner)
)


def judge(source: str, text: str) -> None:
    with contextlib.suppress(InputError):
        found = import_launch(problem_of(DENSE, 8, "megatron"), source, f"\n{text}")
        check(found.problem, found.request)


@pytest.mark.parametrize("source", READERS)
@given(text=st.text(max_size=80))
def test_any_text(source: str, text: str) -> None:
    judge(source, text)


@pytest.mark.parametrize(("source", "text"), [("megatron", MEGATRON), ("torchtitan", TORCHTITAN)])
@given(seed=st.integers(0, 10**6))
def test_right_arguments_with_a_word_changed(source: str, text: str, seed: int) -> None:
    rng, words = random.Random(seed), text.split()
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(words))
        change = rng.choice(("drop", "twice", "value", "cut"))
        if change == "drop":
            del words[place]
        elif change == "twice":
            words.insert(place, words[place])
        elif change == "cut":
            words[place] = words[place][: rng.randint(0, len(words[place]))]
        else:
            words[place] = rng.choice(VALUES)
    judge(source, " ".join(words))


@pytest.mark.parametrize(("source", "base"), [("deepspeed", DEEPSPEED), ("accelerate", ACCELERATE)])
@given(value=anything, seed=st.integers(0, 10**6), as_json=st.booleans())
def test_a_right_file_with_a_value_changed(
    source: str, base: dict[str, Any], value: Any, seed: int, as_json: bool
) -> None:
    rng, data = random.Random(seed), json.loads(json.dumps(base))
    part = data
    for _ in range(2):
        key = rng.choice(sorted(part))
        if isinstance(part[key], dict) and part[key] and rng.random() < 0.7:
            part = part[key]
    part[rng.choice(sorted(part))] = value
    judge(source, json.dumps(data) if as_json else yaml.safe_dump(data, allow_unicode=True))
