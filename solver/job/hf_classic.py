"""Hugging Face families with layer norms and plain MLPs: GPT-2, GPT-NeoX, BLOOM, OPT, Falcon."""

from __future__ import annotations

from .hf_config import Config, Fields

_ALL_BIASES = {"qkv_bias": True, "out_bias": True, "mlp_bias": True}
_CLASSIC: Fields = {"norm": "layer", "gated": False}


def gpt2(c: Config) -> Fields:
    """GPT-2: learned positions, tied, everything has a bias."""
    shape = c.heads(kv=False)
    return {
        **_CLASSIC,
        **_ALL_BIASES,
        **shape,
        "layers": c.layers("n_layer", "num_hidden_layers"),
        "ffn": c.whole("n_inner", default=4 * shape["hidden"]),
        "vocab": c.vocab(),
        "tied": c.flag("tie_word_embeddings", True),
        "learned_positions": c.tokens("n_positions", "max_position_embeddings", default=1024),
    }


def gpt_neox(c: Config) -> Fields:
    """GPT-NeoX, Pythia: attention and MLP in parallel, untied."""
    attention = c.flag("attention_bias", True)
    return {
        **c.llama_like(),
        **_CLASSIC,
        "qkv_bias": attention,
        "out_bias": attention,
        "mlp_bias": True,
        "parallel_block": c.flag("use_parallel_residual", True),
    }


def bloom(c: Config) -> Fields:
    """BLOOM: ALiBi and a norm after the embedding."""
    shape = c.heads(kv=False)
    return {
        **_CLASSIC,
        **_ALL_BIASES,
        **shape,
        "layers": c.layers("n_layer", "num_hidden_layers"),
        "ffn": 4 * shape["hidden"],
        "vocab": c.vocab(),
        "tied": c.flag("tie_word_embeddings", True),
        "alibi": True,
        "embedding_norm": True,
    }


def opt(c: Config) -> Fields:
    """OPT: learned positions with two rows more than the sequence."""
    shape = c.heads(kv=False)
    if c.data.get("word_embed_proj_dim", shape["hidden"]) != shape["hidden"]:
        c.unsupported("word_embed_proj_dim", "a projected embedding is not supported yet.")
    if not c.flag("do_layer_norm_before", True):
        c.unsupported("do_layer_norm_before", "norms after the block are not supported yet.")
    bias = c.flag("enable_bias", True)
    return {
        **_CLASSIC,
        **shape,
        "layers": c.layers("num_hidden_layers"),
        "ffn": c.whole("ffn_dim"),
        "vocab": c.vocab(),
        "tied": c.flag("tie_word_embeddings", True),
        "learned_positions": c.tokens("max_position_embeddings", default=2048) + 2,
        "qkv_bias": bias,
        "out_bias": bias,
        "mlp_bias": bias,
    }


def falcon(c: Config) -> Fields:
    """Falcon: multi-query or grouped heads, parallel block, one or two norms."""
    shape = c.heads(kv=False)
    new = c.flag("new_decoder_architecture", False)
    grouped = new or not c.flag("multi_query", True)
    shape["kv_heads"] = (
        c.count("num_kv_heads", "n_head_kv", default=shape["heads"]) if grouped else 1
    )
    if shape["heads"] % shape["kv_heads"]:
        message = f"{shape['kv_heads']} key/value heads do not divide {shape['heads']} heads."
        c.refuse("num_kv_heads", "SP116", message, "Use a divisor.")
    parallel = new or c.flag("parallel_attn", True)
    norms = c.whole("num_ln_in_parallel_attn", high=2, default=2 if new else 1)
    bias = c.flag("bias", False)
    return {
        **_CLASSIC,
        **shape,
        "layers": c.layers("num_hidden_layers", "n_layer"),
        "ffn": c.whole("ffn_hidden_size", default=4 * shape["hidden"]),
        "vocab": c.vocab(),
        "tied": c.flag("tie_word_embeddings", True),
        "norms_per_layer": norms if parallel else 2,
        "parallel_block": parallel,
        "alibi": c.flag("alibi", False),
        "qkv_bias": bias,
        "out_bias": bias,
        "mlp_bias": bias,
    }


def starcoder2(c: Config) -> Fields:
    """StarCoder2: layer norms, biases, a plain MLP, tied."""
    fields = c.llama_like(tied=True, kv_default=None)
    bias = c.flag("use_bias", True)
    biases = {"qkv_bias": bias, "out_bias": bias, "mlp_bias": bias}
    return {**fields, **_CLASSIC, **biases, **c.sliding(fields["layers"], fields["layers"])}
