"""What a problem file may say about the cluster, and the cluster that follows from it.

Whatever is left out comes from the reference system of the GPU and is recorded in
`NodeGroup.assumptions`. Faults are ``ValueError`` inside pydantic, so that all of them are found at
once; each says what was given, what is allowed and what to write.
"""

from __future__ import annotations

import math
import re
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from .build import build_group, check_domain, node_count
from .catalogue import shorthand as system_shorthand
from .catalogue import with_system
from .cluster import Cluster
from .hardware import find_gpu
from .offers import OfferPrice, Price, read_prices
from .rates import inter_rate, intra_rate
from .units import parse_bytes, show_bytes, shown

# Larger than any training system announced so far; keeps hostile input away from the arithmetic.
MOST_NODES = 200_000
MOST_GPUS_PER_NODE = 1024
MOST_GPUS = 1_000_000
MOST_OVERSUBSCRIPTION = 100.0

# Fields that count something, how a message calls it, and the largest number.
COUNTS = {
    "nodes": ("nodes", MOST_NODES),
    "gpus": ("GPUs", MOST_GPUS),
    "gpus_per_node": ("GPUs per node", MOST_GPUS_PER_NODE),
    "nvlink_domain": ("GPUs in an NVLink domain", MOST_GPUS),
    "leaf_nodes": ("nodes below a leaf", MOST_NODES),
    "nics_per_node": ("adapters of a node", MOST_GPUS_PER_NODE),
    "rails": ("rails", MOST_GPUS_PER_NODE),
    "pcie_switch_gpus": ("GPUs behind a PCIe switch", MOST_GPUS_PER_NODE),
}

_SHORTHAND = re.compile(
    r"\s*(?:([0-9]{1,9})\s*[xX×]\s*)?([0-9]{1,9})\s*[xX×]\s*([A-Za-z].{0,60}?)\s*"
)


def whole(value: object, what: str, low: int, high: int) -> int:
    """Return ``value`` as a whole number in ``low..high``.

    Raises
    ------
    ValueError
        For truth values, text, fractions and what is out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"{shown(value)} is not a whole number of {what}; write one from {low} to {high:,}."
        raise ValueError(msg)
    if not low <= value <= high:
        msg = f"{shown(value)} {what} is out of range; write a number from {low} to {high:,}."
        raise ValueError(msg)
    return value


class GroupSpec(BaseModel):
    """One node group of the ``cluster`` mapping.

    Attributes
    ----------
    gpu
        GPU id or alias.
    system
        Entry of the catalogue (``aws-p5``), in place of what is not given here.
    nodes, gpus
        One of the two: number of nodes, or GPUs in whole nodes.
    gpus_per_node
        GPUs in one node; default: the GPU's reference node.
    intra
        NVLink bandwidth per GPU and direction: a name (``nvlink4``), a rate, or ``none``.
    inter
        Network bandwidth: ``{per_gpu: 50GB/s}``, ``{per_node: 400GB/s}``, ``50GB/s`` (per GPU) or
        the name of one adapter per GPU (``ndr400``).
    nvlink_domain
        GPUs that share one NVLink fabric; 1 = none.
    oversubscription
        Leaf to spine, 1 to 100; default 1 (non-blocking).
    leaf_nodes
        Nodes below one leaf switch; default: all.
    nics_per_node
        Network adapters of a node; default: one a GPU.
    rails
        Leaf switches that the adapters of a node are spread over; default 1.
    pcie_switch_gpus
        GPUs behind one PCIe switch, whose up-link they share; default 1.
    usable_memory
        What the driver shows, e.g. ``81559MiB``; default: the GPU's known figure.
    host_memory
        Memory of one node outside its GPUs, e.g. ``2TB``; not limited where left out.
    price
        USD per GPU-hour, `Price`, or ``catalogue`` for a system's listed price; no default.
    prices
        In its place one `Price` for each kind of contract, or ``catalogue`` for all listed kinds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    gpu: str
    system: str | None = None
    nodes: int | None = None
    gpus: int | None = None
    gpus_per_node: int | None = None
    intra: float | None = None
    inter: tuple[str, float] | None = None
    nvlink_domain: int | None = None
    oversubscription: float = 1.0
    leaf_nodes: int | None = None
    nics_per_node: int | None = None
    rails: int | None = None
    pcie_switch_gpus: int | None = None
    usable_memory: int | None = None
    host_memory: int | None = None
    price: Price | None = None
    prices: dict[str, OfferPrice] | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_the_catalogue(cls, value: Any) -> Any:
        return with_system(value) if isinstance(value, dict) else value

    @field_validator("gpu", mode="before")
    @classmethod
    def _known_gpu(cls, value: Any) -> str:
        return find_gpu(value).id

    @field_validator(*COUNTS, mode="before")
    @classmethod
    def _count(cls, value: Any, info: ValidationInfo) -> int | None:
        what, most = COUNTS[str(info.field_name)]
        return None if value is None else whole(value, what, 1, most)

    @field_validator("intra", mode="before")
    @classmethod
    def _intra(cls, value: Any) -> float | None:
        return None if value is None else intra_rate(value)

    @field_validator("inter", mode="before")
    @classmethod
    def _inter(cls, value: Any) -> tuple[str, float] | None:
        return None if value is None else inter_rate(value)

    @field_validator("usable_memory", "host_memory", mode="before")
    @classmethod
    def _usable(cls, value: Any) -> int | None:
        return None if value is None else parse_bytes(value)

    @field_validator("prices", mode="before")
    @classmethod
    def _prices(cls, value: Any) -> Any:
        return read_prices(value)

    @field_validator("oversubscription", mode="before")
    @classmethod
    def _ratio(cls, value: Any) -> float:
        number = not isinstance(value, bool) and isinstance(value, int | float)
        if not number or not (math.isfinite(value) if isinstance(value, float) else True):
            msg = f"{shown(value)} is not a finite ratio; write 1 (non-blocking) to 100."
            raise ValueError(msg)
        if not 1 <= value <= MOST_OVERSUBSCRIPTION:
            msg = f"{shown(value)} is out of range 1..100 (down-links over up-links of a leaf)."
            raise ValueError(msg)
        return float(value)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.check()
        return self

    def check(self) -> None:
        """Raise ``ValueError`` where fields clash with each other."""
        gpu, per_node = find_gpu(self.gpu), self.per_node
        nodes = node_count(self.nodes, self.gpus, per_node)
        if nodes * per_node > MOST_GPUS:
            msg = f"{nodes:,} nodes of {per_node} exceed {MOST_GPUS:,} GPUs; write fewer nodes."
            raise ValueError(msg)
        if self.price is not None and self.prices is not None:
            msg = "price and prices are both given; write each price under its kind in prices."
            raise ValueError(msg)
        check_domain(self.nvlink_domain, per_node, nodes * per_node)
        if self.leaf_nodes is not None and self.leaf_nodes > nodes:
            msg = f"leaf_nodes {self.leaf_nodes:,} exceeds the {nodes:,} nodes; leave it out."
            raise ValueError(msg)
        adapters = self.nics_per_node or per_node
        if adapters % (self.rails or 1):
            msg = f"rails {self.rails} do not divide a node's {adapters} adapters; write a divisor."
            raise ValueError(msg)
        switch, domain = self.pcie_switch_gpus or 1, self.nvlink_domain or 1
        if per_node % switch or (domain < per_node and max(switch, domain) % min(switch, domain)):
            msg = f"pcie_switch_gpus {switch} cuts through nodes of {per_node} or NVLink domains."
            raise ValueError(msg)
        # Four times leaves room for a memory variant, not for a slip between MiB and GiB.
        if self.usable_memory is not None and not (
            gpu.memory_bytes / 4 <= self.usable_memory <= gpu.memory_bytes * 4
        ):
            msg = (
                f"usable_memory {show_bytes(self.usable_memory)} does not fit a {gpu.name} "
                f"({show_bytes(gpu.memory_bytes)}); write what nvidia-smi shows, e.g. 81559MiB."
            )
            raise ValueError(msg)

    @property
    def per_node(self) -> int:
        """Return the GPUs of one node, by default the reference node's."""
        return self.gpus_per_node or find_gpu(self.gpu).gpus_per_node


class ClusterSpec(GroupSpec):
    """The ``cluster`` mapping of a problem file, or shorthand such as ``8x8xH100`` or ``aws-p5:8``.

    The fields of one `GroupSpec`; or ``{groups: [...]}`` with several; or ``"8x8xH100"`` (nodes ×
    GPUs per node × GPU), ``"8xh100"`` (one node of 8).

    Attributes
    ----------
    name
        Name for reports; default: counts and GPU.
    groups
        Node groups in rank order, in place of the fields of one group.
    """

    gpu: str = ""
    name: str = Field(default="", max_length=200)
    groups: tuple[GroupSpec, ...] | None = Field(default=None, max_length=64)

    @model_validator(mode="before")
    @classmethod
    def _spread(cls, value: Any) -> Any:
        if isinstance(value, str):
            return system_shorthand(value) or _shorthand(value)
        if not isinstance(value, dict | ClusterSpec):
            msg = f"{shown(value)} is not a cluster; write a mapping, or 8x8xH100."
            raise ValueError(msg)
        return value

    def check(self) -> None:
        """Raise ``ValueError`` where fields clash with each other."""
        if self.groups is None:
            if not self.gpu:
                msg = "gpu is missing; write e.g. gpu: h100-80gb-sxm."
                raise ValueError(msg)
            super().check()
            return
        both = sorted(self.model_fields_set - {"groups", "name"})
        if both or not self.groups:
            clash = f"groups and {', '.join(both)} are both given" if both else "groups is empty"
            msg = f"{clash}; write each node group as one entry of groups."
            raise ValueError(msg)

    def build(self) -> Cluster:
        """Return the cluster, every default recorded in its groups."""
        groups = tuple(map(build_group, self.groups or (self,)))
        name = self.name or " + ".join(f"{g.nodes}x{g.gpus_per_node}x{g.gpu.id}" for g in groups)
        return Cluster(name, groups)


def _shorthand(text: str) -> dict[str, object]:
    match = _SHORTHAND.fullmatch(text)
    if match is None:
        msg = (
            f"{shown(text)} is not understood; write nodes x GPUs per node x GPU, e.g. 8x8xH100, "
            "8xh100 for one node of 8, or aws-p5:8 for 8 nodes of the catalogue."
        )
        raise ValueError(msg)
    return {"nodes": int(match[1] or 1), "gpus_per_node": int(match[2]), "gpu": match[3]}
