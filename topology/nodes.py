"""Which nodes to take when a plan needs only some of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .cluster import NodeGroup


def pick_nodes(group: NodeGroup, need: int, free: Iterable[int] | None = None) -> tuple[int, ...]:
    """Return ``need`` nodes under the fewest leaves, and there in the fewest NVLink domains.

    Traffic crosses the spine only between leaves, so fewer leaves are fewer crossings. Of the
    choices that touch as few, the one that leaves large gaps whole is taken.

    Parameters
    ----------
    group
        The nodes; leaf ``i`` holds nodes ``i * leaf_nodes`` to ``(i + 1) * leaf_nodes - 1``.
    need
        How many.
    free
        Numbers of the nodes to choose from; None: all.

    Raises
    ------
    ValueError
        Where fewer are free, or a number names no node.
    """
    if free is None and need <= group.nodes:
        return tuple(range(need))  # leaf after leaf
    chosen_from = sorted(set(range(group.nodes) if free is None else free))
    if chosen_from and not 0 <= chosen_from[0] <= chosen_from[-1] < group.nodes:
        msg = f"nodes are numbered 0 to {group.nodes - 1}."
        raise ValueError(msg)
    if len(chosen_from) < need:
        msg = f"{need} nodes are needed, {len(chosen_from)} are free."
        raise ValueError(msg)
    rack = max(group.nvlink_domain // group.gpus_per_node, 1)
    return tuple(sorted(_fewest(chosen_from, need, (group.leaf_nodes or group.nodes, rack))))


def _fewest(nodes: list[int], need: int, units: Sequence[int]) -> list[int]:
    """Take nodes from the fewest units of ``units[0]`` nodes, inside each by the rest of them.

    The fullest units are taken whole; the last one is the smallest that holds what is left.
    """
    if not units:
        return nodes[:need]
    parts: dict[int, list[int]] = {}
    for node in nodes:
        parts.setdefault(node // units[0], []).append(node)
    left = sorted(parts.values(), key=lambda part: (-len(part), part[0]))
    taken: list[int] = []
    while left[0] and need - len(taken) > len(left[0]):
        taken += left.pop(0)
    rest = need - len(taken)
    last = min((p for p in left if len(p) >= rest), key=lambda part: (len(part), part[0]))
    return taken + _fewest(last, rest, units[1:])
