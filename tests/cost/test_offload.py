"""What lives on the host: bytes on both sides, copies, and nodes that are too small for it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from solver.cost.calibrated import Calibrated
from solver.cost.memory.offload import host_traffic, update_seconds
from solver.cost.memory.peak import least_bytes, memory_items
from solver.cost.profile import load_profile
from solver.cost.shapes import Shapes, Shardings
from solver.cost.stages import split
from solver.cost.tables import Choice
from solver.job.job import Job, Limits
from solver.job.presets import find_model
from solver.job.read import parse_problem
from solver.job.search import OFFLOADS, RECOMPUTE, Offload, Search
from solver.report.resolved import problem_data
from solver.search.search import solve
from topology import ClusterSpec

LLAMA = find_model("llama3-8b")
MEGATRON = load_profile("megatron-core", "h100-80gb-sxm")
JOB = Job(transformer=LLAMA, seq_len=4096, global_batch=64)
SHAPES = Shapes.of(tp=2, pp=2, dp=4, microbatches=8)
PROBLEM: dict[str, Any] = {
    "model": "llama3-8b",
    "cluster": {"gpu": "h100", "nodes": 1, "price": 2.0},
    "training": {"seq_len": 4096, "global_batch": "64seq"},
}


def columns(*zero: int) -> Shardings:
    stages = np.array([zero], np.int64)
    return Shardings(stages, np.ones_like(stages), np.ones_like(stages, bool))


def items(offload: Any, *zero: int) -> Any:
    stages = split(LLAMA, SHAPES.pp, SHAPES.vpp)
    return memory_items(JOB, MEGATRON, SHAPES, stages, columns(*zero), ("none", "full"), offload)


def test_optimizer_states_leave_the_card_for_the_host() -> None:
    """12 bytes a parameter leave; on the host an fp32 gradient lies beside them."""
    here, away = items(0, 1), items(1, 1)
    owned = here.optimizer[0, 0, 0, 0] / 12
    assert away.optimizer.max() == 0
    assert away.host[0, 0, 0, 0] == pytest.approx(16 * owned)
    assert here.host.max() == 0
    assert away.allocated[0, 0, 0, 0] == pytest.approx(here.allocated[0, 0, 0, 0] - 12 * owned)


def test_of_kept_activations_two_layers_stay() -> None:
    """1F1B holds two micro-batches of 16 layers on the first stage: two layers are in transit."""
    states, all_of_it = items(1, 1), items(2, 1)
    kept = states.phases[0].activations[0, 0]
    moved = all_of_it.host[0, 0, :, 0] - states.host[0, 0, :, 0]
    assert moved == pytest.approx(kept * 30 / 32)
    assert (all_of_it.allocated <= states.allocated).all()


def test_columns_may_differ() -> None:
    """Each sharding may be offloaded or not; it is priced as if alone."""
    mixed = items(np.array([[0, 1, 2]]), 1, 1, 1)
    for column, level in enumerate((0, 1, 2)):
        alone = items(level, 1)
        for pick in ("allocated", "host", "optimizer", "activations", "buffers"):
            one = np.broadcast_to(getattr(alone, pick), alone.allocated.shape)
            every = np.broadcast_to(getattr(mixed, pick), mixed.allocated.shape)
            assert np.allclose(every[..., column], one[..., 0]), pick


@pytest.mark.parametrize("level", range(len(OFFLOADS)))
@pytest.mark.parametrize("stack", ["megatron-core", "torchtitan", "deepspeed-zero3"])
def test_the_bound_stays_below(level: int, stack: str) -> None:
    profile = load_profile(stack, "h100-80gb-sxm")
    for shapes in (SHAPES, Shapes.of(dp=8), Shapes.of(pp=4, dp=2, microbatches=2)):
        stages = split(LLAMA, shapes.pp, shapes.vpp)
        found = memory_items(JOB, profile, shapes, stages, columns(0, 1, 2, 3), RECOMPUTE, level)
        bound = least_bytes(JOB, profile, shapes, stages, RECOMPUTE, level)
        used = stages.count[0] > 0
        least = found.total()[0, used].min(axis=(-1, -2))
        assert (bound[0, used] <= least * (1 + 1e-12)).all()


def test_copies_hide_under_the_passes() -> None:
    """2 GB at 1 GB/s: out under a forward of 1.5 s, back under a backward of 3 s."""
    traffic = host_traffic(np.array(2e9), 1e9, np.array(1.5), np.array(3.0))
    assert (float(traffic.exposed), float(traffic.total)) == (0.5, 4.0)
    # 6 bytes a parameter over the link, or the update itself.
    assert update_seconds(JOB, 1e9, 2e-9) == 6e-9
    assert update_seconds(JOB, 63e9, 2e-9) == 2e-9


def times(offload: Offload) -> Any:
    group = ClusterSpec.model_validate("2x8xH100").build().group
    search = Search(zero=(1,), recompute=("none",), hsdp=False, offload=offload)
    model = Calibrated(JOB, group, Limits(), search, MEGATRON)
    return model.estimates(model.tables(SHAPES), [Choice(0, (0, 0, 0))])[0]


def test_time_on_the_host_is_part_of_the_step() -> None:
    here, states, every = map(times, OFFLOADS)
    owned = states.stages[0].memory.host_bytes / 16
    assert states.time.optimizer_s - here.time.optimizer_s == pytest.approx(
        owned * MEGATRON.stack.offloaded_parameter_s, rel=0.1
    )
    assert "host" not in states.time.communication
    moved = every.time.communication["host"]
    assert moved.total_s > moved.exposed_s >= 0
    assert every.host_bytes_per_node > states.host_bytes_per_node > here.host_bytes_per_node == 0


def test_a_host_that_is_too_small() -> None:
    """Eight ranks of 8.03e9 / 8 parameters take 16 bytes each: 128 GB a node."""
    room = {}
    for memory in ("100GB", "200GB"):
        cluster = {**PROBLEM["cluster"], "host_memory": memory}
        search = {"offload": "optimizer", "zero": [1, 3], "gpus": 8}
        asked = {**PROBLEM, "cluster": cluster, "search": search}
        problem = parse_problem(json.dumps(asked))
        again = parse_problem(json.dumps(problem_data(problem))).cluster.group
        assert again.host_bytes == problem.cluster.group.host_bytes
        room[memory] = solve(problem)
    assert room["100GB"].status == "infeasible"
    assert room["200GB"].status == "optimal"
    host = room["200GB"].plans[0].estimate.host_bytes_per_node
    assert host == pytest.approx(16 * LLAMA.parameters().total, rel=0.01)


@pytest.mark.parametrize(("written", "meant"), [(True, 1), (False, 0), (None, 0), (OFFLOADS[2], 2)])
def test_how_it_is_written(written: Any, meant: int) -> None:
    problem = parse_problem(json.dumps({**PROBLEM, "search": {"offload": written}}))
    assert problem.search.offload == OFFLOADS[meant]
