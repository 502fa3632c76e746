"""The machine that a plan runs on: node groups and what was assumed about them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .errors import Problem, UnsupportedError
from .hardware import Gpu
from .offers import Offer


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Equal nodes of one GPU type on one fabric.

    Attributes
    ----------
    gpu
        The GPU.
    nodes, gpus_per_node
        Counts.
    nvlink_domain
        GPUs that share one NVLink fabric; 1 = none, above ``gpus_per_node`` = a rack (NVL72).
    nvlink_bytes_per_s
        Within that domain, bytes/s per GPU per direction; 0 if none.
    inter_bytes_per_s
        Network share of one GPU, bytes/s per direction.
    oversubscription
        Leaf to spine: down-link over up-link bandwidth; 1 = non-blocking.
    leaf_nodes
        Nodes below one leaf switch (or rail group); None = all nodes below one.
    host_bytes
        Memory of one node outside its GPUs; None where it is not known.
    nics_per_node
        Network adapters of a node, each with an even part of its bandwidth; None = one a GPU.
    rails
        Leaf switches that the adapters of a node are spread over, one after the other.
    pcie_switch_gpus
        GPUs behind one PCIe switch; 1 = each has a port of the host to itself.
    pcie_uplink_bytes_per_s
        Of such a switch to its host, bytes/s per direction; its GPUs share it.
    price_usd_per_gpu_hour, price_kind, price_source, price_date
        Price, its kind of contract, where it is from and its date; None and empty where no price
        was given.
    offers
        The prices of several kinds of contract, where these were given; the price is the first's.
    assumptions
        (field, value, source) of each default that was taken.
    """

    gpu: Gpu
    nodes: int
    gpus_per_node: int
    nvlink_domain: int
    nvlink_bytes_per_s: float
    inter_bytes_per_s: float
    oversubscription: float = 1.0
    leaf_nodes: int | None = None
    host_bytes: float | None = None
    nics_per_node: int | None = None
    rails: int = 1
    pcie_switch_gpus: int = 1
    pcie_uplink_bytes_per_s: float = 0.0
    price_usd_per_gpu_hour: float | None = None
    price_kind: str = ""
    price_source: str = ""
    price_date: str = ""
    offers: tuple[Offer, ...] = ()
    assumptions: tuple[tuple[str, str, str], ...] = ()

    @property
    def pcie_switches(self) -> int:
        """Return the PCIe switches of a node that GPUs share; 0 where they share none."""
        return self.gpus_per_node // self.pcie_switch_gpus if self.pcie_switch_gpus > 1 else 0

    @property
    def nics_at_switches(self) -> bool:
        """Whether the adapters sit behind the PCIe switches: each switch has as many of them."""
        return self.pcie_switches > 0 and self.nics % self.pcie_switches == 0

    @property
    def nics(self) -> int:
        """Return the adapters of a node."""
        return self.nics_per_node or self.gpus_per_node

    @property
    def gpus(self) -> int:
        """Return the GPUs of the group."""
        return self.nodes * self.gpus_per_node

    @property
    def priced(self) -> tuple[Offer, ...]:
        """Return what the nodes can be had for; the one price is an offer too."""
        if self.offers or self.price_usd_per_gpu_hour is None:
            return self.offers
        price = self.price_usd_per_gpu_hour
        return (Offer(self.price_kind, price, self.price_source, self.price_date),)

    def under(self, kind: str) -> NodeGroup:
        """Return the same nodes at the price of one kind of contract, which must be offered."""
        offer = next(offer for offer in self.priced if offer.kind == kind)
        return replace(
            self,
            price_usd_per_gpu_hour=offer.usd_per_gpu_hour,
            price_kind=offer.kind,
            price_source=offer.source,
            price_date=offer.date,
        )


@dataclass(frozen=True, slots=True)
class Cluster:
    """One or more node groups.

    Attributes
    ----------
    name
        Name for reports, e.g. ``8x8xh100-80gb-sxm``.
    groups
        Node groups in rank order.
    """

    name: str
    groups: tuple[NodeGroup, ...]

    @property
    def gpus(self) -> int:
        """Return the GPUs of all groups."""
        return sum(group.gpus for group in self.groups)

    @property
    def nodes(self) -> int:
        """Return the nodes of all groups."""
        return sum(group.nodes for group in self.groups)

    @property
    def group(self) -> NodeGroup:
        """Return the only node group.

        Raises
        ------
        UnsupportedError
            For several groups, in whatever takes one kind of node only.
        """
        if len(self.groups) != 1:
            kinds = ", ".join(f"{g.nodes} x {g.gpus_per_node} {g.gpu.id}" for g in self.groups)
            raise UnsupportedError(
                Problem(
                    "cluster",
                    0,
                    0,
                    "cluster.groups",
                    "SP120",
                    f"{len(self.groups)} node groups ({kinds}): this takes one kind of node only.",
                    "Give one group; docs/cli.md says which commands take several.",
                )
            )
        return self.groups[0]
