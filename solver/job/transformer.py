"""The shape of a transformer, its exact parameter count and its FLOPs.

Everything here follows from the layer shapes alone; a shape is read from a preset, a Hugging Face
``config.json`` (:mod:`solver.job.huggingface`) or an inline mapping, and never changed afterwards.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .counting import ParameterCounts, count, forward_flops

# Bounds well above any model that was ever trained; they keep every later product inside a float
# and refuse a mistyped figure where it was written.
MAX_LAYERS = 10_000
MAX_WIDTH = 1_000_000
MAX_HEADS = 10_000
MAX_VOCAB = 10_000_000
MAX_EXPERTS = 10_000
MAX_TOKENS = 100_000_000

Layers = Annotated[int, Field(ge=1, le=MAX_LAYERS)]
Width = Annotated[int, Field(ge=1, le=MAX_WIDTH)]
Heads = Annotated[int, Field(ge=1, le=MAX_HEADS)]
LayerCount = Annotated[int, Field(ge=0, le=MAX_LAYERS)]
WidthOrZero = Annotated[int, Field(ge=0, le=MAX_WIDTH)]


class Shape(BaseModel):
    """Base of the shape models: frozen, strict types, no unknown key."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Moe(Shape):
    """Mixture-of-experts part of a layer.

    Attributes
    ----------
    experts
        Routed experts of a layer.
    top_k
        Routed experts that one token visits.
    ffn
        Intermediate width of one routed expert.
    shared_ffn
        Intermediate width of all shared experts together; 0 for none.
    first_dense
        Leading layers that keep a dense MLP.
    every
        Every n-th layer is a mixture, the others are dense.
    router_bias
        One bias an expert beside the router matrix (DeepSeek-V3's load-balancing bias).
    shared_gate
        A gate vector on the shared expert (Qwen2-MoE).
    """

    experts: int = Field(ge=1, le=MAX_EXPERTS)
    top_k: int = Field(ge=1, le=MAX_EXPERTS)
    ffn: Width
    shared_ffn: WidthOrZero = 0
    first_dense: LayerCount = 0
    every: Layers = 1
    router_bias: bool = False
    shared_gate: bool = False

    @model_validator(mode="before")
    @classmethod
    def _count_of_shared_experts(cls, data: Any) -> Any:
        """Take ``shared: n`` for n shared experts of the routed width."""
        if not isinstance(data, dict) or "shared" not in data or "shared_ffn" in data:
            return data
        shared, ffn = data["shared"], data.get("ffn")
        if isinstance(shared, bool) or not isinstance(shared, int) or not 0 <= shared <= MAX_WIDTH:
            raise ValueError("shared counts the shared experts: a whole number from 0, e.g. 1")
        if isinstance(ffn, bool) or not isinstance(ffn, int):
            return {key: value for key, value in data.items() if key != "shared"}
        rest = {key: value for key, value in data.items() if key != "shared"}
        return {**rest, "shared_ffn": shared * ffn}

    @model_validator(mode="after")
    def _routing_is_possible(self) -> Moe:
        if self.top_k > self.experts:
            raise ValueError(
                f"top_k {self.top_k} exceeds experts {self.experts}: "
                "a token cannot visit more experts than there are"
            )
        return self


class Mla(Shape):
    """Multi-head latent attention (DeepSeek-V2, https://arxiv.org/abs/2405.04434, section 2.1).

    Attributes
    ----------
    q_lora_rank
        Rank of the query compression; None for a full query projection.
    kv_lora_rank
        Rank of the joint key and value compression.
    qk_nope_head_dim, qk_rope_head_dim
        Width of a head's query and key without and with rotary positions.
    v_head_dim
        Width of a head's value.
    """

    q_lora_rank: Width | None = None
    kv_lora_rank: Width
    qk_nope_head_dim: Width
    qk_rope_head_dim: Width
    v_head_dim: Width

    @property
    def qk_head_dim(self) -> int:
        """Width of one head's query and key."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim


class Transformer(Shape):
    """A decoder-only transformer.

    Attributes
    ----------
    name
        Preset id or file name, for output only.
    layers, hidden, heads, kv_heads, head_dim
        Depth, residual width, query heads, key/value heads (default: heads) and width of one head
        (default: hidden / heads).
    ffn
        Intermediate width of a dense MLP.
    gated
        Three matrices (SwiGLU, GeGLU) in place of two.
    vocab
        Rows of the embedding as trained, before any padding.
    tied
        The output projection reuses the embedding.
    learned_positions
        Rows of a learned position embedding.
    qkv_bias, out_bias, mlp_bias
        Biases of the projections.
    norm, norms_per_layer, final_norm, embedding_norm, qk_norm
        Kind of norm (``layer`` has a bias), how many a layer has outside attention, whether there
        is one after the last layer, one after the embedding, and one on each head's query and key.
    parallel_block
        Attention and MLP read the same input (Falcon, GPT-NeoX).
    alibi
        Positions as attention biases.
    window, window_layers
        Sliding attention window in tokens and the number of layers that use it.
    moe, mla
        Mixture of experts, latent attention.
    mtp_layers
        Multi-token-prediction modules that are trained too (DeepSeek-V3).
    stated_parameters
        A round figure that replaces the count in the textbook account only.
    source
        Where the shape comes from.
    """

    name: str = "inline"
    layers: Layers
    hidden: Width
    heads: Heads
    kv_heads: Heads
    head_dim: Width
    ffn: Width
    gated: bool = True
    vocab: int = Field(ge=1, le=MAX_VOCAB)
    tied: bool = False
    learned_positions: int = Field(default=0, ge=0, le=MAX_TOKENS)
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    norm: Literal["rms", "layer"] = "rms"
    norms_per_layer: int = Field(default=2, ge=0, le=8)
    final_norm: bool = True
    qk_norm: bool = False
    parallel_block: bool = False
    embedding_norm: bool = False
    alibi: bool = False
    window: int | None = Field(default=None, ge=1, le=MAX_TOKENS)
    window_layers: LayerCount = 0
    moe: Moe | None = None
    mla: Mla | None = None
    mtp_layers: int = Field(default=0, ge=0, le=16)
    stated_parameters: int | None = Field(default=None, ge=1, le=10**15)
    source: str = ""

    @model_validator(mode="before")
    @classmethod
    def _usual_heads(cls, data: Any) -> Any:
        """Fill kv_heads and head_dim where they follow from heads and hidden."""
        if not isinstance(data, dict):
            return data
        filled = {"kv_heads": data.get("heads"), **data}
        if filled["kv_heads"] is None:
            del filled["kv_heads"]
        heads, hidden = data.get("heads"), data.get("hidden")
        plain = all(isinstance(x, int) and not isinstance(x, bool) for x in (heads, hidden))
        if "head_dim" not in data and isinstance(heads, int) and isinstance(hidden, int):
            if plain and heads > 0 and hidden > 0 and hidden % heads == 0:
                filled["head_dim"] = hidden // heads
            elif plain and 0 < heads <= MAX_HEADS and 0 < hidden <= MAX_WIDTH:
                raise ValueError(
                    f"heads {heads} do not divide hidden {hidden}: give head_dim, "
                    "or mend one of the two"
                )
        if isinstance(data.get("ffn"), int) or not isinstance(data.get("moe"), dict | Moe):
            return filled
        # A pure mixture has no dense layer, so the dense width may be left out.
        moe = data["moe"]
        width = moe.ffn if isinstance(moe, Moe) else moe.get("ffn")
        return {"ffn": width, **filled}

    @model_validator(mode="after")
    def _parts_agree(self) -> Transformer:
        if self.heads % self.kv_heads:
            raise ValueError(
                f"kv_heads {self.kv_heads} must divide heads {self.heads}: "
                "each key/value head serves the same number of query heads"
            )
        if self.window_layers > self.layers:
            raise ValueError(f"window_layers {self.window_layers} exceeds layers {self.layers}")
        if self.window_layers and self.window is None:
            raise ValueError("window_layers needs window, the width in tokens, e.g. window: 4096")
        if self.moe is not None and self.moe_layers < 1:
            raise ValueError(
                f"moe.first_dense {self.moe.first_dense} and moe.every {self.moe.every} leave no "
                f"mixture among {self.layers} layers: lower one of them, or drop moe"
            )
        return self

    @property
    def moe_layers(self) -> int:
        """Layers with a mixture of experts.

        Layer i (from 0) is one when i >= first_dense and (i + 1) is a multiple of every, as
        Hugging Face's ``decoder_sparse_step`` counts.
        """
        if self.moe is None:
            return 0
        leading = min(self.moe.first_dense, self.layers)
        return self.layers // self.moe.every - leading // self.moe.every

    @property
    def dense_layers(self) -> int:
        """Layers with a dense MLP."""
        return self.layers - self.moe_layers

    @property
    def query_width(self) -> int:
        """Width of all heads' queries."""
        return self.heads * (self.mla.qk_head_dim if self.mla else self.head_dim)

    @property
    def value_width(self) -> int:
        """Width of all query heads' attention output, before the output projection."""
        return self.heads * (self.mla.v_head_dim if self.mla else self.head_dim)

    def parameters(self) -> ParameterCounts:
        """Count the trainable parameters, exactly.

        Returns
        -------
        Counts by block, total and active.
        """
        return count(self)

    def flops_per_token(
        self,
        seq_len: int,
        attention: Literal["causal", "full"] = "causal",
        span: float | None = None,
    ) -> float:
        """FLOPs of one forward pass per token; training takes three times as many.

        Parameters
        ----------
        seq_len
            Sequence length in tokens.
        attention
            ``causal`` counts the pairs that a causal mask leaves (seq_len / 2 on average),
            ``full`` the whole square. Never compare figures across the two.
        span
            Mean number of keys that a query sees, in place of the convention (packed documents).

        Returns
        -------
        FLOPs, a multiply-add counted as two. Norms, softmax and activations are left out, as in
        the usual model-FLOPs count (PaLM, https://arxiv.org/abs/2204.02311, appendix B).
        """
        return forward_flops(self, seq_len, attention, span)
