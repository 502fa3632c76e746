"""The shape keys of real config.json files, one a family."""

from __future__ import annotations

from typing import Any

_DEEPSEEK = {
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "moe_layer_freq": 1,
}


def _llama(kind: str, *shape: int, **more: Any) -> dict[str, Any]:
    keys = (
        "num_hidden_layers",
        "hidden_size",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "vocab_size",
    )
    return {"model_type": kind, **dict(zip(keys, shape, strict=True)), **more}


CONFIGS: dict[str, dict[str, Any]] = {
    "llama3-70b": _llama("llama", 80, 8192, 64, 8, 28672, 128256, tie_word_embeddings=False),
    "llama3.2-1b": _llama(
        "llama", 16, 2048, 32, 8, 8192, 128256, head_dim=64, tie_word_embeddings=True
    ),
    "mistral-7b": _llama("mistral", 32, 4096, 32, 8, 14336, 32000, sliding_window=4096),
    "qwen2-7b": _llama(
        "qwen2", 28, 3584, 28, 4, 18944, 152064, use_sliding_window=False, sliding_window=131072
    ),
    "qwen3-8b": _llama("qwen3", 36, 4096, 32, 8, 12288, 151936, head_dim=128),
    "mixtral-8x7b": _llama(
        "mixtral", 32, 4096, 32, 8, 14336, 32000, num_local_experts=8, num_experts_per_tok=2
    ),
    "qwen2-57b-a14b": _llama(
        "qwen2_moe",
        *(28, 3584, 28, 4, 18944, 151936),
        num_experts=64,
        num_experts_per_tok=8,
        moe_intermediate_size=2560,
        shared_expert_intermediate_size=20480,
        decoder_sparse_step=1,
    ),
    "qwen3-30b-a3b": _llama(
        "qwen3_moe",
        *(48, 2048, 32, 4, 6144, 151936),
        head_dim=128,
        num_experts=128,
        num_experts_per_tok=8,
        moe_intermediate_size=768,
        mlp_only_layers=[],
    ),
    "deepseek-v2-lite": _llama(
        "deepseek_v2",
        *(27, 2048, 16, 16, 10944, 102400),
        **_DEEPSEEK,
        q_lora_rank=None,
        n_routed_experts=64,
        num_experts_per_tok=6,
        moe_intermediate_size=1408,
        n_shared_experts=2,
        first_k_dense_replace=1,
    ),
    "deepseek-v3": _llama(
        "deepseek_v3",
        *(61, 7168, 128, 128, 18432, 129280),
        **_DEEPSEEK,
        q_lora_rank=1536,
        n_routed_experts=256,
        num_experts_per_tok=8,
        moe_intermediate_size=2048,
        n_shared_experts=1,
        first_k_dense_replace=3,
        num_nextn_predict_layers=1,
    ),
    "gemma-7b": _llama("gemma", 28, 3072, 16, 16, 24576, 256000, head_dim=256),
    "gemma2-9b": _llama(
        "gemma2", 42, 3584, 16, 8, 14336, 256000, head_dim=256, sliding_window=4096
    ),
    "gpt2-xl": {
        "model_type": "gpt2",
        "n_layer": 48,
        "n_embd": 1600,
        "n_head": 25,
        "n_positions": 1024,
        "vocab_size": 50257,
    },
    "gpt-neox-20b": {
        "model_type": "gpt_neox",
        "num_hidden_layers": 44,
        "hidden_size": 6144,
        "num_attention_heads": 64,
        "intermediate_size": 24576,
        "vocab_size": 50432,
        "tie_word_embeddings": False,
    },
    "bloom-176b": {
        "model_type": "bloom",
        "n_layer": 70,
        "n_embed": 14336,
        "num_attention_heads": 112,
        "vocab_size": 250880,
    },
    "opt-66b": {
        "model_type": "opt",
        "num_hidden_layers": 64,
        "hidden_size": 9216,
        "num_attention_heads": 72,
        "ffn_dim": 36864,
        "max_position_embeddings": 2048,
        "vocab_size": 50272,
        "word_embed_proj_dim": 9216,
    },
    "falcon-7b": {
        "model_type": "falcon",
        "num_hidden_layers": 32,
        "hidden_size": 4544,
        "num_attention_heads": 71,
        "multi_query": True,
        "parallel_attn": True,
        "bias": False,
        "vocab_size": 65024,
    },
    "falcon-40b": {
        "model_type": "falcon",
        "num_hidden_layers": 60,
        "hidden_size": 8192,
        "num_attention_heads": 128,
        "num_kv_heads": 8,
        "new_decoder_architecture": True,
        "vocab_size": 65024,
    },
    "phi3-mini": _llama("phi3", 32, 3072, 32, 32, 8192, 32064, sliding_window=2047),
}

# Families without a preset: the count is that of the checkpoint on huggingface.co.
COUNTED: dict[int, dict[str, Any]] = {
    7_173_923_840: _llama("starcoder2", 32, 4608, 36, 4, 18432, 49152, sliding_window=4096),
    999_885_952: _llama("gemma3_text", 26, 1152, 4, 1, 6912, 262144, sliding_window=512),
}
