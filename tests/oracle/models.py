"""Random transformers, and the dice that draw them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

from solver.job.transformer import Transformer

T = TypeVar("T")

TINY = "tiny"
FAMILIES = ("mha", "gqa", "moe", "mla-moe", TINY)
HEADS = (6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96)


class Dice:
    """Draws that read well."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def pick(self, values: Sequence[T]) -> T:
        """Draw one of several values, all alike."""
        return self.random.choice(values)

    def chance(self, share: float) -> bool:
        """Draw true in this share of the cases."""
        return self.random.random() < share

    def some(self, values: Sequence[T]) -> tuple[T, ...]:
        """Draw a non-empty part of the values, in their order."""
        kept = tuple(value for value in values if self.chance(0.5))
        return kept or (self.pick(values),)


def random_transformer(dice: Dice, family: str, world: int) -> Transformer:
    """Draw a model of a family for so many GPUs."""
    return _tiny(dice) if family == TINY else _usual(dice, family, world)


def _tiny(dice: Dice) -> Transformer:
    """Draw a model so small that plans tie in steps of whole µs and in whole MiB."""
    heads, head_dim = dice.pick((2, 4, 6, 8)), dice.pick((4, 8))
    shape: dict[str, Any] = {
        "layers": dice.pick((1, 2, 4, 6, 8)),
        "hidden": heads * head_dim,
        "heads": heads,
        "ffn": heads * 8,
        "vocab": dice.pick((64, 256)),
    }
    if dice.chance(0.25):
        shape["moe"] = {"experts": dice.pick((4, 8)), "top_k": 2, "ffn": 16}
    return Transformer.model_validate(shape)


def _usual(dice: Dice, family: str, world: int) -> Transformer:
    """Draw a shape between a tenth of what the GPUs hold and somewhat more than that."""
    # 16 bytes a parameter: 80 GB hold the states of 5e9 parameters when all is sharded.
    target = world * 5e9 * dice.pick((0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.6))
    head_dim = dice.pick((64, 96, 128))
    width = dice.pick((256, 352, 512))
    # A layer has about 4 h^2 + 2.5 h f parameters; depths of 1 to 60 are usual.
    wide = [n for n in HEADS if 1 <= _depth(target, n, head_dim, width) <= 60]
    heads = dice.pick(wide or HEADS)
    depth = min(max(_depth(target, heads, head_dim, width) + dice.pick((-1, 0, 0, 1)), 1), 60)
    shape: dict[str, Any] = {
        "layers": depth,
        "hidden": heads * head_dim,
        "heads": heads,
        "head_dim": head_dim,
        "ffn": heads * width,
        "vocab": dice.pick((8_000, 32_000, 50_257, 128_256)),
        "gated": dice.chance(0.7),
        "tied": dice.chance(0.3),
        "qkv_bias": dice.chance(0.2),
        "norm": dice.pick(("rms", "layer")),
    }
    if family in ("gqa", "moe"):
        shape["kv_heads"] = dice.pick([k for k in (1, 2, 4, 8) if heads % k == 0])
    if "moe" in family:
        experts = dice.pick((4, 6, 8, 16, 24, 64))
        every = dice.pick((1, 1, 1, 2)) if depth > 1 else 1
        shape["moe"] = {
            "experts": experts,
            "top_k": dice.pick([k for k in (1, 2, 4, 6) if k <= experts]),
            "ffn": max(shape["ffn"] // experts // 64, 1) * dice.pick((32, 64, 96)),
            "shared_ffn": dice.pick((0, 0, 1024)),
            "first_dense": dice.pick((0, 0, 1, 3)) if depth > 4 and every == 1 else 0,
            "every": every,
        }
    if family == "mla-moe":
        rank = dice.pick((None, 384))
        shape["mla"] = {"q_lora_rank": rank, "kv_lora_rank": 256}
        shape["mla"] |= {"qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64}
    return Transformer.model_validate(shape)


def _depth(target: float, heads: int, head_dim: int, width: int) -> int:
    """Layers that make about so many parameters."""
    hidden, ffn = heads * head_dim, heads * width
    return round(target / (4 * hidden**2 + 2.5 * hidden * ffn))
