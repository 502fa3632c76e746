"""Which rank runs on which GPU, which ranks make up a group, and over which link a group talks.

Ranks fill the axes of an order from its left, as Megatron-LM's ``RankGenerator`` does: with
``tp-cp-ep-dp-pp`` neighbours in rank are neighbours in TP. Attention and dense layers leave EP out
of the order; expert layers leave CP out and put ETP in the place of TP and EDP in that of DP.
Groups come as whole arrays, so 16,384 GPUs are placed in milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import numpy.typing as npt

from .cluster import NodeGroup
from .levels import Level, levels

AXES = ("tp", "cp", "ep", "dp", "pp")
MEGATRON_ORDER = "tp-cp-ep-dp-pp"
"""Default of Megatron-LM: stages are far apart, replicas of a stage close together."""
STAGES_INSIDE = "tp-cp-ep-pp-dp"
"""Its other usual one (``--use-tp-pp-dp-mapping``): the stages of a replica are close together."""
ORDERS = (MEGATRON_ORDER, STAGES_INSIDE)
"""Orders that the planner chooses from. TP, CP and EP wait for each other in every layer and stay
innermost; what is open is which of DP and PP goes further out."""
_EXPERT = {"etp": "tp", "ep": "ep", "edp": "dp"}
"""Axes of expert layers, and the place that each has in the order."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Placement:
    """A layout on a cluster.

    Attributes
    ----------
    group
        The nodes.
    tp, cp, dp, pp
        Degrees of attention and dense layers; their product is the number of ranks.
    ep, etp
        Degrees of expert layers; EP · ETP divides TP · CP · DP.
    order
        Axes, innermost first.
    nodes
        Nodes in the order of their ranks; empty: the first ones that are needed.
    """

    group: NodeGroup
    tp: int = 1
    cp: int = 1
    ep: int = 1
    dp: int = 1
    pp: int = 1
    etp: int = 1
    order: str = MEGATRON_ORDER
    nodes: tuple[int, ...] = ()
    _cache: dict[str, Ints] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check that degrees, order and nodes fit each other.

        Raises
        ------
        ValueError
            With what does not fit, need against have.
        """
        degrees = (self.tp, self.cp, self.ep, self.dp, self.pp, self.etp)
        if any(type(degree) is not int or degree < 1 for degree in degrees):
            msg = f"degrees {degrees} are not all whole numbers from 1."
            raise ValueError(msg)
        if sorted(self.order.split("-")) != sorted(AXES):
            msg = f"order '{self.order[:40]}' does not name each of {', '.join(AXES)} once."
            raise ValueError(msg)
        per_stage = self.tp * self.cp * self.dp
        if per_stage % (self.ep * self.etp):
            msg = (
                f"EP {self.ep} x ETP {self.etp} does not divide the {per_stage} ranks of a stage "
                f"(TP {self.tp} x CP {self.cp} x DP {self.dp})."
            )
            raise ValueError(msg)
        if self.ep * self.etp > 1 and not self._stages_agree():
            msg = (
                f"order {self.order} gives expert and dense layers different stages; end it in pp."
            )
            raise ValueError(msg)
        self._check_nodes()

    def _check_nodes(self) -> None:
        most, need = self.group.nodes, -(-self.ranks // self.group.gpus_per_node)
        chosen = self.nodes or range(need)
        if need > most:
            have = most * self.group.gpus_per_node
            msg = f"{self.ranks} ranks need {need} nodes, the cluster has {most} ({have} GPUs)."
            raise ValueError(msg)
        if len(chosen) < need or len(set(chosen)) < len(chosen):
            msg = f"{self.ranks} ranks need {need} different nodes, {len(set(chosen))} are given."
            raise ValueError(msg)
        if any(not 0 <= node < most for node in chosen):
            msg = f"nodes are numbered 0 to {most - 1}."
            raise ValueError(msg)

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return self.tp * self.cp * self.dp * self.pp

    @property
    def edp(self) -> int:
        """Return the replicas of one expert."""
        return self.tp * self.cp * self.dp // (self.ep * self.etp)

    def _grid(self, expert: bool) -> tuple[Ints, list[str]]:
        """Return all ranks as an array with one dimension an axis, outermost first."""
        dense = {"tp": self.tp, "cp": self.cp, "ep": 1, "dp": self.dp, "pp": self.pp}
        sparse = {"tp": self.etp, "cp": 1, "ep": self.ep, "dp": self.edp, "pp": self.pp}
        sizes = sparse if expert else dense
        axes = self.order.split("-")[::-1]
        grid = np.arange(prod(sizes.values()), dtype=np.int64)
        return grid.reshape([sizes[axis] for axis in axes]), axes

    def _stages_agree(self) -> bool:
        dense, axes = self._grid(expert=False)
        sparse, _ = self._grid(expert=True)
        stage = axes.index("pp")
        one, other = (np.moveaxis(grid, stage, 0).reshape(self.pp, -1) for grid in (dense, sparse))
        return bool(np.array_equal(np.sort(one, axis=1), np.sort(other, axis=1)))

    def groups(self, axes: str) -> Ints:
        """Return the groups of an axis, or of several (``dp-cp``), one a row, members in order.

        Parameters
        ----------
        axes
            ``tp cp dp pp`` of dense layers, ``etp ep edp`` of expert layers; not mixed.

        Raises
        ------
        ValueError
            For an unknown axis, or dense and expert axes together.
        """
        if axes in self._cache:
            return self._cache[axes]
        asked = axes.split("-")
        expert = any(axis in _EXPERT for axis in asked)
        known = {**_EXPERT, "pp": "pp"} if expert else {a: a for a in AXES if a != "ep"}
        if not set(asked) <= set(known):
            kinds = "etp, ep, edp (experts)" if expert else "tp, cp, dp"
            msg = f"'{axes[:40]}' is no axis, or mixes dense and expert axes; write {kinds} or pp."
            raise ValueError(msg)
        grid, names = self._grid(expert)
        moved = [n for n, name in enumerate(names) if name in {known[axis] for axis in asked}]
        size = prod(grid.shape[n] for n in moved)
        rows = np.moveaxis(grid, moved, range(-len(moved), 0)).reshape(-1, size)
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        rows.setflags(write=False)
        self._cache[axes] = rows
        return rows

    def gpus(self, ranks: npt.ArrayLike) -> Ints:
        """Return the GPU of each rank, counted through the cluster node by node."""
        ranks = np.asarray(ranks, np.int64)
        per_node = self.group.gpus_per_node
        if not self.nodes:
            return ranks
        nodes = np.asarray(self.nodes, np.int64)
        return np.asarray(nodes[ranks // per_node] * per_node + ranks % per_node, np.int64)

    def spans(self, axes: str) -> Ints:
        """Return for each group of an axis the index of the innermost level that holds it.

        That level's link is the worst one that the group's traffic crosses; a group of one rank
        crosses none and counts as level 0.
        """
        places = self.gpus(self.groups(axes))
        found = np.full(len(places), len(levels(self.group)) - 1, np.int64)
        for index in range(len(levels(self.group)) - 2, -1, -1):
            block = places // levels(self.group)[index].gpus
            found[block.min(axis=1) == block.max(axis=1)] = index
        return found

    def worst_link(self, axes: str) -> Level | None:
        """Return the level of the worst placed group of an axis; None where groups are single."""
        if self.groups(axes).shape[1] == 1:
            return None
        return levels(self.group)[int(self.spans(axes).max())]


def hostfile(placement: Placement, hosts: Sequence[str]) -> str:
    """Write the host of each rank, one a line: Slurm's arbitrary distribution (SLURM_HOSTFILE).

    Raises
    ------
    ValueError
        Where there are fewer host names than nodes.
    """
    return "".join(f"{host}\n" for host, _ in _places(placement, hosts))


def rankfile(placement: Placement, hosts: Sequence[str]) -> str:
    """Write Open MPI's rankfile: ``rank 0=host slot=0``, a slot a GPU.

    Raises
    ------
    ValueError
        Where there are fewer host names than nodes.
    """
    places = enumerate(_places(placement, hosts))
    return "".join(f"rank {rank}={host} slot={slot}\n" for rank, (host, slot) in places)


def node_order(placement: Placement, hosts: Sequence[str]) -> str:
    """Write the hosts in rank order, one a line: line n runs ``torchrun --node-rank n``.

    Raises
    ------
    ValueError
        Where there are fewer host names than nodes.
    """
    return "".join(f"{host}\n" for host in dict.fromkeys(h for h, _ in _places(placement, hosts)))


def _places(placement: Placement, hosts: Sequence[str]) -> list[tuple[str, int]]:
    """Return host and local GPU of each rank."""
    if len(hosts) < placement.group.nodes:
        msg = f"{len(hosts)} host names for {placement.group.nodes} nodes; give one for each."
        raise ValueError(msg)
    per_node = placement.group.gpus_per_node
    gpus = placement.gpus(np.arange(placement.ranks)).tolist()
    return [(hosts[gpu // per_node], gpu % per_node) for gpu in gpus]
