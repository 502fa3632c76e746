"""What an importer reads from one file, in one form for all formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..errors import InputError, Problem

NVLINK_KINDS = ("NV", "XGMI")


@dataclass(frozen=True, slots=True)
class Imported:
    """The machine as one file, or several together, shows it; None or empty = not stated there.

    Attributes
    ----------
    format
        Name of the format, or of several joined by ``+``.
    gpu
        GPU model in the words of the file, or as the caller gave it.
    nodes
        Host names.
    node_count
        Nodes, where the file counts or lists them.
    gpus_per_node
        GPUs of one node.
    links
        GPU pairs by the class of their link (``NV18``, ``PIX``, ``SYS``, ``XGMI``).
    nvlink_bytes_per_s
        NVLink of one pair by class, bytes/s per direction; empty where the GPU model is unknown.
    nvlink_links
        Links behind each class (``NV12``: 12); for XML the links of one GPU.
    nvlink_domain
        GPUs of a node that reach each other over NVLink or Infinity Fabric; 1 = none.
    nvlink_gpu_bytes_per_s
        All NVLinks of one GPU, bytes/s per direction; the worst GPU's.
    pcie_switch_gpus
        GPUs behind one PCIe switch, where GPUs meet over PCIe only and all switches have as many.
    numa
        Groups of GPUs with the same CPU and NUMA affinity: (affinity or NUMA node, GPUs).
    nics
        Network adapters (ports) of one node.
    nic_affinity
        For each GPU the class of its nearest adapters and how many are that near.
    inter_node_bytes_per_s
        Network of one node, bytes/s per direction.
    switches, blocks
        Network switches and blocks (NVLink racks or pods) that the file names.
    leaf_nodes
        Nodes below each leaf switch; empty where there is no fabric.
    block_nodes
        Nodes of each block.
    rack_domains
        Whether the file says that its blocks are NVLink domains.
    oversubscription
        Down-link over up-link bandwidth of the worst leaf.
    counts
        Whatever else was counted, by name, for checking.
    warnings
        What was damaged, doubtful or left out, each with what was done about it.
    """

    format: str
    gpu: str = ""
    nodes: tuple[str, ...] = ()
    node_count: int | None = None
    gpus_per_node: int | None = None
    links: Mapping[str, int] = field(default_factory=dict)
    nvlink_bytes_per_s: Mapping[str, float] = field(default_factory=dict)
    nvlink_links: tuple[int, ...] = ()
    nvlink_domain: int | None = None
    nvlink_gpu_bytes_per_s: float | None = None
    pcie_switch_gpus: int | None = None
    numa: tuple[tuple[str, tuple[int, ...]], ...] = ()
    nics: int | None = None
    nic_affinity: tuple[tuple[str, int], ...] = ()
    inter_node_bytes_per_s: float | None = None
    switches: int | None = None
    blocks: int | None = None
    leaf_nodes: tuple[int, ...] = ()
    block_nodes: tuple[int, ...] = ()
    rack_domains: bool = False
    oversubscription: float | None = None
    counts: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def gpus(self) -> int | None:
        """Return the GPUs of all nodes, one node where none is counted."""
        if self.gpus_per_node is None:
            return None
        return self.gpus_per_node * (self.node_count or 1)


@dataclass(frozen=True, slots=True)
class Dump:
    """The text of one file.

    Attributes
    ----------
    path
        Name for messages.
    text
        Decoded, escape sequences taken out, each line ended by one line feed.
    gpu
        GPU model that the caller gave, or empty.
    notes
        Warnings of the decoding.
    """

    path: str
    text: str
    gpu: str = ""
    notes: tuple[str, ...] = ()

    def refuse(self, message: str, hint: str, line: int = 0) -> InputError:
        """Return the error of a file that cannot be used, with what to do instead."""
        return InputError(Problem(self.path, line, 0, "", "SP130", message, hint))


@dataclass(frozen=True, slots=True)
class Importer:
    """One format.

    Attributes
    ----------
    name
        Value of ``--format``.
    command
        What prints or holds the format, for messages.
    matches
        Whether a text looks like the format; cheap, never raises.
    read
        Text to facts.
    most_bytes
        Characters above which a text is another file.
    """

    name: str
    command: str
    matches: Callable[[str], bool]
    read: Callable[[Dump], Imported]
    most_bytes: int = 4_000_000


def few(names: list[str] | tuple[str, ...], most: int = 4) -> str:
    """Name the first few of a list, and how many more there are."""
    shown = ", ".join(name[:60] for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
