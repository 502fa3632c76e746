"""Fine-tuning: which weights are trained, adapters beside frozen ones, and how the base is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .counting import attention_linears, mlp_linears

if TYPE_CHECKING:
    from .counting import Linear
    from .transformer import Transformer

LoraTarget = Literal["qkv", "attention", "mlp", "all"]
LORA_TARGETS: tuple[LoraTarget, ...] = ("qkv", "attention", "mlp", "all")
FrozenPart = Literal["embedding", "attention", "mlp", "experts", "router", "norms", "head"]
FROZEN_PARTS: tuple[FrozenPart, ...] = (
    "embedding",
    "attention",
    "mlp",
    "experts",
    "router",
    "norms",
    "head",
)
BASE_BITS = (16, 8, 4)
MAX_RANK = 65_536
MAX_FROZEN_LAYERS = 10_000


class Finetune(BaseModel):
    """What of a model is trained.

    Attributes
    ----------
    lora_rank
        Rank of the adapters (LoRA, Hu et al. 2021, arXiv 2106.09685); None trains the weights
        themselves. With adapters the whole base is frozen.
    lora_targets
        Which linear layers get adapters: ``qkv`` all that lead to queries, keys and values;
        ``attention`` also the output projection; ``mlp`` those of MLPs and experts; ``all`` both.
    base_bits
        Bits of a frozen base weight inside the layers: 16, or quantised to 8 or 4 (QLoRA,
        Dettmers et al. 2023, arXiv 2305.14314). Embedding, head and norms stay 16 bit.
    frozen
        Parts that are not trained, without adapters. A tied table is frozen as either of its parts.
    frozen_layers
        The first so many layers, and the embedding, are not trained and get no adapters. Nothing
        below them needs a gradient, so they have no backward pass.
    reference_model
        A frozen copy runs forward on the same data (DPO, Rafailov et al. 2023, arXiv 2305.18290).
        With adapters it is the base itself.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    lora_rank: int | None = Field(default=None, ge=1, le=MAX_RANK)
    lora_targets: tuple[LoraTarget, ...] = ("qkv",)
    base_bits: Literal[16, 8, 4] = 16
    frozen: tuple[FrozenPart, ...] = ()
    frozen_layers: int = Field(default=0, ge=0, le=MAX_FROZEN_LAYERS)
    reference_model: bool = False

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        for problem in self.clashes():
            raise ValueError(": ".join(problem))
        return self

    def clashes(self) -> Iterator[tuple[str, str]]:
        """Yield what contradicts itself: the field and what is wrong with it."""
        if self.lora_rank is None and self.base_bits < max(BASE_BITS):
            yield "base_bits", "a quantised base cannot be trained: it needs adapters"
        if self.lora_rank is not None and self.frozen:
            yield "frozen", "with adapters the whole base is frozen already"
        if self.lora_rank is not None and not self.lora_targets:
            yield "lora_targets", "is empty: no linear layer would get an adapter"

    @property
    def adapts(self) -> bool:
        """Whether adapters are trained in place of the weights."""
        return self.lora_rank is not None

    @property
    def qkv(self) -> bool:
        """Whether what leads to queries, keys and values has adapters."""
        return self.adapts and bool({"qkv", "attention", "all"} & set(self.lora_targets))

    @property
    def out(self) -> bool:
        """Whether the output projection of attention has adapters."""
        return self.adapts and bool({"attention", "all"} & set(self.lora_targets))

    @property
    def mlp(self) -> bool:
        """Whether MLPs and experts have adapters."""
        return self.adapts and bool({"mlp", "all"} & set(self.lora_targets))

    def trains(self, part: FrozenPart) -> bool:
        """Whether the weights of a part are trained, outside the frozen layers."""
        return not self.adapts and part not in self.frozen

    @property
    def copies_reference(self) -> bool:
        """Whether the reference model has weights of its own."""
        return self.reference_model and not self.adapts


@dataclass(frozen=True, slots=True)
class Block:
    """Parameters of a block: divided among tensor ranks, and whole on each of them."""

    split: float = 0.0
    whole: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        return self.split + self.whole

    def if_(self, trained: bool) -> Block:
        """Return this block where it is trained, else nothing."""
        return self if trained else Block()


@dataclass(frozen=True, slots=True)
class Blocks:
    """Parameters by block; of one layer, or one expert, where a model has several.

    ``embedding`` and ``head`` say whether the tables count at all: their size depends on padding.
    """

    attention: Block
    mlp: Block
    router: Block
    shared: Block
    expert: Block
    norms: Block
    embedding: bool
    positions: float
    head: bool
    final_norm: float
    mtp_joint: Block


def blocks(model: Transformer, finetune: Finetune | None = None) -> Blocks:
    """Return the trained parameters by block; all of the model's without ``finetune``.

    Matrices divide among tensor ranks; norms and routers do not.
    """
    counts = model.parameters()
    every = Blocks(
        attention=Block(counts.attention_per_layer),
        mlp=Block(counts.dense_mlp_per_layer),
        router=Block(0.0, counts.router_per_layer),
        shared=Block(counts.shared_expert_per_layer),
        expert=Block(counts.expert),
        norms=Block(0.0, counts.norms_per_layer),
        embedding=True,
        positions=counts.positions,
        head=True,
        final_norm=counts.final_norm,
        mtp_joint=Block(2.0 * model.hidden**2),
    )
    if finetune is None:
        return every
    if finetune.adapts:
        return _adapters(model, finetune)
    tables = _trained_tables(model, finetune)
    return Blocks(
        attention=every.attention.if_(finetune.trains("attention")),
        mlp=every.mlp.if_(finetune.trains("mlp")),
        router=every.router.if_(finetune.trains("router")),
        shared=every.shared.if_(finetune.trains("experts")),
        expert=every.expert.if_(finetune.trains("experts")),
        norms=every.norms.if_(finetune.trains("norms")),
        embedding=tables[0],
        positions=every.positions * tables[0],
        head=tables[1],
        final_norm=every.final_norm * finetune.trains("norms"),
        mtp_joint=every.mtp_joint.if_(finetune.trains("mlp")),
    )


def _trained_tables(model: Transformer, finetune: Finetune) -> tuple[bool, bool]:
    """Whether embedding and head are trained; a tied table is one."""
    embedding = finetune.trains("embedding") and not finetune.frozen_layers
    head = finetune.trains("head")
    if model.tied:
        head = head and finetune.trains("embedding")
        embedding = head
    return embedding, head


def adapted_attention(model: Transformer, finetune: Finetune | None) -> list[Linear]:
    """Projections of attention that have an adapter."""
    if finetune is None or not finetune.adapts:
        return []
    # The output projection is the last; everything before it leads to queries, keys and values.
    linears = attention_linears(model)
    return (linears[:-1] if finetune.qkv else []) + (linears[-1:] if finetune.out else [])


def adapted_mlp(model: Transformer, finetune: Finetune | None, ffn: float) -> list[Linear]:
    """Projections of an MLP that have an adapter."""
    return mlp_linears(model, int(ffn)) if finetune is not None and finetune.mlp and ffn else []


def _adapters(model: Transformer, finetune: Finetune) -> Blocks:
    rank = finetune.lora_rank or 0

    def mlp(ffn: int) -> Block:
        return _adapter(adapted_mlp(model, finetune, ffn), rank)

    moe = model.moe
    return Blocks(
        attention=_adapter(adapted_attention(model, finetune), rank),
        mlp=mlp(model.ffn),
        router=Block(),
        shared=mlp(moe.shared_ffn if moe else 0),
        expert=mlp(moe.ffn if moe else 0),
        norms=Block(),
        embedding=False,
        positions=0.0,
        head=False,
        final_norm=0.0,
        mtp_joint=Block(),
    )


def _adapter(linears: list[Linear], rank: int) -> Block:
    """Sum the adapters: two matrices each, of which the one at a divided side is divided too."""
    split = whole = 0.0
    for linear in linears:
        split += rank * (linear.outputs * linear.by_output + linear.inputs * linear.by_input)
        whole += rank * (
            linear.outputs * (not linear.by_output) + linear.inputs * (not linear.by_input)
        )
    return Block(split, whole)


def trainable_parameters(model: Transformer, finetune: Finetune | None = None) -> int:
    """Count the trained parameters."""
    if finetune is None:
        return model.parameters().total
    part, moe = blocks(model, finetune), model.moe
    first = min(finetune.frozen_layers, model.layers)
    mixtures = model.moe_layers - _mixtures_among(model, first)
    dense = model.layers - first - mixtures
    common = part.attention.total + part.norms.total
    mixture = part.router.total + part.shared.total
    mixture += part.expert.total * (moe.experts if moe else 0)
    table = float(model.vocab * model.hidden)
    tables = table * part.embedding + table * (part.head and not model.tied)
    ahead = common + (mixture if moe else part.mlp.total) + part.mtp_joint.total
    total = dense * (common + part.mlp.total) + mixtures * (common + mixture) + tables
    return round(total + part.positions + part.final_norm + model.mtp_layers * ahead)


def _mixtures_among(model: Transformer, first: int) -> int:
    """Count mixtures among the first layers."""
    moe = model.moe
    if moe is None:
        return 0
    return first // moe.every - min(moe.first_dense, first) // moe.every
