"""The order of the axes as a decision: which of DP and PP goes further out, and what it changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.cost.shapes import Shapes
from solver.job.job import Job, Limits, PlanningProblem
from solver.job.presets import find_model
from solver.job.search import Search
from solver.layout_check import LayoutRequest, check
from solver.plan import Layout, Plan
from solver.search.placing import place
from solver.search.search import instance_of, solve
from solver.search.space import build_space
from topology import Cluster, ClusterSpec, InputError, levels
from topology.placement import MEGATRON_ORDER, ORDERS, STAGES_INSIDE, Placement


def problem(cluster: str | dict[str, Any], search: Search, **job: Any) -> PlanningProblem:
    values: dict[str, Any] = {"global_batch": 256, "seq_len": 2048, **job}
    model = find_model(values.pop("model", "llama3-8b"))
    return PlanningProblem(
        job=Job(transformer=model, **values),
        cluster=ClusterSpec.model_validate(cluster).build(),
        limits=Limits(max_comm=10.0, max_bubble=1.0),
        search=search,
    )


SLOW = {"nodes": 2, "gpus_per_node": 8, "gpu": "a100-80gb-sxm", "inter": "3GB/s"}
TWO_STAGES = Search(tp=(4,), pp=(2,), cp=(1,), gpus=16, vpp=(1,), zero=(1,), micro_batch=(1,))


def test_stages_inside_the_node_win_where_every_micro_batch_would_wait_for_the_network() -> None:
    free = solve(problem(SLOW, TWO_STAGES, global_batch=4096), top=1).plans[0]
    usual = TWO_STAGES.model_copy(update={"order": (MEGATRON_ORDER,)})
    held = solve(problem(SLOW, usual, global_batch=4096), top=1).plans[0]
    assert (free.layout.order, held.layout.order) == (STAGES_INSIDE, MEGATRON_ORDER)
    assert level_of(free, "pp") == "nvlink"
    assert level_of(held, "pp") == "leaf"
    # One message of 2 · 2048 · 4096 / 4 bytes each way: at 3 GB/s against NVLink.
    waited, waits = (p.estimate.time.communication["pp"].total_s for p in (free, held))
    assert waits > 10 * waited
    assert free.estimate.time.step_s < held.estimate.time.step_s


def test_replicas_inside_the_node_win_where_pipelines_hide_their_messages() -> None:
    search = TWO_STAGES.model_copy(update={"order": (STAGES_INSIDE,), "micro_batch": (2,)})
    few = {"global_batch": 4, "seq_len": 8192}
    swapped = solve(problem(SLOW, search, **few), top=1).plans[0]
    search = search.model_copy(update={"order": None})
    assert swapped.layout.order == STAGES_INSIDE
    best = solve(problem(SLOW, search, **few), top=1).plans[0]
    assert best.layout.order == MEGATRON_ORDER
    assert best.estimate.time.step_s < swapped.estimate.time.step_s


def level_of(plan: Plan, axis: str) -> str:
    assert plan.placement is not None
    return next(placed.level for placed in plan.placement.axes if placed.axis == axis)


def test_the_other_order_is_looked_at_only_where_it_brings_stages_nearer() -> None:
    asked = problem("8x8xH100", Search())
    shapes = build_space(instance_of(asked)).shapes
    swapped = shapes.take(shapes.order == 1)
    assert 0 < len(swapped) < 0.2 * len(shapes)
    assert (8 % (swapped.tp * swapped.cp * swapped.pp) == 0).all()
    assert (swapped.dp > 1).all()


@pytest.mark.parametrize(
    ("layout", "legal"),
    [("tp=2,ep=8", False), ("tp=8,ep=8", True), ("tp=4,cp=2,ep=8", True), ("tp=2,ep=1", False)],
)
def test_experts_need_the_ranks_of_their_stage(layout: str, legal: bool) -> None:
    degrees: dict[str, Any] = {
        k: int(v) for k, v in (part.split("=") for part in layout.split(","))
    }
    asked = problem("8x8xH100", Search(), model="mixtral-8x7b")
    request = LayoutRequest(**degrees, pp=2, order=STAGES_INSIDE)
    if legal:
        assert check(asked, request).layout.order == STAGES_INSIDE
    else:
        with pytest.raises(InputError, match="different ranks"):
            check(asked, request)


def test_textbook_account_takes_the_usual_order() -> None:
    asked = problem("8x8xH100", Search())
    asked = replace(asked, account=asked.account.model_copy(update={"cost_model": "textbook"}))
    assert not build_space(instance_of(asked)).shapes.order.any()


# -- the placement that a plan shows ------------------------------------------------------------

DEGREE = st.sampled_from([1, 2, 3, 4, 8])
CLUSTERS = (
    "64x8xh100",
    {"gpu": "h100", "nodes": 64, "leaf_nodes": 4, "oversubscription": 4},
    {"gpu": "gb200", "nodes": 72, "gpus_per_node": 4, "leaf_nodes": 18},
)


def cluster(spec: Any) -> Cluster:
    return ClusterSpec.model_validate(spec).build()


@given(
    tp=DEGREE, cp=st.sampled_from([1, 2]), dp=DEGREE, pp=st.sampled_from([1, 2, 4]),
    order=st.sampled_from(ORDERS), spec=st.sampled_from(CLUSTERS), replicas=st.sampled_from([1, 2]),
)  # fmt: skip
def test_the_closed_form_is_the_rank_map(
    tp: int, cp: int, dp: int, pp: int, order: str, spec: Any, replicas: int
) -> None:
    group = cluster(spec).group
    replicas = replicas if dp % replicas == 0 else 1
    layout = layout_of(tp=tp, cp=cp, dp=dp, pp=pp, order=order, replicas=replicas)
    placed = place(group, layout)
    truth = Placement(group, tp=tp, cp=cp, dp=dp, pp=pp, order=order)
    for axis in placed.axes:
        if axis.axis.startswith("dp_"):
            continue
        groups = truth.groups(axis.axis)
        assert groups.shape == (axis.groups, axis.ranks)
        assert groups[0].tolist() == [member * axis.stride for member in range(axis.ranks)]
        worst = truth.worst_link(axis.axis)
        assert worst is not None
        # Uneven groups of a part of the cluster may fit by luck; never the other way round.
        names = [level.name for level in levels(group)]
        assert names.index(axis.level) >= names.index(worst.name)
        if all(degree != 3 for degree in (tp, dp)):
            assert axis.level == worst.name
    assert placed.nodes == ((0, -(-tp * cp * dp * pp // group.gpus_per_node) - 1),)


def layout_of(*, tp: int, cp: int, dp: int, pp: int, order: str, replicas: int) -> Layout:
    return Layout(
        tp=tp, sp=tp > 1, pp=pp, vpp=1, cp=cp, ep=1, etp=1, dp=dp, dp_shard=dp // replicas,
        dp_replicate=replicas, zero=3, order=order,
    )  # fmt: skip


def test_hybrid_sharding_shows_both_of_its_groups() -> None:
    layout = layout_of(tp=1, cp=1, dp=64, pp=1, order=MEGATRON_ORDER, replicas=8)
    forms = {
        a.axis: (a.ranks, a.stride, a.level) for a in place(cluster("8x8xh100").group, layout).axes
    }
    assert forms["dp_shard"] == (8, 1, "nvlink")
    assert forms["dp_replicate"] == (8, 8, "leaf")


@given(tp=DEGREE, cp=DEGREE, dp=DEGREE, pp=DEGREE)
def test_strides_of_both_orders(tp: int, cp: int, dp: int, pp: int) -> None:
    for index, order in enumerate(ORDERS):
        shapes = Shapes.of(tp=tp, cp=cp, dp=dp, pp=pp, order=index)
        truth = Placement(cluster("512x8xh100").group, tp=tp, cp=cp, dp=dp, pp=pp, order=order)
        if dp > 1:
            assert np.diff(truth.groups("dp")[0])[0] == shapes.replica_stride[0]
        if pp > 1:
            assert np.diff(truth.groups("pp")[0])[0] == shapes.stage_stride[0]


@given(
    tp=st.sampled_from([1, 2, 4]), cp=st.sampled_from([1, 2]), dp=st.sampled_from([2, 4, 8]),
    pp=st.sampled_from([1, 2]), ep=st.sampled_from([2, 4, 8]), etp=st.sampled_from([1, 2]),
    order=st.sampled_from(ORDERS),
)  # fmt: skip
def test_the_closed_form_of_experts_is_the_rank_map(
    tp: int, cp: int, dp: int, pp: int, ep: int, etp: int, order: str
) -> None:
    group = cluster("64x8xh100").group
    if (tp * cp * dp) % (ep * etp) or (order == STAGES_INSIDE and pp > 1 and tp * cp != ep * etp):
        return
    plain = layout_of(tp=tp, cp=cp, dp=dp, pp=pp, order=order, replicas=1)
    placed = place(group, plain.model_copy(update={"ep": ep, "etp": etp}))
    truth = Placement(group, tp=tp, cp=cp, dp=dp, pp=pp, ep=ep, etp=etp, order=order)
    for axis in placed.axes:
        groups, worst = truth.groups(axis.axis), truth.worst_link(axis.axis)
        assert groups.shape == (axis.groups, axis.ranks)
        assert groups[0].tolist() == [member * axis.stride for member in range(axis.ranks)]
        assert worst is not None
        assert axis.level == worst.name
    assert {"ep"} <= {axis.axis for axis in placed.axes}
