"""Whatever is written, the readers answer or raise InputError."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.job.huggingface import parse_config
from solver.job.job import PlanningProblem
from solver.job.read import example_path, parse_problem
from tests.job.configs import CONFIGS
from topology.errors import InputError, Problem

SETTINGS = settings(max_examples=max(300, settings().max_examples), deadline=None)
"""300 of each kind in a run, 2,000 at night."""

PROBLEM: dict[str, Any] = yaml.safe_load(example_path().read_text(encoding="utf-8"))
PROBLEM["model"] = "llama3-70b"
PROBLEM["search"] = {"tp": [1, 2], "pp": "1..4", "zero": [0, 3], "recompute": ["none"], "gpus": 64}
PROBLEM["objective"] = {"minimise": "cost", "pareto": ["time"], "top": 3}
PROBLEM["limits"] = {**PROBLEM["limits"], "deadline": "30d", "budget": 1e6}
INLINE: dict[str, Any] = {
    **PROBLEM,
    "model": {
        "layers": 4,
        "hidden": 64,
        "heads": 4,
        "ffn": 64,
        "vocab": 64,
        "moe": {"experts": 4, "top_k": 2, "ffn": 8, "shared": 1},
        "mla": {"kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8},
    },
}

HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 10**400 - 1, -(10**300), 2**63, 1.5, -0.0, 1e308, 5e-324]),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        ["1e999", "15%", "8x8xH100", "0x0xH100", "1..0", "9" * 300, "4M", "", "..", "$", "inf"]
    ),
    st.lists(st.one_of(st.integers(), st.text(max_size=4)), max_size=4),
    st.dictionaries(st.text(max_size=6), st.integers(), max_size=3),
)


def places(data: Any, loc: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: list[tuple[Any, Any]] = []
    if isinstance(data, dict):
        inner = list(data.items())
    elif isinstance(data, list):
        inner = list(enumerate(data))
    return [found for key, value in inner for found in ((*loc, key), *places(value, (*loc, key)))]


def mutated(base: Any, seed: int, values: list[Any]) -> Any:
    """Replace, drop or add a few values at random places."""
    rng = random.Random(seed)
    data = copy.deepcopy(base)
    for value in values:
        loc = rng.choice(places(data) or [()])
        if not loc:
            return data
        target = data
        for part in loc[:-1]:
            target = target[part]
        action = rng.random()
        if action < 0.15:
            del target[loc[-1]]
        elif action < 0.25 and isinstance(target, dict):
            target[f"{loc[-1]}x"] = value
        else:
            target[loc[-1]] = value
    return data


def outcome(text: str) -> PlanningProblem | tuple[Problem, ...]:
    try:
        return parse_problem(text)
    except InputError as error:
        return error.problems


def check(text: str) -> None:
    found = outcome(text)
    if isinstance(found, tuple):
        assert 1 <= len(found) <= 20
        for entry in found:
            assert entry.code.startswith("SP1")
            assert entry.message
            assert len(str(entry)) < 3000
        return
    counts = found.job.transformer.parameters()
    assert float(counts.total) < 1e25
    assert found.job.transformer.flops_per_token(found.job.seq_len) < 1e30


@SETTINGS
@given(st.sampled_from([PROBLEM, INLINE]), st.integers(0, 2**32), st.lists(HOSTILE, max_size=4))
def test_mutated_problems(base: dict[str, Any], seed: int, values: list[Any]) -> None:
    check(yaml.safe_dump(mutated(base, seed, values), allow_unicode=True))


@SETTINGS
@given(st.sampled_from([PROBLEM, INLINE]), st.integers(0, 2**32), st.lists(HOSTILE, max_size=4))
def test_hostile_flags(base: dict[str, Any], seed: int, values: list[Any]) -> None:
    with contextlib.suppress(InputError):
        parse_problem("", overrides=mutated(base, seed, values))


@SETTINGS
@given(
    st.text(max_size=10),
    st.integers(0, 400),
    st.integers(0, 60),
    st.sampled_from("{}[]:,&*!|>%@`\"'#-\t\n\x00\x85\ufeff"),
)
def test_damaged_text(insert: str, start: int, cut: int, sign: str) -> None:
    text = (
        example_path().read_text(encoding="utf-8").replace("llama3-70b/config.json", "llama3-70b")
    )
    check(text[:start] + insert + sign + text[start + cut :])


@SETTINGS
@given(st.text(max_size=80))
def test_any_text(text: str) -> None:
    check(text)


@SETTINGS
@given(st.sampled_from(sorted(CONFIGS)), st.integers(0, 2**32), st.lists(HOSTILE, max_size=3))
def test_mutated_configs(name: str, seed: int, values: list[Any]) -> None:
    with contextlib.suppress(InputError):
        model = parse_config(json.dumps(mutated(CONFIGS[name], seed, values)))
        assert model.parameters().total > 0


@SETTINGS
@given(st.text(max_size=40), st.integers(0, 300), st.integers(0, 40))
def test_damaged_json(insert: str, start: int, cut: int) -> None:
    text = json.dumps(CONFIGS["deepseek-v3"], indent=1)
    with contextlib.suppress(InputError):
        parse_config(text[:start] + insert + text[start + cut :])
