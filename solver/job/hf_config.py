"""One Hugging Face ``config.json`` with typed access; faults are noted and raised together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topology.errors import Problem
from topology.faults import UNSUPPORTED
from topology.source import Loc, Source
from topology.units import shown

from .transformer import MAX_HEADS, MAX_LAYERS, MAX_TOKENS, MAX_VOCAB, MAX_WIDTH

_PLACEHOLDER = 1


Fields = dict[str, Any]
"""Fields of a :class:`Transformer`."""


class Config:
    """Reads keys of a config and collects faults.

    Parameters
    ----------
    source
        The file.
    prefix
        Location of the config in it.
    """

    def __init__(self, source: Source, data: Mapping[str, Any], prefix: Loc = ()) -> None:
        self.source = source
        self.data = data
        self.prefix = prefix
        self.faults: list[Problem] = []

    def refuse(self, key: str, code: str, message: str, hint: str = "") -> None:
        """Note a fault at a key."""
        self.faults.append(self.source.fault((*self.prefix, key), code, message, hint))

    def unsupported(self, key: str, message: str, hint: str = "") -> None:
        """Note something that is well-formed and not supported."""
        self.refuse(key, UNSUPPORTED, message, hint)

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self.data.get(key) is not None

    def whole(
        self, *keys: str, high: int = MAX_WIDTH, low: int = 1, default: int | None = None
    ) -> int:
        """Read a whole number under the first key that is there.

        Returns a harmless placeholder after noting a fault, so that reading goes on.
        """
        key = next((key for key in keys if self.has(key)), keys[0])
        if not self.has(key):
            if default is not None:
                return default
            self.refuse(
                key, "SP113", "is missing.", f'Write e.g. "{key}": {_EXAMPLES.get(key, 8)}.'
            )
            return _PLACEHOLDER
        value = self.data[key]
        if isinstance(value, bool) or not isinstance(value, int):
            hint = f"Write a number without quotes, e.g. {_EXAMPLES.get(key, 8)}."
            self.refuse(key, "SP114", f"needs a whole number, got {shown(value)}.", hint)
            return _PLACEHOLDER
        if not low <= value <= high:
            have = f"{shown(value)} is out of range: it must be from {low} to {high:,}."
            self.refuse(key, "SP109", have, f"Write e.g. {_EXAMPLES.get(key, 8)}.")
            return _PLACEHOLDER
        return value

    def layers(self, *keys: str, default: int | None = None) -> int:
        """Read a number of layers."""
        return self.whole(*keys, high=MAX_LAYERS, default=default)

    def count(self, *keys: str, default: int | None = None) -> int:
        """Read a number of heads or experts."""
        return self.whole(*keys, high=MAX_HEADS, default=default)

    def vocab(self) -> int:
        """Read the vocabulary size."""
        return self.whole("vocab_size", high=MAX_VOCAB)

    def tokens(self, *keys: str, default: int | None = None) -> int:
        """Read a length in tokens."""
        return self.whole(*keys, high=MAX_TOKENS, default=default)

    def flag(self, key: str, default: bool) -> bool:
        """Read a truth value; null takes the default."""
        value = self.data.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(
                key, "SP114", f"needs true or false, got {shown(value)}.", "Mend the value."
            )
            return default
        return value

    def heads(
        self, *, default_dim: int | None = None, kv: bool = True, kv_default: int | None = 0
    ) -> dict[str, int]:
        """Read hidden size, heads, key/value heads and head_dim, and check that they agree.

        Parameters
        ----------
        default_dim
            Width of a head where the key is absent; None for hidden size over heads.
        kv
            Whether the family has key/value heads of its own.
        kv_default
            Key/value heads where the key is absent: 0 for as many as heads, None to ask for the
            key, as the family's own default belongs to one size of it. A null means as many.
        """
        hidden = self.whole("hidden_size", "n_embed", "n_embd")
        heads = self.count("num_attention_heads", "n_head")
        absent = "num_key_value_heads" not in self.data
        fallback = (kv_default or (0 if kv_default is None else heads)) if absent else heads
        kv_heads = self.count("num_key_value_heads", default=fallback or None) if kv else heads
        if heads % kv_heads:
            message = f"{kv_heads} key/value heads do not divide {heads} attention heads."
            self.refuse("num_key_value_heads", "SP116", message, f"Use {_near(kv_heads, heads)}.")
        if self.has("head_dim") or default_dim is not None:
            head_dim = self.whole("head_dim", default=default_dim)
        else:
            head_dim = hidden // heads or _PLACEHOLDER
            if hidden % heads and not self.faults:
                message = (
                    f"{heads} heads do not divide hidden size {hidden} and head_dim is not given."
                )
                key = "num_attention_heads" if "num_attention_heads" in self.data else "n_head"
                self.refuse(key, "SP116", message, f"Give head_dim, or use {_near(heads, hidden)}.")
        return {"hidden": hidden, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}

    def llama_like(
        self, *, tied: bool = False, default_dim: int | None = None, kv_default: int | None = 0
    ) -> Fields:
        """Read the keys that most families share."""
        return {
            "layers": self.layers("num_hidden_layers", "n_layer"),
            **self.heads(default_dim=default_dim, kv_default=kv_default),
            "ffn": self.whole("intermediate_size"),
            "vocab": self.vocab(),
            "tied": self.flag("tie_word_embeddings", tied),
        }

    def sliding(self, layers: int, windowed: int, default: int | None = None) -> dict[str, int]:
        """Read the sliding window and how many layers use it.

        Parameters
        ----------
        layers
            Layers of the model.
        windowed
            Layers that use the window unless ``layer_types`` lists them.
        default
            Window where the key is absent; a null always means none.
        """
        kinds = self.data.get("layer_types")
        if kinds is not None:
            if not isinstance(kinds, list) or len(kinds) != layers:
                message = f"must list the kind of each of the {layers} layers."
                self.refuse("layer_types", "SP116", message, "Mend the list, or leave it out.")
                return {}
            for kind in sorted({shown(k) for k in kinds if k not in _ATTENTION_KINDS}):
                self.unsupported("layer_types", f"layers of kind {kind} are not supported yet.")
            windowed = sum(kind == "sliding_attention" for kind in kinds)
        absent = "sliding_window" not in self.data
        if (self.data.get("sliding_window") is None and not (absent and default)) or not windowed:
            return {}
        window = self.tokens("sliding_window", default=default)
        return {"window": window, "window_layers": min(windowed, layers)}


_ATTENTION_KINDS = ("full_attention", "sliding_attention")
_EXAMPLES = {
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
    "head_dim": 128,
}


def _near(number: int, whole: int) -> str:
    """Name the divisors of ``whole`` around ``number``."""
    below = next(n for n in range(min(number, whole), 0, -1) if whole % n == 0)
    above = next(n for n in range(min(number, whole), whole + 1) if whole % n == 0)
    return f"{below}" if below == above else f"{below} or {above}"
