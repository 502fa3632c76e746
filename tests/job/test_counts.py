"""Parameter counts against real checkpoints, FLOPs against hand-worked cases."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from solver.job.presets import find_model, models
from solver.job.transformer import Mla, Moe, Transformer
from topology.errors import InputError

# Numbers of parameters that the checkpoints on huggingface.co hold.
REAL = {
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3.1-405b": 405_853_388_800,
    "llama3.2-1b": 1_235_814_400,
    "qwen2-7b": 7_615_616_512,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-8b": 8_190_735_360,
    "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "deepseek-v2": 235_741_434_880,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v3": 671_026_419_200,
    "gemma-7b": 8_537_680_896,
    "gemma2-9b": 9_241_705_984,
    "gemma2-27b": 27_227_128_320,
    "gpt2-xl": 1_557_611_200,
    "gpt-neox-20b": 20_554_567_680,
    "bloom-176b": 176_247_271_424,
    "falcon-7b": 6_921_720_704,
    "falcon-40b": 41_303_293_952,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "phi3-mini": 3_821_079_552,
}


@pytest.mark.parametrize("name", REAL)
def test_total_is_the_real_count(name: str) -> None:
    assert find_model(name).parameters().total == pytest.approx(REAL[name], rel=1e-6)


@pytest.mark.parametrize(
    ("name", "billions"),
    [("qwen2-57b-a14b", 57.41), ("gpt3-175b", 174.6), ("opt-66b", 65.7), ("kimi-k2", 1026.4)],
)
def test_total_is_near_the_published_figure(name: str, billions: float) -> None:
    assert find_model(name).parameters().total / 1e9 == pytest.approx(billions, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("mixtral-8x7b", 12.88),
        ("mixtral-8x22b", 39.15),
        ("deepseek-v3", 37.55),
        ("deepseek-v2", 21.4),
        ("qwen3-30b-a3b", 3.35),
        ("qwen3-235b-a22b", 22.19),
    ],
)
def test_active_is_the_published_figure(name: str, billions: float) -> None:
    assert find_model(name).parameters().active / 1e9 == pytest.approx(billions, rel=2e-3)


@pytest.mark.parametrize("name", sorted(models()))
def test_blocks_add_up(name: str) -> None:
    model = find_model(name)
    count = model.parameters()
    moe = model.moe
    mixture = count.router_per_layer + count.shared_expert_per_layer
    mixture += moe.experts * count.expert if moe else 0
    layers = model.layers * (count.attention_per_layer + count.norms_per_layer)
    layers += model.dense_layers * count.dense_mlp_per_layer + model.moe_layers * mixture
    ends = count.embedding + count.positions + count.final_norm + count.head
    assert layers + ends == count.total
    assert count.active <= count.total
    assert (count.active == count.total) == (moe is None)


def test_every_preset_has_a_source_and_its_own_name() -> None:
    for name, model in models().items():
        assert model.name == name
        assert model.source


def test_the_round_70b_model_states_its_size() -> None:
    model = find_model("seed-70b")
    assert (model.layers, model.hidden, model.stated_parameters) == (80, 8192, 70_000_000_000)


@pytest.mark.parametrize(
    "name", ["llama3-70b", "llama-3-70b", "meta-llama/Meta-Llama-3-70B", " LLaMA3-70B "]
)
def test_aliases(name: str) -> None:
    assert find_model(name).name == "llama3-70b"


def test_unknown_model_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"SP102.*Did you mean 'llama3-70b'"):
        find_model("llama3-70")
    with pytest.raises(InputError, match="Known are"):
        find_model("zzzz" * 1000)


def test_forward_flops_are_twice_the_parameters_without_attention_and_embedding() -> None:
    model = find_model("llama3-8b")
    count = model.parameters()
    norms = model.layers * count.norms_per_layer + count.final_norm
    matrices = count.total - count.embedding - norms
    attention = model.flops_per_token(8192) - 2 * matrices
    # scores and values: 2 x 2 x 4096 a key, half of 8192 keys on average, 32 layers
    assert attention == 4 * 4096 * 4096 * 32
    assert model.flops_per_token(8192, "full") - 2 * matrices == 2 * attention
    assert model.flops_per_token(8192, span=100.0) - 2 * matrices == 4 * 4096 * 100 * 32


def test_mixture_flops_follow_the_active_parameters() -> None:
    model = find_model("deepseek-v3")
    count = model.parameters()
    bare = model.flops_per_token(1, span=0.0)
    assert bare == pytest.approx(2 * (count.active - count.embedding), rel=1e-4)


def test_window_cuts_the_corner() -> None:
    base: dict[str, Any] = {"layers": 1, "hidden": 64, "heads": 1, "ffn": 64, "vocab": 64}
    free = Transformer(**base)
    near = Transformer(**base, window=4, window_layers=1)
    # queries 1..16 see 1,2,3 and then 4 keys; the convention counts w - w^2 / 2s = 3.5
    assert free.flops_per_token(16) - near.flops_per_token(16) == 4 * 64 * (8 - 3.5)
    assert near.flops_per_token(16, "full") == near.flops_per_token(16, span=4.0)
    assert near.flops_per_token(16, span=2.0) < near.flops_per_token(16, span=9.0)
    with pytest.raises(ValueError, match="seq_len"):
        free.flops_per_token(0)


def test_mtp_module_of_deepseek_v3() -> None:
    plain = find_model("deepseek-v3")
    with_mtp = plain.model_copy(update={"mtp_layers": 1})
    # 14B is the published size with the module's copies of embedding and head (1.85B)
    extra = with_mtp.parameters().total - plain.parameters().total
    assert extra / 1e9 == pytest.approx(11.6, rel=0.01)
    assert with_mtp.parameters().active - plain.parameters().active < extra
    assert with_mtp.flops_per_token(4096) > plain.flops_per_token(4096)


def test_latent_attention_without_query_compression() -> None:
    model = find_model("deepseek-v2-lite")
    assert model.mla == Mla(
        kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128
    )


def test_mixture_every_second_layer() -> None:
    base: dict[str, Any] = {"layers": 7, "hidden": 64, "heads": 1, "ffn": 64, "vocab": 64}
    model = Transformer(**base, moe=Moe(experts=4, top_k=1, ffn=64, every=2, first_dense=2))
    assert (model.moe_layers, model.dense_layers) == (2, 5)  # layers 3 and 5, from 0


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"heads": 3}, "heads 3 do not divide hidden 64"),
        ({"kv_heads": 3}, "kv_heads 3 must divide heads 4"),
        ({"window_layers": 1}, "window_layers needs window"),
        ({"window_layers": 9, "window": 4}, "exceeds layers"),
        ({"moe": {"experts": 4, "top_k": 8, "ffn": 8}}, "top_k 8 exceeds experts 4"),
        ({"moe": {"experts": 4, "top_k": 1, "ffn": 8, "first_dense": 9}}, "leave no mixture"),
        ({"layers": True}, "valid integer"),
        ({"layers": 10**400}, "less than or equal"),
        ({"hidden": float("nan")}, "valid integer"),
        ({"layers": "8"}, "valid integer"),
        ({"moe": {"experts": 4, "top_k": 1, "ffn": 8, "shared": True}}, "shared counts"),
        ({"moe": {"experts": 4, "top_k": 1, "ffn": "8", "shared": 1}}, "valid integer"),
        ({"moe": 3}, "valid dictionary"),
        ({"heads": "x"}, "valid integer"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, Any], match: str) -> None:
    base: dict[str, Any] = {"layers": 2, "hidden": 64, "heads": 4, "ffn": 64, "vocab": 64}
    with pytest.raises(ValidationError, match=match):
        Transformer(**{**base, **changes})


def test_shared_counts_experts_of_the_routed_width() -> None:
    moe = Moe.model_validate({"experts": 4, "top_k": 1, "ffn": 8, "shared": 2})
    assert moe.shared_ffn == 16


def test_pure_mixture_needs_no_dense_width() -> None:
    model = Transformer.model_validate(
        {
            "layers": 2,
            "hidden": 64,
            "heads": 4,
            "vocab": 64,
            "moe": {"experts": 4, "top_k": 1, "ffn": 8},
        }
    )
    assert model.ffn == 8
