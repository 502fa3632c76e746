"""Cloud and vendor systems as data, and prices as they were found.

``aws-p5:8`` (8 nodes) or ``{system: aws-p5, nodes: 8}`` stands for the GPU, the GPUs per node,
NVLink and network of ``presets/catalogue.yaml``. A system never brings a price along: ``price:
catalogue`` asks for the on-demand price of ``presets/prices.yaml``, ``price: catalogue spot`` for
the spot price, ``prices: catalogue`` for every kind, and is refused where several differ.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .hardware import Gpu, find_gpu, load_preset
from .offers import KINDS
from .units import GB, shown

_SHORTHAND = re.compile(r"\s*([A-Za-z][A-Za-z0-9_.-]{0,60}?)\s*(?::\s*([0-9]{1,9}))?\s*")


@dataclass(frozen=True, slots=True)
class System:
    """One kind of node that can be rented or bought.

    Attributes
    ----------
    id, provider, sku
        Stable id (``aws-p5``), who offers it, under which name (``p5.48xlarge``).
    gpu, gpus_per_node
        GPU id and count of one node.
    nvlink_bytes_per_s, nvlink_domain
        NVLink per GPU and direction, GPUs of one domain; None: the GPU's own figure.
    inter_bytes_per_s
        Network share of one GPU and direction; None: the GPU's own figure.
    fabric, source, note
        Name of the network, where the figures are from, what to know about them.
    """

    id: str
    provider: str
    sku: str
    gpu: str
    gpus_per_node: int
    nvlink_bytes_per_s: float | None
    nvlink_domain: int | None
    inter_bytes_per_s: float | None
    fabric: str
    source: str
    note: str


def _system(key: str, entry: Mapping[str, Any]) -> System:
    def rate(name: str) -> float | None:
        return float(entry[name]) * GB if name in entry else None

    return System(
        id=key,
        provider=entry["provider"],
        sku=entry["sku"],
        gpu=entry["gpu"],
        gpus_per_node=entry["gpus_per_node"],
        nvlink_bytes_per_s=rate("nvlink_gb_per_s"),
        nvlink_domain=entry.get("nvlink_domain_gpus"),
        inter_bytes_per_s=rate("inter_gb_per_s"),
        fabric=entry.get("fabric", ""),
        source=entry["source"],
        note=entry.get("note", ""),
    )


@functools.cache
def systems() -> Mapping[str, System]:
    """Return all systems by id."""
    entries = load_preset("catalogue")["systems"]
    return {key: _system(key, entry) for key, entry in entries.items()}


@functools.cache
def _names() -> Mapping[str, str]:
    """Return ids and SKU names, in small letters, with the id."""
    return {name.lower(): s.id for s in systems().values() for name in (s.sku, s.id)}


def find_system(name: object) -> System:
    """Return a system by id or SKU name, in any case.

    Raises
    ------
    ValueError
        For an unknown name, with the nearest known one.
    """
    key = name.strip().lower() if isinstance(name, str) else ""
    if key in _names():
        return systems()[_names()[key]]
    near = difflib.get_close_matches(key[:64], _names(), n=1, cutoff=0.6)
    guess = f" Did you mean '{near[0]}'?" if near else ""
    provider = key.partition("-")[0]
    known = [one for one in systems() if one.startswith(provider + "-")] or list(systems())
    msg = f"{shown(name)} is not a system of the catalogue.{guess} Known: {', '.join(known)}."
    raise ValueError(msg)


def shorthand(text: str) -> dict[str, object] | None:
    """Return the mapping of ``aws-p5:8`` or ``aws-p5`` (one node); None for other text.

    Raises
    ------
    ValueError
        Where a count follows a name that is not known.
    """
    match = _SHORTHAND.fullmatch(text)
    if match is None or (match[2] is None and match[1].lower() not in _names()):
        return None
    return {"system": find_system(match[1]).id, "nodes": int(match[2] or 1)}


def with_system(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node group's mapping with the GPU of its system, and the price that is asked for.

    Raises
    ------
    ValueError
        For an unknown system, another GPU beside it, and a price that the catalogue cannot give.
    """
    price = given.get("price")
    asked, every = _from_the_catalogue(price), _from_the_catalogue(given.get("prices"))
    if given.get("system") is None:
        if asked or every:
            name, example = ("price", "2.50") if asked else ("prices", "spot=1.60")
            msg = f"{name}: catalogue goes with system: NAME; write {name} such as {example}."
            raise ValueError(msg)
        return dict(given)
    system = find_system(given["system"])
    filled = {"gpu": system.gpu, "gpus_per_node": system.gpus_per_node, **given}
    filled["system"] = system.id
    if find_gpu(filled["gpu"]).id != system.gpu:
        msg = f"system {system.id} has {system.gpu}, not {shown(filled['gpu'])}; leave gpu out."
        raise ValueError(msg)
    if asked:
        filled["price"] = listed_price(system, str(price).strip().lower().partition(" ")[2])
    if every:
        kinds = dict.fromkeys(row["kind"] for row in prices() if row.get("system") == system.id)
        known = [kind for kind in KINDS if kind in kinds] or ["on-demand"]
        listed = {kind: listed_price(system, kind) for kind in known}
        filled["prices"] = {kind: {**row, "kind": ""} for kind, row in listed.items()}
    return filled


def _from_the_catalogue(value: object) -> bool:
    return isinstance(value, str) and value.strip().lower().partition(" ")[0] == "catalogue"


def in_system(gpu: Gpu, name: str | None) -> Gpu:
    """Return the GPU with its system's links and node in place of the reference system's."""
    if name is None:
        return gpu
    system = find_system(name)
    found = {
        "nvlink_bytes_per_s": system.nvlink_bytes_per_s,
        "nvlink_domain": system.nvlink_domain,
        "inter_bytes_per_s": system.inter_bytes_per_s,
        "gpus_per_node": system.gpus_per_node,
    }
    known: dict[str, Any] = {key: value for key, value in found.items() if value is not None}
    source = f"{system.provider} {system.sku}: {system.source}"
    return dataclasses.replace(
        gpu, **known, sources={**gpu.sources, **dict.fromkeys(known, source)}
    )


def listed_price(system: System, kind: str = "") -> dict[str, object]:
    """Return the one price of a system as the ``price`` mapping of a problem file.

    Raises
    ------
    ValueError
        Where there is none of the kind (on-demand by default), or several that differ.
    """
    kind = kind.strip() or "on-demand"
    rows = [row for row in prices() if row.get("system") == system.id]
    found = [row for row in rows if row["kind"] == kind]
    if not found:
        others = ", ".join(sorted({row["kind"] for row in rows}))
        have = f"only {others}" if others else "none at all"
        msg = f"the catalogue has no {shown(kind)} price of {system.id}, {have}; write a price."
        raise ValueError(msg)
    if len({row["usd_per_gpu_hour"] for row in found}) > 1:
        listed = "; ".join(
            f"{r['usd_per_gpu_hour']:.2f} ({r['region']}, {r['date']})" for r in found
        )
        msg = f"the {kind} prices of {system.id} differ: {listed}. Write the one that you pay."
        raise ValueError(msg)
    row = found[-1]
    return {
        "usd_per_gpu_hour": row["usd_per_gpu_hour"],
        "kind": kind,
        "date": row["date"],
        "source": f"{row['source']}, {row['region']}",
    }


@functools.cache
def prices() -> tuple[Mapping[str, Any], ...]:
    """Return every price that was found, with its date and source."""
    return tuple(load_preset("prices")["prices"])
