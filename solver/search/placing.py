"""Where a plan's ranks run, and the link that each axis talks over."""

from __future__ import annotations

from topology.cluster import NodeGroup
from topology.levels import levels, spanned_level
from topology.placement import MEGATRON_ORDER

from ..plan import Layout, PlacedAxis, PlanPlacement


def place(group: NodeGroup, layout: Layout) -> PlanPlacement:
    """Put a layout on the first nodes, leaf after leaf, so that it crosses the spine least.

    The closed form of `topology.placement.Placement` and `topology.nodes.pick_nodes`, so that it
    costs nothing on any cluster.
    """
    gpus = layout.tp * layout.cp * layout.dp * layout.pp
    last = -(-gpus // group.gpus_per_node) - 1
    axes = tuple(
        _placed(group, axis, ranks, stride, gpus)
        for axis, (ranks, stride) in _forms(layout).items()
        if ranks > 1
    )
    node = group.gpus_per_node
    rule = f"rank r runs on GPU r mod {node} of node r div {node} of these, counted from 0"
    return PlanPlacement(order=layout.order, nodes=((0, last),), rule=rule, axes=axes)


def _forms(layout: Layout) -> dict[str, tuple[int, int]]:
    """Return members and stride of each axis."""
    inside = layout.order != MEGATRON_ORDER  # stages lie between the replicas of a stage
    core, experts = layout.tp * layout.cp, layout.ep * layout.etp
    apart = layout.pp if inside else 1
    forms = {
        "tp": (layout.tp, 1),
        "cp": (layout.cp, layout.tp),
        "etp": (layout.etp, 1),
        "ep": (layout.ep, layout.etp),
        "dp": (layout.dp, core * apart),
        "pp": (layout.pp, core if inside else core * layout.dp),
    }
    if experts > 1:
        forms["edp"] = (core * layout.dp // experts, experts * apart)
    if layout.dp_replicate > 1:
        forms["dp_shard"] = (layout.dp_shard, core * apart)
        forms["dp_replicate"] = (layout.dp_replicate, core * apart * layout.dp_shard)
    return forms


def _placed(group: NodeGroup, axis: str, ranks: int, stride: int, gpus: int) -> PlacedAxis:
    level = levels(group)[int(spanned_level(group, ranks, stride, gpus))]
    return PlacedAxis(
        axis=axis,
        ranks=ranks,
        groups=gpus // ranks,
        stride=stride,
        level=level.name,
        bytes_per_s=level.bytes_per_s,
        latency_s=level.latency_s,
    )
