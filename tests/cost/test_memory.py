"""Hand-worked numbers of the memory model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from solver.cost.memory.activations import activation_bytes, loss_bytes, saved_per_token
from solver.cost.memory.items import PHASES
from solver.cost.memory.options import memory_options
from solver.cost.memory.peak import memory_items
from solver.cost.memory.states import state_bytes, weights_of
from solver.cost.profile import Profile, load_profile, stacks
from solver.cost.schedule import chunks_in_flight
from solver.cost.shapes import Shapes, Shardings
from solver.cost.stages import split
from solver.cost.verdict import oom_probability
from solver.job.job import Job
from solver.job.recipe import Recipe
from solver.job.search import Recompute
from solver.job.transformer import Moe, Transformer

WIDTHS = {"layers": 8, "hidden": 1024, "heads": 8, "vocab": 51200}
GPT = Transformer.model_validate({**WIDTHS, "ffn": 4096, "gated": False, "tied": True})
LLAMA = Transformer.model_validate({**WIDTHS, "kv_heads": 2, "ffn": 3584})
MIXTURE = Transformer.model_validate(
    {**WIDTHS, "ffn": 512, "moe": Moe(experts=16, top_k=2, ffn=512)}
)
SEQ = 2048
ON_CARD = np.zeros((1, 1), np.int64)


def job(model: Transformer, **fields: object) -> Job:
    return Job.model_validate({"transformer": model, "seq_len": SEQ, "global_batch": 64, **fields})


def profile(stack: str = "megatron-core", software: dict[str, object] | None = None,
            **memory: object) -> Profile:  # fmt: skip
    base = load_profile(stack, "h100-80gb-sxm")
    return base.model_copy(
        update={
            "memory": base.memory.model_copy(update=memory),
            "software": base.software.model_copy(update=software or {}),
        }
    )


def columns(*zero: int) -> Shardings:
    stages = np.array([zero], np.int64)
    return Shardings(stages, np.ones_like(stages), np.ones_like(stages, bool))


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_the_gpt_shape_keeps_34_bytes_a_token_and_hidden_unit(tp: int) -> None:
    """34 s b h / t less two dropout masks, which flash-era models don't have; plus statistics."""
    dense, _ = saved_per_token(job(GPT), profile(), Shapes.of(tp=tp), "none")
    statistics = (2 * 4 + 4 * GPT.heads) / tp
    assert dense[0] == pytest.approx(32 * GPT.hidden / tp + statistics)


def test_unfused_attention_adds_its_scores_and_masks() -> None:
    """34 s b h + 5 a s^2 b (Korthikanti et al. 2022, equation 1)."""
    dense, _ = saved_per_token(job(GPT, attention="unfused"), profile(), Shapes.of(), "none")
    assert dense[0] == pytest.approx(34 * GPT.hidden + 5 * GPT.heads * SEQ + 2 * 4)


def test_without_sequence_parallelism_norms_stay_whole() -> None:
    """8 h of norms whole, 24 h of the rest divided."""
    dense, _ = saved_per_token(
        job(GPT), profile(software={"sequence_parallel": False}), Shapes.of(tp=4), "none"
    )
    assert dense[0] == pytest.approx((8 + 24 / 4) * GPT.hidden + 2 * 4 + 4 * GPT.heads / 4)


def test_dtensor_keeps_the_gathered_inputs() -> None:
    kept = profile(gathered_inputs_kept=True)
    dense, _ = saved_per_token(job(GPT), kept, Shapes.of(tp=4), "none")
    plain, _ = saved_per_token(job(GPT), profile(), Shapes.of(tp=4), "none")
    assert dense[0] - plain[0] == pytest.approx(4 * GPT.hidden * 3 / 4)


@pytest.mark.parametrize(
    ("implementation", "of_hidden"),
    [
        # Grouped-query attention, gated MLP of 3.5 h: 12 + 4 kv/n + 6 f/h = 34 fused; eager adds
        # 8 and 2 f/h; transformers repeats keys and values and keeps a mask of 2 s.
        ("fused", 34.0),
        ("eager", 49.0),
        ("transformers", 49.0 + 3.0 + 2 * SEQ / 1024),
    ],
)
def test_implementations_keep_different_sets(implementation: str, of_hidden: float) -> None:
    dense, _ = saved_per_token(
        job(LLAMA), profile(implementation=implementation), Shapes.of(), "none"
    )
    assert dense[0] == pytest.approx(of_hidden * LLAMA.hidden + 2 * 4 + 4 * LLAMA.heads)


def test_full_recomputation_keeps_the_layer_input() -> None:
    dense, _ = saved_per_token(job(GPT), profile(), Shapes.of(tp=2), "full")
    assert dense[0] == 2 * GPT.hidden / 2


@pytest.mark.parametrize("module", ["core_attn", "layernorm", "mlp"])
def test_kinds_keep_less_and_less(module: str) -> None:
    recomputing = profile(software={"recompute_modules": (module,)})
    kinds: tuple[Recompute, ...] = ("none", "selective", "full")
    kept = [saved_per_token(job(LLAMA), recomputing, Shapes.of(tp=2), k)[0][0] for k in kinds]
    assert kept[0] > kept[1] > kept[2]


def test_a_mixture_keeps_its_routed_tokens() -> None:
    """Per routed copy: its input 2 h, both branches and their product 6 f, its probability 4."""
    _, moe = saved_per_token(job(MIXTURE), profile(), Shapes.of(), "none")
    dense = 8 * 1024 + 2 * (2 * 1024 + 2 * 1024) + 2 * 4 + 4 * 8
    assert moe[0] == pytest.approx(dense + 10 * 16 + 2 * (2 * 1024 + 6 * 512 + 4))


@pytest.mark.parametrize(
    ("schedule", "vpp", "index", "expected"),
    [
        ("1f1b", 1, 0, 4),
        ("1f1b", 1, 3, 1),
        ("zb-1p", 1, 3, 4),
        ("zb-2p", 1, 0, 8),
        ("1f1b", 2, 0, 2 * 3 + 4 + 1),
        ("1f1b", 2, 3, 4 + 1),
    ],
)
def test_micro_batches_in_flight(schedule: str, vpp: int, index: int, expected: int) -> None:
    chunks = chunks_in_flight(
        np.array([4]),
        np.array([vpp]),
        np.array([32]),
        np.array([index]),
        schedule,  # type: ignore[arg-type]
    )
    assert chunks[0] == expected


def test_no_more_in_flight_than_there_are() -> None:
    few = np.array([2])
    assert chunks_in_flight(np.array([8]), np.array([1]), few, np.array([0]))[0] == 2
    assert chunks_in_flight(np.array([8]), np.array([1]), few, np.array([0]), "zb-2p")[0] == 2


def test_activations_of_a_pipeline_stage() -> None:
    """Stage 0 of 4 holds 4 micro-batches of 2 layers; the last stage one."""
    shapes = Shapes.of(pp=4, microbatches=16, micro_batch=2)
    stages = split(GPT, shapes.pp, shapes.vpp)
    saved = saved_per_token(job(GPT), profile(), shapes, "none")
    kept = activation_bytes(job(GPT), profile(), shapes, stages, [saved])[0, :, 0]
    layer = saved[0][0] * 2 * SEQ
    assert kept[0] == pytest.approx(4 * 2 * layer)
    assert kept[3] == pytest.approx(2 * layer)


def test_offloaded_layers_leave_the_card() -> None:
    shapes = Shapes.of()
    stages = split(GPT, shapes.pp, shapes.vpp)
    saved = [saved_per_token(job(GPT), profile(), shapes, "none")]
    whole = activation_bytes(job(GPT), profile(), shapes, stages, saved)[0, 0, 0]
    half = activation_bytes(job(GPT), profile(offloaded_layers=4), shapes, stages, saved)
    assert half[0, 0, 0] == pytest.approx(whole / 2)


def test_logits_are_divided_by_tensor_ranks() -> None:
    made = profile(loss_bytes=6.0, loss_hidden_bytes=0.0)
    shapes = Shapes.of(tp=4, cp=2, micro_batch=2)
    stages = split(GPT, shapes.pp, shapes.vpp)
    assert loss_bytes(job(GPT), made, shapes, stages)[0, 0] == 6 * 2 * SEQ / 2 * 51200 / 4
    whole = profile(loss_bytes=0.0, whole_loss_bytes=12.0, loss_hidden_bytes=0.0)
    assert loss_bytes(job(GPT), whole, shapes, stages)[0, 0] == 12 * 2 * SEQ / 2 * 51200


def test_zero_stages_shard_optimizer_gradients_weights() -> None:
    shapes = Shapes.of(dp=8, microbatches=2)
    stages = split(LLAMA, shapes.pp, shapes.vpp)
    weights = weights_of(job(LLAMA), shapes, stages)
    parameters = weights.held
    states = state_bytes(job(LLAMA), profile(), weights, shapes, columns(0, 1, 2, 3), ON_CARD)
    whole = parameters.dense[0, 0]
    assert np.allclose(states.weights[0, 0], [2 * whole, 2 * whole, 2 * whole, 2 * whole / 8])
    assert np.allclose(states.gradients[0, 0], [4 * whole, 4 * whole, whole / 2, whole / 2])
    assert np.allclose(states.optimizer[0, 0], [12 * whole, *[12 * whole / 8] * 3])


def test_experts_are_sharded_over_expert_data_ranks_only() -> None:
    """Where EP equals DP, ZeRO shards nothing of the experts."""
    shapes = Shapes.of(dp=8, ep=8)
    stages = split(MIXTURE, shapes.pp, shapes.vpp)
    weights = weights_of(job(MIXTURE), shapes, stages)
    parameters = weights.held
    states = state_bytes(job(MIXTURE), profile(), weights, shapes, columns(1), ON_CARD)
    dense, expert = parameters.dense[0, 0], parameters.expert[0, 0]
    assert expert == 8 * 2 * 3 * 1024 * 512
    assert states.optimizer[0, 0, 0] == pytest.approx(12 * (dense / 8 + expert))


def test_eight_bit_moments_and_the_host() -> None:
    shapes = Shapes.of()
    weights = weights_of(job(LLAMA), shapes, split(LLAMA, shapes.pp, shapes.vpp))
    parameters = weights.held
    small = job(LLAMA, recipe=Recipe(moment_bytes=2))
    optimizer = state_bytes(small, profile(), weights, shapes, columns(1), ON_CARD).optimizer
    assert optimizer[0, 0, 0] == pytest.approx(6 * parameters.dense[0, 0])
    moved = profile(software={"offloaded_optimizer": True})
    assert state_bytes(small, moved, weights, shapes, columns(1), ON_CARD).optimizer[0, 0, 0] == 0


def test_sharded_master_weights_need_no_copy() -> None:
    """FSDP2 keeps fp32 weights and moments: 12 bytes a parameter before gradients exist."""
    shapes = Shapes.of(dp=8)
    weights = weights_of(job(LLAMA), shapes, split(LLAMA, shapes.pp, shapes.vpp))
    parameters = weights.held
    states = state_bytes(job(LLAMA), profile("torchtitan"), weights, shapes, columns(3), ON_CARD)
    assert (states.weights + states.optimizer)[0, 0, 0] == pytest.approx(
        12 * parameters.dense[0, 0] / 8
    )
    assert states.early_gradients[0, 0, 0] == 0


def test_items_sum_to_the_need_and_name_their_phase() -> None:
    shapes = Shapes.of(dp=8, microbatches=1, micro_batch=4)
    stages = split(LLAMA, shapes.pp, shapes.vpp)
    kinds: tuple[Recompute, ...] = ("none", "full")
    for stack in stacks():
        items = memory_items(job(LLAMA), profile(stack), shapes, stages, columns(0, 1, 2, 3), kinds)
        parts = (items.weights + items.gradients + items.optimizer) + (
            items.activations + items.logits + items.buffers + items.reserve
        )
        used = stages.count[0] > 0
        assert np.allclose(parts[:, used], items.total()[:, used])
        assert (items.buffers[:, used] >= 0).all()
        assert items.phase.max() < len(PHASES)


def test_the_metrics_nest() -> None:
    shapes = Shapes.of(dp=8)
    stages = split(LLAMA, shapes.pp, shapes.vpp)
    for stack in stacks():
        made = profile(stack)
        items = memory_items(job(LLAMA), made, shapes, stages, columns(1, 3), ("none",))
        shown = [items.total(metric) for metric in ("allocated", "reserved", "device")]
        assert (shown[0] <= shown[1]).all()
        assert np.allclose(
            shown[2] - shown[1], made.memory.context_bytes + made.memory.communication_bytes
        )


def test_recomputing_all_holds_one_layer_again() -> None:
    """Without logits the peak of full recomputation is the inputs and one whole layer."""
    made = profile(
        loss_bytes=0.0, loss_hidden_bytes=0.0, cached_gradients=False, allocator=1.0,
        context_bytes=0.0, communication_bytes=0.0,
    )  # fmt: skip
    shapes = Shapes.of()
    stages = split(GPT, shapes.pp, shapes.vpp)
    items = memory_items(job(GPT), made, shapes, stages, columns(0), ("full",))
    layer = saved_per_token(job(GPT), made, shapes, "none")[0][0]
    moved = 2 * 1024 + 2 * 4096
    expected = SEQ * (8 * 2 * 1024 + layer + moved)
    assert (items.activations + items.buffers)[0, 0, 0, 0] == pytest.approx(expected)


def test_every_stack_has_options() -> None:
    for stack in (*stacks(), "pytorch", "huggingface", "never heard of"):
        assert 0 < memory_options(stack).expected_error < 1


@pytest.mark.parametrize(
    ("need", "reclaimable", "expected"),
    [(100.0, 0.0, 0.5), (105.0, 5.0, 0.5), (90.0, 0.0, 0.038), (50.0, 0.0, 0.0), (200.0, 0.0, 1.0)],
)
def test_the_chance_of_running_out(need: float, reclaimable: float, expected: float) -> None:
    """A mean error of 5 % is a deviation of 6.3 %: 100 is 1.77 deviations above 90."""
    assert oom_probability(need, 100.0, 0.05, reclaimable) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [("adamw", 12), ("adamw16", 8), ("adamw8bit", 6.03125), ("lion", 8), ("sgd", 8),
     ("adafactor", 4)],
)  # fmt: skip
def test_recipes_of_optimizers(optimizer: Any, expected: float) -> None:
    made = job(LLAMA, recipe=Recipe.of(optimizer))
    weights = weights_of(made, Shapes.of(), split(LLAMA, np.array([1]), np.array([1])))
    found = state_bytes(made, profile(), weights, Shapes.of(), columns(0), ON_CARD)
    assert found.optimizer[0, 0, 0] == pytest.approx(expected * weights.held.dense[0, 0])


def test_muon_leaves_tables_to_adam() -> None:
    made = job(LLAMA, recipe=Recipe.of("muon"))
    weights = weights_of(made, Shapes.of(), split(LLAMA, np.array([1]), np.array([1])))
    found = state_bytes(made, profile(), weights, Shapes.of(dp=4), columns(0, 1), ON_CARD)
    tables = 2 * 51_200 * 1024
    whole = 8 * weights.held.dense[0, 0] + 4 * tables
    assert found.optimizer[0, 0] == pytest.approx([whole, whole / 4])


def test_uneven_and_capped_experts() -> None:
    """The busiest rank's share scales what routed copies keep; a capacity stands in its place."""

    def kept(**fields: object) -> float:
        return float(saved_per_token(job(MIXTURE, **fields), profile(), Shapes.of(), "none")[1][0])

    routed = 2 * (2 * 1024 + 6 * 512 + 4)
    assert kept(expert_imbalance=1.5) - kept() == pytest.approx(routed / 2)
    assert kept(capacity_factor=1.25) - kept() == pytest.approx(routed / 4)
    assert kept(capacity_factor=1.25, expert_imbalance=2.0) == kept(capacity_factor=1.25)


def test_a_loss_in_parts_holds_one_part() -> None:
    stages = split(GPT, np.array([1]), np.array([1]))
    hidden = 6 * SEQ * 1024
    plain = profile(loss_bytes=6.0, loss_hidden_bytes=6.0)
    whole = loss_bytes(job(GPT), plain, Shapes.of(), stages)[0, 0]
    parts = loss_bytes(job(GPT, loss_chunks=8), plain, Shapes.of(), stages)[0, 0]
    assert parts - hidden == pytest.approx((whole - hidden) / 8)


def test_a_prediction_module_keeps_what_it_joins() -> None:
    predicting = LLAMA.model_copy(update={"mtp_layers": 1})
    stages = split(LLAMA, np.array([1]), np.array([1]))
    saved = [saved_per_token(job(LLAMA), profile(), Shapes.of(), "none")]
    more, plain = (
        activation_bytes(job(model), profile(), Shapes.of(), stages, saved)[0, 0, 0]
        for model in (predicting, LLAMA)
    )
    assert more - plain == pytest.approx(SEQ * (saved[0][0][0] + 8 * 1024))
