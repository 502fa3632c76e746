"""A tree of switches, a list of blocks: what Slurm, topograph and Kubernetes say of a network."""

from __future__ import annotations

from dataclasses import dataclass, field

from .imported import Imported, few


@dataclass(slots=True)
class Tree:
    """Switches with their children and hosts, and blocks of hosts.

    Attributes
    ----------
    children
        Switch to the switches below it.
    hosts
        Switch to the hosts at it.
    blocks
        Block (or ring, or torus) to its hosts.
    kind
        ``block``, ``ring``, ``torus3d``: what the blocks are.
    warnings
        Doubts so far.
    """

    children: dict[str, tuple[str, ...]] = field(default_factory=dict)
    hosts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    blocks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    kind: str = "block"
    warnings: list[str] = field(default_factory=list)

    def switch(self, name: str, children: tuple[str, ...], hosts: tuple[str, ...]) -> None:
        """Add a switch; one that is named twice keeps both."""
        self.children[name] = (*self.children.get(name, ()), *children)
        self.hosts[name] = (*self.hosts.get(name, ()), *hosts)

    def block(self, name: str, hosts: tuple[str, ...]) -> None:
        """Add a block; one that is named twice keeps both."""
        self.blocks[name] = (*self.blocks.get(name, ()), *hosts)

    def facts(self, name: str, notes: tuple[str, ...] = ()) -> Imported:
        """Return the facts of the fabric."""
        self._check_switches()
        nodes = self._nodes()
        leaves = tuple(len(set(hosts)) for hosts in self.hosts.values() if hosts)
        if len(set(leaves)) > 1:
            self.warnings.append(
                f"leaf switches hold {min(leaves)} to {max(leaves)} nodes: the smallest is taken"
            )
        blocks = tuple(len(set(hosts)) for hosts in self.blocks.values() if hosts)
        if len(set(blocks)) > 1:
            self.warnings.append(
                f"{self.kind}s hold {min(blocks)} to {max(blocks)} nodes: the smallest is taken"
            )
        return Imported(
            format=name,
            nodes=nodes,
            node_count=len(nodes) or None,
            switches=len(self.children),
            blocks=len(self.blocks) if self.kind == "block" else 0,
            leaf_nodes=leaves,
            block_nodes=blocks,
            rack_domains=self.kind == "block",
            counts={f"{self.kind}s": len(self.blocks)},
            warnings=(*notes, *self.warnings),
        )

    def _nodes(self) -> tuple[str, ...]:
        """Return every host once; warn about hosts in two places."""
        for what, places in (("leaf switches", self.hosts), ("blocks", self.blocks)):
            seen: set[str] = set()
            twice: dict[str, None] = {}
            for hosts in places.values():
                twice |= dict.fromkeys(host for host in hosts if host in seen)
                seen.update(hosts)
            if twice:
                self.warnings.append(f"{few(list(twice))} in several {what}: counted once")
        everything = (*self.hosts.values(), *self.blocks.values())
        return tuple(dict.fromkeys(host for hosts in everything for host in hosts))

    def _check_switches(self) -> None:
        below = {child for children in self.children.values() for child in children}
        unknown = sorted(below - set(self.children))
        if unknown:
            self.warnings.append(f"{few(unknown)} named as switches below others, but not defined")
        tops = [name for name in self.children if name not in below]
        if self.children and not tops:
            self.warnings.append("every switch is below another one: the tree has a ring")
        rooted = [name for name in tops if self.children[name]]
        if len(rooted) > 1 and not self._joined(rooted):
            self.warnings.append(f"{len(tops)} parts without a common top switch: {few(tops)}")

    def _joined(self, tops: list[str]) -> bool:
        """Tell whether all top switches share switches below them (several spines)."""
        first = set(self.children[tops[0]])
        return all(first & set(self.children[top]) for top in tops[1:])
