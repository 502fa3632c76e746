"""NCCL topology XML (``NCCL_TOPO_DUMP_FILE``, or the file that a cloud ships).

A cloud's file may hold no ``<gpu>``: then GPUs are PCI devices of class 0x0302. The file is read
element by element, so that what stands before a cut still counts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ..units import GB
from .imported import Dump, Imported, few
from .xml_events import hear

NAME = "nccl-xml"
COMMAND = "NCCL_TOPO_DUMP_FILE=topo.xml with any NCCL job"

_GPU_CLASS, _VGA_CLASS, _NIC_CLASS, _SWITCH_CLASS = "0x0302", "0x0300", "0x02", "0x0680"
_MB = 10**6  # speeds of <net> are Mb/s
_BITS = 8
# Compute capability to the rate of one NVLink, GB/s per direction (v1 20, v2 to v4 25, v5 50).
_LINK_GB = {60: 20.0, 70: 25.0, 80: 25.0, 90: 25.0, 100: 50.0, 103: 50.0}
# PCI device ids of NVIDIA, from the PCI ID repository (pci.ids).
_DEVICES = {
    "0x1db5": "V100-SXM2-32GB",
    "0x20b0": "A100-SXM4-40GB",
    "0x20b2": "A100-SXM4-80GB",
    "0x20b5": "A100-PCIe-80GB",
    "0x2330": "H100-SXM5-80GB",
    "0x2331": "H100-PCIe",
    "0x2335": "H200-SXM-141GB",
    "0x26b9": "L40S",
}


def matches(text: str) -> bool:
    """Tell whether the text is XML with the root ``<system>``, or a NCCL graph file."""
    return "<system" in text or "<graphs" in text


@dataclass(slots=True)
class _Device:
    path: tuple[int, ...]
    cpu: int
    bus: str = ""
    kind: str = ""
    vendor: str = ""
    gpu: bool = False
    nets: int = 0
    sm: int = 0
    links: list[tuple[str, int, str]] = field(default_factory=list)


class _Reader:
    """Target of the XML parser: keeps the path of open elements and the devices."""

    def __init__(self) -> None:
        self.open: list[tuple[str, int]] = []
        self.devices: list[_Device] = []
        self.nets: list[tuple[float, _Device | None, tuple[int, ...]]] = []
        self.cpus: dict[int, str] = {}
        self.speeds: set[str] = set()
        self.above: list[_Device | None] = [None]
        self.models: Counter[str] = Counter()
        self.seen = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.seen += 1
        path, device = tuple(n for _, n in self.open), self.above[-1]
        if tag == "cpu":
            self.cpus[self.seen] = attributes.get("numaid", "?")[:20]
        elif tag == "pci":
            device = self._pci(attributes, path)
        elif tag == "gpu" and device is not None:
            device.gpu, device.sm = True, _whole(attributes.get("sm"))
        elif tag == "net":
            self.nets.append((float(_whole(attributes.get("speed"))), device, path))
        elif tag in ("nvlink", "xgmi") and device is not None:
            link = attributes.get("target", ""), _whole(attributes.get("count"))
            device.links.append((*link, attributes.get("tclass", "")))
        self.open.append((tag, self.seen))
        self.above.append(device)

    def _pci(self, attributes: dict[str, str], path: tuple[int, ...]) -> _Device:
        kind = attributes.get("class", "").lower()
        cpu = next((n for tag, n in reversed(self.open) if tag == "cpu"), 0)
        bus = attributes.get("busid", "").lower()
        device = _Device((*path, self.seen), cpu, bus, kind, attributes.get("vendor", ""))
        self.devices.append(device)
        self.speeds.add(attributes.get("link_speed", "").strip()[:40])
        if kind.startswith(_GPU_CLASS):
            self.models[attributes.get("device", "").lower()] += 1
        return device

    def end(self, tag: str) -> None:
        self.open.pop()
        self.above.pop()

    def data(self, text: str) -> None:
        """Ignore text between elements."""


def _whole(text: str | None) -> int:
    """Return a whole number of at most nine digits, 0 for anything else."""
    digits = (text or "").strip().split(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0  # noqa: PLR2004


def read(dump: Dump) -> Imported:
    """Read GPUs, NUMA nodes, NVLinks and adapters.

    Raises
    ------
    InputError
        SP130 for a NCCL graph file, for entities and document types, and where no GPU is found.
    """
    text = dump.text
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        hear(dump, text, _Reader(), f"Dump it again: {COMMAND}.")
    if "<system" not in text and "<graphs" not in text:
        raise dump.refuse("holds no <system> element.", f"Dump the topology: {COMMAND}.")
    if "<system" not in text:
        message = "is a NCCL graph file (NCCL_GRAPH_DUMP_FILE): rings and trees, not the machine."
        raise dump.refuse(message, f"Dump the topology: {COMMAND}.")
    found, end = _Reader(), text.rfind("</system>")
    whole = text[text.index("<system") : len(text) if end < 0 else end + len("</system>")]
    cut = hear(dump, whole, found, f"Dump it again: {COMMAND}.")
    warnings = [f"{cut}: read up to there"] if cut else []
    gpus = _gpus(found.devices)
    if not gpus:
        message = "holds neither <gpu> nor a PCI device of class 0x0302."
        raise dump.refuse(message, f"Dump it on a node with GPUs: {COMMAND}.")
    numa: dict[str, list[int]] = {}
    for i, gpu in enumerate(gpus):
        numa.setdefault(found.cpus.get(gpu.cpu, "?"), []).append(i)
    nics = [d for d in found.devices if d.kind.startswith(_NIC_CLASS)]
    speeds = sorted({speed for speed, _, _ in found.nets})
    model = dump.gpu or _DEVICES.get(found.models.most_common(1)[0][0] if found.models else "", "")
    links, rate, linked = _nvlinks(gpus, warnings)
    return Imported(
        format=NAME,
        gpu=model,
        gpus_per_node=len(gpus),
        links={f"NV{links}": len(gpus) * (len(gpus) - 1) // 2} if links and linked else {},
        nvlink_links=(links,) if links else (),
        nvlink_domain=linked,
        nvlink_gpu_bytes_per_s=links * rate if links and rate else None,
        nvlink_bytes_per_s={f"NV{links}": links * rate} if links and linked and rate else {},
        numa=tuple((node, tuple(members)) for node, members in numa.items()),
        nics=len(found.nets) or len(nics),
        nic_affinity=_nearest(gpus, [path for _, _, path in found.nets] or [d.path for d in nics]),
        inter_node_bytes_per_s=_network(found, warnings),
        counts={
            "net speeds": [str(int(speed)) for speed in speeds],
            "pci link_speed": sorted(found.speeds - {""}),
        },
        warnings=(*dump.notes, *warnings),
    )


def _gpus(devices: list[_Device]) -> list[_Device]:
    found = [d for d in devices if d.gpu or d.kind.startswith(_GPU_CLASS)]
    return found or [
        d for d in devices if d.kind.startswith(_VGA_CLASS) and d.vendor.lower() == "0x10de"
    ]


def _nvlinks(gpus: list[_Device], warnings: list[str]) -> tuple[int, float | None, int | None]:
    """Return links of the worst GPU, bytes/s of one link, and the NVLink domain (None: unknown)."""
    sums = [sum(count for _, count, _ in gpu.links) for gpu in gpus]
    if not any(sums):
        return 0, None, None
    if len(set(sums)) > 1:
        warnings.append(f"GPUs with {min(sums)} to {max(sums)} NVLinks: the fewest are taken")
    loops = [
        gpu.bus for gpu in gpus if any(target.lower() == gpu.bus for target, _, _ in gpu.links)
    ]
    if loops:
        warnings.append(f"NVLinks of {few(loops)} lead to the GPU itself: the peer is not known")
    rate = _LINK_GB.get(max(gpu.sm for gpu in gpus))
    if rate is None:
        warnings.append("compute capability unknown: NVLink bandwidth is taken from the GPU")
    switched = all(any(kind.startswith(_SWITCH_CLASS) for *_, kind in gpu.links) for gpu in gpus)
    buses = {gpu.bus for gpu in gpus}
    meshed = all(
        {target.lower() for target, _, _ in gpu.links} >= buses - {gpu.bus} for gpu in gpus
    )
    domain = len(gpus) if min(sums) and (switched or (meshed and not loops)) else None
    return min(sums), None if rate is None else rate * GB, domain


def _network(found: _Reader, warnings: list[str]) -> float | None:
    """Return the network of the node: the ports of the fastest kind, bytes/s per direction."""
    speeds = [speed for speed, _, _ in found.nets if speed > 0]
    if not speeds:
        return None
    fastest = max(speeds)
    slow = sum(speed < fastest for speed in speeds)
    if slow:
        warnings.append(f"{slow} slower ports are taken as management, not as the training network")
    return fastest * speeds.count(fastest) * _MB / _BITS


def _nearest(gpus: list[_Device], nics: list[tuple[int, ...]]) -> tuple[tuple[str, int], ...]:
    """Return for each GPU the class of its nearest adapters and their number."""
    if not nics:
        return ()
    found = []
    for gpu in gpus:
        near = Counter(_between(gpu, path) for path in nics)
        best = min(near, key=("PIX", "PXB", "PHB", "SYS").index)
        found.append((best, near[best]))
    return tuple(found)


def _between(gpu: _Device, nic: tuple[int, ...]) -> str:
    shared = sum(a == b for a, b in zip(gpu.path, nic, strict=False))
    cpu = gpu.path.index(gpu.cpu) + 1 if gpu.cpu in gpu.path else 1
    if shared <= cpu:
        return "PHB" if shared == cpu and gpu.cpu else "SYS"
    return "PIX" if shared >= len(gpu.path) - 1 else "PXB"
