"""The shardings that a shape may choose from, as columns of the cost tables."""

from __future__ import annotations

import numpy as np

from topology.cluster import NodeGroup

from ..axes import data
from ..job.search import Search
from .shapes import Shapes, Shardings


def shardings(shapes: Shapes, group: NodeGroup, search: Search) -> Shardings:
    """Return ZeRO 0–3 over all data-parallel ranks, then ZeRO-3 in each HSDP shard group.

    Also over a single rank, where nothing is shared out: its software still keeps other copies.
    """
    wanted = data.stages(search)
    columns = [(zero, 1) for zero in wanted]
    top = int(np.lcm.reduce(np.unique(shapes.dp))) if len(shapes) else 1
    if top > max(shapes.dp, default=1):
        counts = sorted(
            {r for dp in np.unique(shapes.dp) for r in data.replica_groups(group, search, int(dp))}
        )
    else:
        counts = list(data.replica_groups(group, search, top))
    hsdp = [r for r in counts if data.hsdp_fits(group, shapes, np.array([r])).any()]
    columns += [(data.FULL_SHARDING, r) for r in hsdp]
    zero = np.array([c[0] for c in columns], np.int64)[None, :].repeat(len(shapes), 0)
    replicas = np.array([c[1] for c in columns], np.int64)[None, :].repeat(len(shapes), 0)
    valid = replicas == 1
    valid &= bool(search.keeps("dp_replicate", np.array(1)))
    for column in range(len(wanted), len(columns)):
        valid[:, column] = data.hsdp_fits(group, shapes, replicas[:, column])
    return Shardings(zero, replicas, valid)
