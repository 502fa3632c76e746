"""Rank files of a plan: which rank runs on which host and GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from topology.cluster import NodeGroup
from topology.errors import InputError, Problem
from topology.importers.hosts import Hosts
from topology.importers.imported import Dump
from topology.nodes import pick_nodes
from topology.placement import Placement, hostfile, node_order, rankfile
from topology.source import read_text

from .blocks import Plain, Report
from .stored import read_problem_or_plan, stored_layout

WRITERS: dict[str, Callable[[Placement, Sequence[str]], str]] = {
    "slurm": hostfile,
    "openmpi": rankfile,
    "torchrun": node_order,
}
"""Slurm's arbitrary distribution, Open MPI's rankfile, hosts in the order of their node rank."""


def write_ranks(plan: str, hosts: str, to: str, rank: int, free: str | None) -> Report:
    """Write the rank file of one plan of a plan JSON.

    Parameters
    ----------
    plan
        File that ``solve -o`` wrote.
    hosts
        File with the host names of the cluster, leaf after leaf, one a line or as ``node[01-64]``.
    to
        Key of `WRITERS`.
    rank
        Which of its plans.
    free
        Host list to choose from; None: all.

    Raises
    ------
    InputError
        Where the plan, the hosts or the free ones cannot be used.
    """
    group = read_problem_or_plan(plan, {}, {}).cluster.group
    layout = stored_layout(plan, rank)
    degrees = {axis: layout[axis] for axis in ("tp", "cp", "ep", "etp", "dp", "pp")}
    need = -(-layout["tp"] * layout["cp"] * layout["dp"] * layout["pp"] // group.gpus_per_node)
    names = _names(hosts, read_text(hosts))
    if len(names) < group.nodes:
        message = f"names {len(names)} hosts, the plan's cluster has {group.nodes} nodes."
        raise InputError(Problem(hosts, 0, 0, "", "SP131", message, "Name every node once."))
    nodes = _chosen(group, need, names, free)
    placed = Placement(group, **degrees, order=layout["order"], nodes=nodes)
    text = WRITERS[to](placed, names)
    data = {"order": placed.order, "hosts": [names[node] for node in nodes], "to": to}
    return Report((Plain(text),), data, texts={"text": lambda: text})


def _names(where: str, text: str) -> tuple[str, ...]:
    """Return the hosts of a list, each once."""
    reader = Hosts(Dump(where, text))
    names = reader.all(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    if reader.warnings or not names:
        message = f"{reader.warnings[0] if reader.warnings else 'names no host'}."
        hint = "Write one host name a line, or a list such as node[01-64]."
        raise InputError(Problem(where, 0, 0, "", "SP131", message, hint))
    return names


def _chosen(
    group: NodeGroup, need: int, names: tuple[str, ...], free: str | None
) -> tuple[int, ...]:
    if free is None:
        return pick_nodes(group, need)
    number = {name: index for index, name in enumerate(names[: group.nodes])}
    wanted = _names("--free", free)
    unknown = [name for name in wanted if name not in number]
    if unknown:
        message = f"host '{unknown[0][:60]}' is not among the cluster's hosts."
        raise InputError(Problem("--free", 0, 0, "", "SP131", message, "Name hosts of --hosts."))
    try:
        return pick_nodes(group, need, [number[name] for name in wanted])
    except ValueError as error:
        hint = "Free more nodes, or take a smaller plan."
        raise InputError(Problem("--free", 0, 0, "", "SP131", str(error), hint)) from None
