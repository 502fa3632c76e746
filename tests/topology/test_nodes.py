"""Which nodes are taken when only some are needed."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import ClusterSpec, NodeGroup
from topology.nodes import pick_nodes


def group(nodes: int, leaf_nodes: int | None = None) -> NodeGroup:
    spec = {"gpu": "h100", "nodes": nodes, "leaf_nodes": leaf_nodes}
    return ClusterSpec.model_validate(spec).build().group


def test_an_empty_cluster_is_filled_from_the_front() -> None:
    assert pick_nodes(group(8, 4), 3) == (0, 1, 2)
    assert pick_nodes(group(8), 0) == ()


def test_one_leaf_with_room_goes_before_two_with_neighbours() -> None:
    free = [2, 3, 4, 8, 9, 10, 11]
    assert pick_nodes(group(12, 4), 4, free) == (8, 9, 10, 11)


def test_the_smallest_gap_that_holds_all_is_taken() -> None:
    assert pick_nodes(group(12, 4), 2, [0, 1, 2, 3, 6, 7, 8, 9, 10]) == (6, 7)


def test_racks_are_filled_inside_a_leaf() -> None:
    spec = {"gpu": "gb200", "nodes": 36, "gpus_per_node": 4, "nvlink_domain": 16, "leaf_nodes": 12}
    racks = ClusterSpec.model_validate(spec).build().group
    free = [1, 2, 3, 4, 5, 6, 7, *range(8, 12)]
    assert pick_nodes(racks, 4, free) == (4, 5, 6, 7)


@given(free=st.sets(st.integers(0, 11), min_size=1, max_size=9), data=st.data())
def test_no_choice_touches_fewer_leaves(free: set[int], data: st.DataObject) -> None:
    need = data.draw(st.integers(1, len(free)))
    taken = pick_nodes(group(12, 3), need, free)
    assert set(taken) <= free
    assert len(set(taken)) == need
    fewest = min(len({n // 3 for n in some}) for some in itertools.combinations(sorted(free), need))
    assert len({n // 3 for n in taken}) == fewest


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(ValueError, match="3 nodes are needed, 2 are free"):
        pick_nodes(group(8), 3, [0, 1])
    with pytest.raises(ValueError, match="0 to 7"):
        pick_nodes(group(8), 1, [8])
