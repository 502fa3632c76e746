"""How each Hugging Face model family writes its shape.

One function a family turns its keys into fields of :class:`Transformer`; what a family fixes in its
code (biases, norms, defaults of absent keys) is that of ``transformers``,
``models/<family>/configuration_*.py`` and ``modeling_*.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .hf_classic import bloom, falcon, gpt2, gpt_neox, opt, starcoder2
from .hf_config import Config, Fields


def _biases(c: Config) -> Fields:
    attention = c.flag("attention_bias", False)
    return {"qkv_bias": attention, "out_bias": attention}


def llama(c: Config) -> Fields:
    """Llama 1 to 3."""
    return {**c.llama_like(), **_biases(c), "mlp_bias": c.flag("mlp_bias", False)}


def mistral(c: Config) -> Fields:
    """Mistral: a window of 4096 where the key is absent."""
    fields = c.llama_like(kv_default=8)
    return {**fields, **c.sliding(fields["layers"], fields["layers"], 4096)}


def _late_window(c: Config, layers: int) -> Fields:
    """Qwen: the layers from max_window_layers on use the window, where it is switched on."""
    if not c.flag("use_sliding_window", False):
        return {}
    first = c.whole("max_window_layers", low=0, default=28)
    return c.sliding(layers, max(layers - first, 0), 4096)


def qwen2(c: Config) -> Fields:
    """Qwen2 and 2.5: biases on query, key and value only."""
    fields = c.llama_like(kv_default=None)
    return {**fields, "qkv_bias": True, **_late_window(c, fields["layers"])}


def qwen3(c: Config) -> Fields:
    """Qwen3: head_dim 128 where absent, a norm on each head's query and key."""
    fields = c.llama_like(default_dim=128, kv_default=None)
    return {**fields, **_biases(c), "qk_norm": True, **_late_window(c, fields["layers"])}


def _experts(c: Config, experts: str, ffn: str, **extra: Any) -> Fields:
    many = c.count(experts)
    top_k = c.count("num_experts_per_tok")
    if top_k > many:
        message = f"{top_k} experts a token exceed the {many} experts of {experts}."
        c.refuse("num_experts_per_tok", "SP110", message, f"Use at most {many}.")
    return {"experts": many, "top_k": min(top_k, many), "ffn": c.whole(ffn), **extra}


def mixtral(c: Config) -> Fields:
    """Mixtral: every layer is a mixture of experts of the full width."""
    fields = c.llama_like(kv_default=8)
    window = c.sliding(fields["layers"], fields["layers"])
    return {**fields, **window, "moe": _experts(c, "num_local_experts", "intermediate_size")}


def _qwen_layers(c: Config, layers: int) -> Fields:
    """Which layers are mixtures: every decoder_sparse_step-th, less a leading run of dense ones."""
    dense = c.data.get("mlp_only_layers") or []
    if dense != list(range(len(dense) if isinstance(dense, list) else 0)):
        c.unsupported("mlp_only_layers", "dense layers other than the first are not supported yet.")
        dense = []
    return {
        "every": min(c.layers("decoder_sparse_step", default=1), layers),
        "first_dense": len(dense),
    }


def qwen2_moe(c: Config) -> Fields:
    """Qwen2-MoE: one gated shared expert."""
    fields = qwen2(c)
    shared = c.whole("shared_expert_intermediate_size", low=0)
    extra = {"shared_ffn": shared, "shared_gate": True, **_qwen_layers(c, fields["layers"])}
    return {**fields, "moe": _experts(c, "num_experts", "moe_intermediate_size", **extra)}


def qwen3_moe(c: Config) -> Fields:
    """Qwen3-MoE: no shared expert."""
    fields = qwen3(c)
    extra = _qwen_layers(c, fields["layers"])
    return {**fields, "moe": _experts(c, "num_experts", "moe_intermediate_size", **extra)}


def _deepseek(c: Config, router_bias: bool) -> Fields:
    nope, rope = c.whole("qk_nope_head_dim"), c.whole("qk_rope_head_dim")
    width = nope + rope
    mla = {
        "q_lora_rank": c.whole("q_lora_rank") if c.has("q_lora_rank") else None,
        "kv_lora_rank": c.whole("kv_lora_rank"),
        "qk_nope_head_dim": nope,
        "qk_rope_head_dim": rope,
        "v_head_dim": c.whole("v_head_dim"),
    }
    # `head_dim` in these files is the rotary part; a head is as wide as its query.
    fields: Fields = {
        "layers": c.layers("num_hidden_layers"),
        **c.heads(default_dim=width),
        "ffn": c.whole("intermediate_size"),
        "vocab": c.vocab(),
        "tied": c.flag("tie_word_embeddings", False),
        **_biases(c),
        "mla": mla,
    }
    fields["head_dim"] = width
    if c.data.get("moe_layer_freq", 1) != 1:
        c.unsupported("moe_layer_freq", "mixtures in only some layers are not supported yet.")
    if not c.has("n_routed_experts"):
        return fields
    moe = _experts(c, "n_routed_experts", "moe_intermediate_size", router_bias=router_bias)
    shared = c.whole("n_shared_experts", low=0, default=0)
    moe["shared_ffn"] = shared * moe["ffn"]
    moe["first_dense"] = c.whole("first_k_dense_replace", low=0, default=0)
    return {**fields, "moe": moe}


def deepseek_v2(c: Config) -> Fields:
    """DeepSeek-V2: latent attention, shared experts, a dense first layer."""
    return _deepseek(c, router_bias=False)


def deepseek_v3(c: Config) -> Fields:
    """DeepSeek-V3, R1, Kimi-K2: a bias on the router.

    The multi-token-prediction module (``num_nextn_predict_layers``) is left out, as
    ``transformers`` does; an inline shape with ``mtp_layers: 1`` trains it too.
    """
    return _deepseek(c, router_bias=True)


def gemma(c: Config) -> Fields:
    """Gemma: tied, head_dim 256."""
    return {**c.llama_like(tied=True, default_dim=256, kv_default=None), **_biases(c)}


def gemma2(c: Config) -> Fields:
    """Gemma 2: four norms a layer, every second layer (the first one too) uses the window."""
    fields = {**gemma(c), "norms_per_layer": 4}
    layers = fields["layers"]
    return {**fields, **c.sliding(layers, (layers + 1) // 2, 4096)}


def gemma3(c: Config) -> Fields:
    """Gemma 3 text: norms on query and key; every sixth layer sees the whole sequence."""
    fields = {**gemma(c), "norms_per_layer": 4, "qk_norm": True}
    layers = fields["layers"]
    pattern = c.layers("sliding_window_pattern", "_sliding_window_pattern", default=6)
    return {**fields, **c.sliding(layers, layers - layers // pattern, 4096)}


def phi3(c: Config) -> Fields:
    """Phi-3: a Llama with fused projections and an optional window."""
    fields = c.llama_like()
    return {**fields, **c.sliding(fields["layers"], fields["layers"])}


FAMILIES: dict[str, Callable[[Config], Fields]] = {
    "bloom": bloom,
    "deepseek_v2": deepseek_v2,
    "deepseek_v3": deepseek_v3,
    "falcon": falcon,
    "gemma": gemma,
    "gemma2": gemma2,
    "gemma3_text": gemma3,
    "gpt2": gpt2,
    "gpt_neox": gpt_neox,
    "kimi_k2": deepseek_v3,
    "llama": llama,
    "mistral": mistral,
    "mixtral": mixtral,
    "opt": opt,
    "phi3": phi3,
    "qwen2": qwen2,
    "qwen2_moe": qwen2_moe,
    "qwen3": qwen3,
    "qwen3_moe": qwen3_moe,
    "starcoder2": starcoder2,
}
