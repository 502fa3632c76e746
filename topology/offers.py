"""Prices of one kind of node under several contracts: on demand, reserved, spot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from .units import parse_price, shown

PriceKind = Literal["on-demand", "reserved", "spot"]
KINDS: tuple[PriceKind, ...] = get_args(PriceKind)
"""In the order in which the first one that has a price is taken where one is needed."""

MAX_INTERRUPTIONS = 1e6
"""Per 1,000 node-days: a thousand a node and day is a slip."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node costs under one kind of contract.

    Attributes
    ----------
    kind
        One of `KINDS`; of a single price whatever was written, or nothing.
    usd_per_gpu_hour, source, date
        Price, where it is from and its date.
    interruptions
        Per 1,000 node-days, besides failures; None where nothing is said.
    """

    kind: str
    usd_per_gpu_hour: float
    source: str = ""
    date: str = ""
    interruptions: float | None = None


class Price(BaseModel):
    """A price with where it is from: ``{usd_per_gpu_hour, kind, date, source}``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    usd_per_gpu_hour: float
    kind: str = Field(default="", max_length=80)
    date: str = Field(default="", max_length=40)
    source: str = Field(default="", max_length=200)

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        if isinstance(value, dict | Price):
            return value
        return {"usd_per_gpu_hour": value, "source": "given"}

    @field_validator("usd_per_gpu_hour", mode="before")
    @classmethod
    def _usd(cls, value: Any) -> float:
        return parse_price(value)

    @field_validator("date", "kind", "source", mode="before")
    @classmethod
    def _text(cls, value: Any) -> str:
        # YAML turns an unquoted 2025-11-01 into a date.
        return value if isinstance(value, str) else str(value)[:200]


class OfferPrice(Price):
    """The price under one kind, and how often its nodes are taken back."""

    interruptions: float | None = Field(
        default=None, ge=0, le=MAX_INTERRUPTIONS, allow_inf_nan=False
    )


def read_prices(value: Any) -> Any:
    """Return ``prices`` as a mapping by kind; ``on-demand=2.99,spot=1.60`` is one too.

    Raises
    ------
    ValueError
        For another kind, and for what names none.
    """
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",")[: 2 * len(KINDS)]]
        value = {kind.strip(): price.strip() for kind, _, price in pairs}
        if len(value) < len(pairs):
            msg = "a kind is named twice; write each kind of price once."
            raise ValueError(msg)
    if not isinstance(value, dict):
        return value
    unknown = next((kind for kind in value if kind not in KINDS), None)
    if unknown is not None or not value:
        got = f"{shown(unknown)} is not a kind of price" if value else "no kind is given"
        msg = f"{got}; write some of {', '.join(KINDS)}, e.g. {{on-demand: 2.99, spot: 1.60}}."
        raise ValueError(msg)
    return value


def offers_of(prices: dict[str, OfferPrice]) -> tuple[Offer, ...]:
    """Return the offers of a checked mapping, in the order of `KINDS`."""
    return tuple(
        Offer(kind, p.usd_per_gpu_hour, " ".join(filter(None, (p.kind, p.source))), p.date,
              p.interruptions)
        for kind in KINDS
        if (p := prices.get(kind)) is not None
    )  # fmt: skip
