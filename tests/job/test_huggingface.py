from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from solver.job.huggingface import parse_config, read_config
from solver.job.presets import find_model
from tests.job.configs import CONFIGS, COUNTED
from topology.errors import InputError, UnsupportedError


def write(**changes: Any) -> str:
    base = {**CONFIGS["llama3-70b"], **changes}
    return json.dumps({key: value for key, value in base.items() if value != "ABSENT"}, indent=1)


@pytest.mark.parametrize("name", CONFIGS)
def test_config_is_the_preset(name: str) -> None:
    read = parse_config(json.dumps(CONFIGS[name]), "x/config.json")
    known = find_model(name)
    unnamed = {"name": "", "source": ""}
    assert read.model_copy(update=unnamed) == known.model_copy(update=unnamed)


@pytest.mark.parametrize("total", COUNTED)
def test_config_without_a_preset_has_the_real_count(total: int) -> None:
    assert parse_config(json.dumps(COUNTED[total])).parameters().total == total


def test_example_file() -> None:
    example = Path(__file__).parents[2] / "examples" / "llama3-70b" / "config.json"
    model = read_config(example)
    assert model.name == "llama3-70b"
    assert model.parameters().total == 70_553_706_496


@pytest.mark.parametrize(
    ("changes", "code", "match"),
    [
        ({"model_type": "lama"}, "SP115", "Did you mean 'llama'"),
        ({"model_type": "ABSENT"}, "SP113", "model_type: is missing"),
        ({"model_type": 3}, "SP114", "needs text"),
        ({"num_attention_heads": 60}, "SP116", "8 key/value heads do not divide 60"),
        ({"hidden_size": 8200}, "SP116", "64 heads do not divide hidden size 8200"),
        ({"num_key_value_heads": 7}, "SP116", "Use 4 or 8"),
        ({"hidden_size": "8192"}, "SP114", "needs a whole number, got '8192'"),
        ({"hidden_size": True}, "SP114", "got True"),
        ({"hidden_size": float("nan")}, "SP114", "got nan"),
        ({"hidden_size": -1}, "SP109", "out of range: it must be from 1 to 1,000,000"),
        ({"num_hidden_layers": 10**300}, "SP109", "out of range"),
        ({"vocab_size": "ABSENT"}, "SP113", "vocab_size: is missing"),
        ({"tie_word_embeddings": 1}, "SP114", "needs true or false"),
        ({"quantization_config": {"bits": 4}}, "SP115", "quantized base"),
        ({"text_config": {}}, "SP115", "multimodal"),
        ({"model_type": "mistral", "layer_types": ["full_attention"]}, "SP116", "each of the 80"),
        ({"model_type": "mistral", "layer_types": [[]] * 80}, "SP115", "kind"),
    ],
)
def test_faults(changes: dict[str, Any], code: str, match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        parse_config(write(**changes), "config.json")
    assert [problem.code for problem in caught.value.problems] == [code]
    assert isinstance(caught.value, UnsupportedError) == (code == "SP115")
    assert all(problem.path == "config.json" for problem in caught.value.problems)
    assert all(problem.line for problem in caught.value.problems)


def test_all_faults_at_once_with_their_lines() -> None:
    with pytest.raises(InputError) as caught:
        parse_config(write(vocab_size=0, hidden_size="x"))
    assert [p.field for p in caught.value.problems] == ["hidden_size", "vocab_size"]
    assert [p.line for p in caught.value.problems] == [4, 8]


@pytest.mark.parametrize(
    ("name", "changes", "code"),
    [
        ("mixtral-8x7b", {"num_experts_per_tok": 9}, "SP110"),
        ("deepseek-v3", {"moe_layer_freq": 2}, "SP115"),
        ("deepseek-v3", {"first_k_dense_replace": 61}, "SP114"),
        ("qwen3-30b-a3b", {"mlp_only_layers": [3]}, "SP115"),
        ("qwen3-30b-a3b", {"mlp_only_layers": "x"}, "SP115"),
        ("opt-66b", {"word_embed_proj_dim": 512}, "SP115"),
        ("opt-66b", {"do_layer_norm_before": False}, "SP115"),
        ("falcon-40b", {"num_kv_heads": 7}, "SP116"),
    ],
)
def test_family_faults(name: str, changes: dict[str, Any], code: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_config(json.dumps({**CONFIGS[name], **changes}))
    assert [problem.code for problem in caught.value.problems] == [code]


def test_windows() -> None:
    def window(name: str, **changes: Any) -> tuple[int | None, int]:
        model = parse_config(json.dumps({**CONFIGS[name], **changes}))
        return model.window, model.window_layers

    assert window("mistral-7b", sliding_window=None) == (None, 0)
    assert window("qwen2-7b", use_sliding_window=True, max_window_layers=20) == (131072, 8)
    kinds = ["sliding_attention"] * 3 + ["full_attention"] * 29
    assert window("mistral-7b", layer_types=kinds) == (4096, 3)


def test_absent_key_value_heads() -> None:
    def heads(name: str, **changes: Any) -> int:
        data = {k: v for k, v in CONFIGS[name].items() if k != "num_key_value_heads"}
        return parse_config(json.dumps({**data, **changes})).kv_heads

    assert heads("llama3-70b") == 64
    assert heads("mistral-7b") == 8
    assert heads("mistral-7b", num_key_value_heads=None) == 32
    with pytest.raises(InputError, match=r"SP113.*num_key_value_heads: is missing"):
        heads("qwen2-7b")


def test_dense_deepseek_and_leading_dense_qwen() -> None:
    dense = parse_config(json.dumps({**CONFIGS["deepseek-v3"], "n_routed_experts": None}))
    assert dense.moe is None
    leading = parse_config(json.dumps({**CONFIGS["qwen3-30b-a3b"], "mlp_only_layers": [0, 1]}))
    assert leading.moe_layers == 46


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "a value is expected"),
        ("[]", "needs a JSON object"),
        ("{", "a key in double quotes"),
        ('{"a": 1,}', "a key in double quotes"),
        ('{"a" 1}', "':' is expected"),
        ('{"a": 1 "b"}', "',' or '}'"),
        ('{"a": 1} x', "text after the end"),
        ('{"a": 1, "a": 2}', "given twice"),
        ('{"a": "', "Unterminated string"),
        ('{"a": [1 2]}', "',' or ']'"),
        ("[" * 100_000, "nested more than 32 deep"),
        ('{"a": ' + "9" * 5000 + "}", "too large"),
    ],
)
def test_broken_json(text: str, match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        parse_config(text)
    assert caught.value.problems[0].line == 1


def test_unreadable_files(tmp_path: Path) -> None:
    binary = tmp_path / "config.json"
    binary.write_bytes(b"{\n\xff\xfe}")
    large = tmp_path / "large.json"
    large.write_bytes(b" " * 4_000_001)
    cases: list[tuple[str | Path, str]] = [
        (binary, "not UTF-8"),
        (large, "larger than 4 MB"),
        (tmp_path, "is a folder"),
        (tmp_path / "none", "no such file"),
        ("a\0b", "cannot be read"),
        ("x" * 5000, "cannot be read"),
    ]
    for path, match in cases:
        with pytest.raises(InputError, match=match):
            read_config(path)
