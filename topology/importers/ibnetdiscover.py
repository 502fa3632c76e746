"""``ibnetdiscover``: switches, adapters and the links between them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from ..units import GB
from .imported import Dump, Imported, few

NAME = "ibnetdiscover"
COMMAND = "ibnetdiscover (as root)"

MOST_PORTS = 300_000
"""Four times the ports of a two-level fabric of 16,384 adapters."""
_RECORD = re.compile(r'^(Switch|Ca|Rt)\s+\d+\s+"([SHR]-[0-9a-fA-F]+)"\s*(?:#\s*"([^"]*)")?')
_PORT = re.compile(r'^\[(\d+)\][^"]{0,60}"([SHR]-[0-9a-fA-F]+)"\[(\d+)\]')
_LABEL = re.compile(r'#.*?"([^"]*)"')
_SPEED = re.compile(r"\b(\d{1,2})x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b")
_START = re.compile(r'^\s*(?:Switch|Ca)\s+\d+\s+"[SH]-', re.MULTILINE)
# GB/s of one lane and direction: 4x is 8/10 of 10, 20, 40 Gb/s up to QDR, then FDR10 40, FDR 54.5,
# EDR 100, HDR 200, NDR 400, XDR 800 Gb/s (InfiniBand roadmap).
_LANE_GB = {
    "SDR": 0.25,
    "DDR": 0.5,
    "QDR": 1.0,
    "FDR10": 1.25,
    "FDR": 1.703,
    "EDR": 3.125,
    "HDR": 6.25,
    "NDR": 12.5,
    "XDR": 25.0,
}
_NO_HOST = re.compile(r"Mellanox|InfiniHost|ConnectX|Voltaire|Technologies", re.IGNORECASE)
_SHARP = re.compile(r"Aggregation Node", re.IGNORECASE)


def matches(text: str) -> bool:
    """Tell whether the text has ibnetdiscover's records."""
    return _START.search(text) is not None


@dataclass(slots=True)
class _Net:
    kinds: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    links: dict[tuple[str, str, str, str], tuple[str, float]] = field(default_factory=dict)
    lines: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)


def read(dump: Dump) -> Imported:
    """Read hosts, leaf switches and their oversubscription.

    Raises
    ------
    InputError
        SP130 where there is no record.
    """
    net = _parse(dump)
    switches = [guid for guid, kind in net.kinds.items() if kind == "Switch"]
    adapters = [guid for guid, kind in net.kinds.items() if kind == "Ca"]
    if not switches and not adapters:
        raise dump.refuse("holds no Switch or Ca record.", f"Run: {COMMAND}.")
    hosts = _hosts(net, adapters)
    down, up, below = _leaves(net, hosts)
    ratios = [sum(down[leaf]) / sum(up[leaf]) for leaf in down if up.get(leaf)]
    alone = [leaf for leaf in down if not up.get(leaf)]
    if alone and len(down) > 1:
        net.warnings.append(f"{len(alone)} leaf switches have no link to another switch")
    sizes = tuple(len(names) for names in below.values())
    if len(set(sizes)) > 1:
        net.warnings.append(
            f"leaf switches hold {min(sizes)} to {max(sizes)} nodes: the smallest is taken"
        )
    names = tuple(dict.fromkeys(hosts.values()))
    rates = _rates(net, hosts)
    if len(set(rates.values())) > 1:
        net.warnings.append("nodes differ in their network bandwidth: the slowest is taken")
    return Imported(
        format=NAME,
        nodes=names,
        node_count=len(names) or None,
        nics=min(Counter(hosts.values()).values()) if hosts else None,
        inter_node_bytes_per_s=min(rates.values()) if rates else None,
        switches=len(switches),
        leaf_nodes=sizes,
        oversubscription=max(1.0, *ratios) if ratios else None,
        counts={"CAs": len(adapters), "links": dict(net.lines)},
        warnings=(*dump.notes, *net.warnings),
    )


def _parse(dump: Dump) -> _Net:
    net, here, ports = _Net(), "", 0
    widths: dict[tuple[str, str, str, str], float] = {}
    uneven: list[str] = []
    for line in dump.text.split("\n"):
        line = line.lstrip()  # noqa: PLW2901 - pastes are indented
        if line[:1] not in ("[", "S", "C", "R"):
            continue
        record = None if line[0] == "[" else _RECORD.match(line)
        if record:
            here = record[2]
            net.kinds[here], net.labels[here] = record[1], record[3] or ""
            continue
        port = _PORT.match(line)
        if port is None or not here:
            continue
        speed = _SPEED.search(line)
        ports += 1
        if ports > MOST_PORTS:
            raise dump.refuse(f"has more than {MOST_PORTS:,} ports.", "Give one fabric's.")
        if port[2] not in net.labels:
            label = _LABEL.search(line)
            net.labels[port[2]] = label[1] if label else ""
        name = speed[0] if speed else "unknown speed"
        net.lines[name] += 1
        rate = int(speed[1]) * _LANE_GB[speed[2]] * GB if speed else 0.0
        ends = sorted(((here, port[1]), (port[2], port[3])))
        key = (*ends[0], *ends[1])
        if key in widths and widths[key] != rate:
            uneven.append(f"{here}[{port[1]}]")
            rate = min(rate, widths[key])
        widths[key] = rate
        net.links[key] = (name, rate)
    if uneven:
        net.warnings.append(
            f"both ends of {few(uneven)} report different speeds: the slower is taken"
        )
    return net


def _hosts(net: _Net, adapters: list[str]) -> dict[str, str]:
    """Return the host of each adapter: the first word of its description."""
    hosts, unnamed = {}, 0
    for guid in adapters:
        label = net.labels.get(guid, "")
        if _SHARP.search(label):
            continue  # the reduction engine of a switch
        if not label.strip() or _NO_HOST.search(label):
            unnamed += 1
            hosts[guid] = guid
        else:
            hosts[guid] = label.split()[0].strip("'")
    if unnamed:
        net.warnings.append(f"{unnamed} adapters do not name their host: each counts as a node")
    return hosts


def _leaves(
    net: _Net, hosts: dict[str, str]
) -> tuple[dict[str, list[float]], dict[str, list[float]], dict[str, set[str]]]:
    """Return for each leaf switch the rates down and up, and the hosts below."""
    down, up = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    below = defaultdict[str, set[str]](set)
    for (one, _, other, _), (_, rate) in net.links.items():
        for switch, peer in ((one, other), (other, one)):
            if net.kinds.get(switch) != "Switch":
                continue
            if peer in hosts:
                down[switch].append(rate)
                below[switch].add(hosts[peer])
            elif peer.startswith("S-") and rate:
                up[switch].append(rate)
    return down, {leaf: up[leaf] for leaf in down if leaf in up}, below


def _rates(net: _Net, hosts: dict[str, str]) -> dict[str, float]:
    """Return the network of each host, bytes/s per direction."""
    rates = defaultdict[str, float](float)
    for (one, _, other, _), (_, rate) in net.links.items():
        for end in (one, other):
            if end in hosts:
                rates[hosts[end]] += rate
    return {host: rate for host, rate in rates.items() if rate}
