"""ZB-H1 in the cost model: what a stage keeps, what it spares, and bounds below every choice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.cost.calibrated import Calibrated
from solver.cost.memory.activations import activation_bytes, saved_per_token
from solver.cost.memory.late_weights import late_bytes
from solver.cost.memory.peak import least_bytes_anywhere, memory_items
from solver.cost.profile import load_profile
from solver.cost.schedule import step_ticks
from solver.cost.shapes import Shapes
from solver.cost.shard_columns import shardings
from solver.cost.stage_options import Position, stage_options
from solver.cost.stages import FIRST, HEAVY, LAST, place, split
from solver.cost.ticks import GRAINS
from solver.job.job import Limits
from solver.job.presets import find_model
from solver.job.search import RECOMPUTE, Recompute, Search
from tests.cost.test_memory import GPT, LLAMA, MIXTURE, SEQ, job, profile
from topology.spec import ClusterSpec

STACK = "zero-bubble-megatron"
H1: dict[str, object] = {"schedule": "zb-h1"}


@pytest.mark.parametrize("tp", [1, 2])
def test_weight_gradients_of_the_gpt_shape_wait_with_32_bytes(tp: int) -> None:
    """Table 1 of the paper; the two gradients that were gathered are whole."""
    dense, _, head = late_bytes(job(GPT), Shapes.of(tp=tp), np.array([float(tp)]))
    whole = 2 + 2
    assert dense[0] == (whole + (32 - whole) / tp) * GPT.hidden
    assert head[0] == 2 * GPT.hidden / tp + 2 * GPT.vocab / tp


def test_weight_gradients_of_experts_wait_for_each_copy() -> None:
    dense, mixture, _ = late_bytes(job(MIXTURE), Shapes.of(), np.ones(1))
    # MLPs of 3 products, 512 wide: input, 3 gradients of 512, 512 and h, and the last one's input.
    mlp = 2 * (MIXTURE.hidden + 2 * 512 + MIXTURE.hidden + 512)
    assert mixture[0] - dense[0] == (2 - 1) * mlp


@pytest.mark.parametrize("kind", RECOMPUTE)
def test_a_stage_holds_the_law_of_the_paper(kind: Recompute) -> None:
    """(p - i) M_B + i M_W; or one micro-batch more of M_W where that is larger than M_B."""
    shape = Shapes.of(pp=4, microbatches=16)
    stages, this = split(LLAMA, shape.pp, shape.vpp), profile(STACK, H1)
    [saved] = [saved_per_token(job(LLAMA), this, shape, kind)]
    held = activation_bytes(job(LLAMA), this, shape, stages, [saved])[0, :, 0]
    layer, _, head = (SEQ * part[0] for part in late_bytes(job(LLAMA), shape, np.ones(1)))
    each, owed = 2 * SEQ * saved[0][0], 2 * layer
    assert held[FIRST] == max(4 * each, 3 * each + owed)
    # The middle stages are 1 and 2: the one that holds more counts.
    ends = [max((4 - i) * each + i * owed, (3 - i) * each + (i + 1) * owed) for i in (1, 2)]
    assert held[HEAVY] == max(ends)
    last = max(each + 3 * (owed + head), 4 * (owed + head))
    assert held[LAST] == pytest.approx(last)


SHAPES = {
    "pp": st.integers(2, 8), "tp": st.sampled_from((1, 2, 4)), "dp": st.sampled_from((1, 2)),
    "micro_batch": st.sampled_from((1, 4)), "microbatches": st.sampled_from((1, 3, 8, 32)),
}  # fmt: skip


def model_of(name: str, seq_len: int) -> Calibrated:
    cluster = ClusterSpec.model_validate("16x8xH100").build()
    base = load_profile(STACK, cluster.group.gpu.id)
    software = base.software.model_copy(update=H1)
    this = base.model_copy(update={"software": software})
    asked = job(find_model(name)).model_copy(update={"seq_len": seq_len, "global_batch": 1024})
    return Calibrated(asked, cluster.group, Limits(), Search(schedule="zb-h1"), this)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(("llama3-8b", "mixtral-8x7b", "gpt2-xl", "deepseek-v2-lite")),
    st.sampled_from((128, 4096)), st.fixed_dictionaries(SHAPES),
)  # fmt: skip
def test_bounds_are_below_every_choice(name: str, seq_len: int, degrees: dict[str, int]) -> None:
    model = model_of(name, seq_len)
    shape = Shapes.of(**degrees)
    tables = model.tables(shape)
    step, memory = model.bounds(shape)
    exact = step_ticks(*(np.moveaxis(t, 1, -1) for t in (tables.pace, tables.share, tables.tail)))
    assert step[0] <= exact[0][:, tables.shardings.valid[0]].min()
    assert memory[0] <= tables.memory.max(axis=1)[0][:, tables.shardings.valid[0]].min()


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(("llama3-8b", "gpt2-xl")), st.sampled_from((128, 4096)),
    st.fixed_dictionaries(SHAPES), st.randoms(use_true_random=False),
)  # fmt: skip
def test_bounds_of_any_split_are_below_every_split(
    name: str, seq_len: int, degrees: dict[str, int], dice: object
) -> None:
    model = model_of(name, seq_len)
    shape, pp = Shapes.of(**degrees), degrees["pp"]
    columns = shardings(shape, model.group, model.search)
    layers = [1] * pp
    for _ in range(model.job.transformer.layers - pp):
        layers[dice.randrange(pp)] += 1  # type: ignore[attr-defined]
    positions = [Position(i, pp, (n,)) for i, n in enumerate(layers)]
    step, memory = model.bounds(shape, balanced=True)
    for options in stage_options(model, shape, columns, positions):
        chosen = [(o, dice.randrange(len(o))) for o in options]  # type: ignore[attr-defined]
        parts = {n: [int(getattr(o, n)[c]) for o, c in chosen]
                 for n in ("pace", "share", "tail", "memory")}  # fmt: skip
        total = max(parts["pace"]) + sum(parts["share"]) + max(parts["tail"])
        assert step[0] <= -(-total // GRAINS)
        assert memory[0] <= max(parts["memory"])


@pytest.mark.parametrize("kinds", [("none",), ("full",)])
def test_the_least_of_any_place_is_below_every_place(kinds: tuple[Recompute, ...]) -> None:
    """Without recomputation the first stage holds most, with it the last."""
    shape = Shapes.of(pp=8, microbatches=16)
    this, asked = profile(STACK, H1), job(GPT)
    column = shardings(shape, model_of("gpt2-xl", 128).group, Search())
    stages = place(GPT, shape.pp, (np.array([1]),) * 3, np.array([0]))
    each = [
        replace(stages, index=0 * stages.index + index, count=0 * stages.count + 1)
        for index in range(8)
    ]
    bound = least_bytes_anywhere(asked, this, shape, each[-1], kinds)[0, HEAVY]
    needs = [memory_items(asked, this, shape, one, column, kinds).total() for one in each]
    assert bound <= min(need[0, HEAVY].min() for need in needs)
    held = [need[0, HEAVY].max() for need in needs]
    assert held == sorted(held, reverse=kinds == ("none",))


def test_only_products_wait_and_spare_at_most_the_forward() -> None:
    model = model_of("llama3-8b", 4096)
    shape = Shapes.of(pp=4, tp=2, microbatches=16, micro_batch=1)
    stages = split(model.job.transformer, shape.pp, shape.vpp)
    times = model.stage_times(shape, stages, ("none",))
    weight, least = np.asarray(times.weight)[0, HEAVY], np.asarray(times.least)[0, HEAVY]
    forward, backward = times.forward[0, HEAVY], times.backward[0, HEAVY]
    # A third of the products' FLOPs, and none of attention's.
    assert 0.25 * backward < weight < 0.5 * backward
    assert least <= min(forward, weight, backward - weight)
    spared = np.asarray(times.spared(shape))[0, HEAVY]
    assert spared == pytest.approx(weight + least)
    plain = model.profile.model_copy(
        update={"software": model.profile.software.model_copy(update={"schedule": "1f1b"})}
    )
    other = Calibrated(model.job, model.group, model.limits, model.search, plain)
    assert other.stage_times(shape, stages, ("none",)).spared(shape) == 0.0
    fast, slow = (m.tables(shape).share.sum(axis=1)[0, 0] for m in (model, other))
    assert (fast < slow).all()
