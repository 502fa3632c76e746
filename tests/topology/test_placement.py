"""Placement against a rank-by-rank enumeration that shares no code with it."""

from __future__ import annotations

import time
from itertools import permutations, product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from topology.cluster import NodeGroup
from topology.levels import levels, spanned_level
from topology.placement import AXES, MEGATRON_ORDER, Placement, hostfile, rankfile
from topology.spec import ClusterSpec

ORDERS = ["-".join(order) for order in permutations(AXES)]
DEGREES = st.sampled_from((1, 2, 3, 4))


def cluster(value: object) -> NodeGroup:
    return ClusterSpec.model_validate(value).build().group


def enumerated(sizes: dict[str, int], order: str, axes: set[str]) -> list[list[int]]:
    """Number the ranks by counting through the axes, the first of the order fastest."""
    names = order.split("-")
    found: dict[tuple[int, ...], list[int]] = {}
    outer_first = [range(sizes[name]) for name in reversed(names)]
    for rank, reverse in enumerate(product(*outer_first)):
        place = dict(zip(reversed(names), reverse, strict=True))
        key = tuple(place[name] for name in names if name not in axes)
        found.setdefault(key, []).append(rank)
    return sorted(found.values())


@given(
    degrees=st.fixed_dictionaries({"tp": DEGREES, "cp": DEGREES, "dp": DEGREES, "pp": DEGREES}),
    order=st.sampled_from(ORDERS),
    axes=st.sets(st.sampled_from(("tp", "cp", "dp", "pp")), min_size=1, max_size=3),
)
def test_groups_of_dense_layers(degrees: dict[str, int], order: str, axes: set[str]) -> None:
    tp, cp, dp, pp = (degrees[name] for name in ("tp", "cp", "dp", "pp"))
    placement = Placement(cluster("64x8xh100"), tp=tp, cp=cp, dp=dp, pp=pp, order=order)
    found = placement.groups("-".join(sorted(axes))).tolist()
    assert found == enumerated({**degrees, "ep": 1}, order, axes)


@given(
    etp=DEGREES,
    ep=DEGREES,
    edp=DEGREES,
    pp=DEGREES,
    cp=DEGREES,
    order=st.sampled_from(ORDERS),
    axis=st.sampled_from(("etp", "ep", "edp")),
)
def test_groups_of_expert_layers(
    etp: int, ep: int, edp: int, pp: int, cp: int, order: str, axis: str
) -> None:
    per_stage = etp * ep * edp
    assume(per_stage % cp == 0)
    try:
        placement = Placement(
            cluster("64x8xh100"), cp=cp, dp=per_stage // cp, ep=ep, etp=etp, pp=pp, order=order
        )
    except ValueError as error:
        assume("different stages" not in str(error))
        raise
    sizes = {"tp": etp, "cp": 1, "ep": ep, "dp": edp, "pp": pp}
    own = {"etp": "tp", "ep": "ep", "edp": "dp"}[axis]
    assert placement.groups(axis).tolist() == enumerated(sizes, order, {own})


@given(
    tp=DEGREES,
    dp=DEGREES,
    pp=DEGREES,
    order=st.sampled_from(ORDERS),
    per_node=st.sampled_from((4, 8)),
    domain=st.sampled_from((1, 2, 4)),
    leaf=st.integers(1, 5),
    seed=st.randoms(use_true_random=False),
)
def test_worst_links(
    tp: int, dp: int, pp: int, order: str, per_node: int, domain: int, leaf: int, seed: object
) -> None:
    group = cluster(
        {
            "gpu": "h100",
            "nodes": 20,
            "gpus_per_node": per_node,
            "nvlink_domain": domain,
            "leaf_nodes": leaf,
            "oversubscription": 2,
        }
    )
    nodes = list(range(20))
    seed.shuffle(nodes)  # type: ignore[attr-defined]
    placement = Placement(group, tp=tp, dp=dp, pp=pp, order=order, nodes=tuple(nodes))
    held = levels(group)
    for axis in ("tp", "dp", "pp"):
        worst = 0
        for members, level in zip(placement.groups(axis), placement.spans(axis), strict=True):
            gpus = [nodes[r // per_node] * per_node + r % per_node for r in members.tolist()]
            fits = [i for i, one in enumerate(held) if len({g // one.gpus for g in gpus}) == 1]
            assert level == fits[0]
            worst = max(worst, fits[0])
        link = placement.worst_link(axis)
        assert link == (held[worst] if placement.groups(axis).shape[1] > 1 else None)


@given(
    tp=st.sampled_from((1, 2, 4, 6, 8, 16)),
    cp=st.sampled_from((1, 2, 3)),
    dp=st.sampled_from((1, 2, 3, 8)),
    leaf=st.sampled_from((1, 2, 4)),
)
def test_the_planners_levels_agree(tp: int, cp: int, dp: int, leaf: int) -> None:
    group = cluster({"gpu": "h100", "nodes": 24, "leaf_nodes": leaf, "oversubscription": 2})
    assume(group.gpus % (tp * cp * dp) == 0)
    pp = group.gpus // (tp * cp * dp)
    placement = Placement(group, tp=tp, cp=cp, dp=dp, pp=pp)
    strides = {"tp": (tp, 1), "cp": (cp, tp), "dp": (dp, tp * cp), "pp": (pp, tp * cp * dp)}
    for axis, (ranks, stride) in strides.items():
        if ranks > 1:
            assert int(placement.spans(axis).max()) == int(spanned_level(group, ranks, stride))


def test_megatron_order() -> None:
    placement = Placement(cluster("8x8xh100"), tp=8, pp=4, dp=2)
    assert placement.order == MEGATRON_ORDER
    assert placement.groups("tp")[0].tolist() == list(range(8))
    assert placement.groups("dp")[0].tolist() == [0, 8]
    assert placement.groups("pp")[0].tolist() == [0, 16, 32, 48]
    assert placement.worst_link("cp") is None
    tp, dp = placement.worst_link("tp"), placement.worst_link("dp")
    assert tp is not None
    assert dp is not None
    assert (tp.name, dp.name) == ("nvlink", "leaf")


def test_expert_groups_cross_dp() -> None:
    placement = Placement(cluster("2x8xh100"), tp=2, dp=8, ep=8)
    assert placement.edp == 2
    assert placement.groups("ep")[0].tolist() == list(range(8))
    assert placement.groups("edp")[0].tolist() == [0, 8]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"tp": 0}, "whole numbers"),
        ({"tp": True}, "whole numbers"),
        ({"tp": 8, "dp": 9}, "need 9 nodes"),
        ({"order": "tp-pp"}, "does not name each"),
        ({"dp": 4, "ep": 3}, "does not divide"),
        ({"tp": 8, "dp": 2, "nodes": (1,)}, "2 different nodes"),
        ({"tp": 8, "dp": 2, "nodes": (1, 1)}, "2 different nodes"),
        ({"tp": 8, "nodes": (8,)}, "numbered 0 to 7"),
        ({"cp": 2, "dp": 4, "pp": 2, "ep": 8, "order": "cp-pp-tp-dp-ep"}, "end it in pp"),
    ],
)
def test_refusals(values: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Placement(cluster("8x8xh100"), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("axes", ["", "xp", "tp-ep", "dp-edp", "tp-"])
def test_unknown_axes(axes: str) -> None:
    with pytest.raises(ValueError, match="no axis"):
        Placement(cluster("1x8xh100"), tp=8).groups(axes)


def test_rank_files() -> None:
    placement = Placement(cluster("3x2xh100"), tp=2, dp=2, nodes=(2, 0))
    hosts = ["a", "b", "c"]
    assert hostfile(placement, hosts) == "c\nc\na\na\n"
    assert rankfile(placement, hosts).splitlines()[2] == "rank 2=a slot=0"
    with pytest.raises(ValueError, match="2 host names for 3 nodes"):
        hostfile(placement, hosts[:2])


def test_sixteen_thousand_gpus_are_placed_at_once() -> None:
    group = cluster("2048x8xh100")
    levels(group)
    started = time.process_time()
    placement = Placement(group, tp=8, cp=2, dp=64, pp=16, ep=32)
    for axis in ("tp", "cp", "dp", "pp", "ep", "edp", "dp-cp"):
        placement.worst_link(axis)
    assert time.process_time() - started < 1.0
