"""Fine-tuning in the cost model: states, kept inputs, traffic and time of what is trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from solver.cost.calibrated import Calibrated
from solver.cost.frozen import layers_with_backward
from solver.cost.memory.activations import activation_bytes, saved_per_token
from solver.cost.memory.frozen_weights import dequantised_bytes
from solver.cost.memory.peak import memory_items
from solver.cost.memory.states import state_bytes, weights_of
from solver.cost.profile import load_profile
from solver.cost.shapes import Shapes, Shardings
from solver.cost.stages import split
from solver.cost.tables import Choice
from solver.job.finetune import Finetune, trainable_parameters
from solver.job.job import Job, Limits
from solver.job.presets import find_model
from solver.job.search import Search
from topology import ClusterSpec

LLAMA = find_model("llama3-8b")
MIXTRAL = find_model("mixtral-8x7b")
MEGATRON = load_profile("megatron-core", "h100-80gb-sxm")
BILLION = 1e9


def job(finetune: Finetune | None, model: Any = LLAMA) -> Job:
    return Job(transformer=model, seq_len=4096, global_batch=64, finetune=finetune)


def columns(*zero: int) -> Shardings:
    stages = np.array([zero], np.int64)
    return Shardings(stages, np.ones_like(stages), np.ones_like(stages, bool))


def states(finetune: Finetune | None, shapes: Shapes, *zero: int, model: Any = LLAMA) -> Any:
    tuned = job(finetune, model)
    stages = split(model, shapes.pp, shapes.vpp)
    weights, on_card = weights_of(tuned, shapes, stages), np.zeros((1, 1), np.int64)
    return state_bytes(tuned, MEGATRON, weights, shapes, columns(*zero), on_card)


def test_only_adapters_have_gradients_and_optimizer_states() -> None:
    """Frozen weights are whole on every rank below ZeRO 3, and sharded in it."""
    lora = Finetune(lora_rank=16)
    adapters, base = trainable_parameters(LLAMA, lora), LLAMA.parameters().total
    found = states(lora, Shapes.of(dp=8, microbatches=8), 0, 1, 3)
    assert found.gradients[0, 0] == pytest.approx([4 * adapters, 4 * adapters, adapters / 2])
    assert found.optimizer[0, 0] == pytest.approx([12 * adapters, *[12 * adapters / 8] * 2])
    whole = 2 * base + 2 * adapters
    assert found.weights[0, 0] == pytest.approx([whole, whole, whole / 8])


def test_adapters_leave_tensor_traffic_exposed() -> None:
    cluster = ClusterSpec.model_validate("1x8xH100").build()
    shapes = Shapes.of(tp=4, dp=2, microbatches=32)
    stages = split(LLAMA, shapes.pp, shapes.vpp)

    def share(finetune: Finetune | None) -> float:
        tuned = job(finetune)
        model = Calibrated(tuned, cluster.groups[0], Limits(), Search(), MEGATRON)
        times = model.stage_times(shapes, stages, ("none",))
        return float(times.exposed["tp"][0, 0, 0] / times.total["tp"][0, 0, 0])

    assert share(None) == pytest.approx(MEGATRON.tp_exposed)
    assert share(Finetune(lora_rank=16)) == pytest.approx(1.0)


@pytest.mark.parametrize(("bits", "width"), [(16, 2.0), (8, 1.0), (4, 4.127 / 8)])
def test_a_quantised_base_keeps_its_tables_in_16_bit(bits: Any, width: float) -> None:
    lora = Finetune(lora_rank=16, base_bits=bits)
    tables = 2 * 128_256 * 4096
    found = states(lora, Shapes.of(), 0).weights[0, 0, 0]
    inside = LLAMA.parameters().total - tables
    expected = width * inside + 2 * tables + 2 * trainable_parameters(LLAMA, lora)
    assert found == pytest.approx(expected)
    restored = dequantised_bytes(job(lora), Shapes.of(tp=2))[0]
    assert restored == (0 if bits == 16 else 2 * 4096 * 14336 / 2)


def test_a_reference_model_is_a_second_copy_unless_the_base_is_one() -> None:
    whole = states(Finetune(), Shapes.of(), 0).weights[0, 0, 0]
    copied = states(Finetune(reference_model=True), Shapes.of(), 0).weights[0, 0, 0]
    assert copied == pytest.approx(2 * whole)
    adapted = states(Finetune(lora_rank=8, reference_model=True), Shapes.of(), 0).weights[0, 0, 0]
    assert adapted == states(Finetune(lora_rank=8), Shapes.of(), 0).weights[0, 0, 0]


def test_frozen_experts_leave_the_rest_to_train() -> None:
    shapes = Shapes.of(dp=8, ep=8)
    found = states(Finetune(frozen=("experts",)), shapes, 1, model=MIXTRAL)
    experts = 32 * 8 * 3 * 4096 * 14336
    rest = MIXTRAL.parameters().total - experts
    assert found.weights[0, 0, 0] == pytest.approx(2 * (rest + experts / 8))
    assert found.optimizer[0, 0, 0] == pytest.approx(12 * rest / 8)


@pytest.mark.parametrize(
    ("fields", "less"),
    [
        # A frozen product keeps no input: 2 h before each half, 2 f before the second product.
        ({"lora_rank": 8}, 2 * 4096 + 2 * 14336 - 2 * 8 * 3),
        ({"lora_rank": 8, "lora_targets": ("all",)}, -2 * 8 * 7),
        ({"lora_rank": 8, "lora_targets": ("mlp",)}, 2 * 4096 - 2 * 8 * 3),
        ({"frozen": ("mlp",)}, 2 * 4096 + 2 * 14336),
        ({"frozen": ("head",)}, 0),
    ],
)
def test_frozen_products_keep_no_input(fields: dict[str, Any], less: float) -> None:
    every = saved_per_token(job(None), MEGATRON, Shapes.of(), "none")[0][0]
    tuned = saved_per_token(job(Finetune(**fields)), MEGATRON, Shapes.of(), "none")[0][0]
    assert every - tuned == pytest.approx(less)


@pytest.mark.parametrize(
    ("shapes", "first", "expected"),
    [
        (Shapes.of(), 10, [22, 0, 0, 0]),
        (Shapes.of(pp=4), 10, [0, 0, 8, 8]),  # the last of the middle stages has layers 16 to 23
        (Shapes.of(pp=4), 20, [0, 0, 4, 8]),
        (Shapes.of(pp=4), 32, [0, 0, 0, 0]),
        (Shapes.of(pp=4, vpp=2), 10, [4, 0, 6, 8]),  # chunks of four: stage 0 has 0-3 and 16-19
        (Shapes.of(pp=5), 13, [0, 0, 7, 6]),  # stages of 6, 6, 7, 7, 6: the second heavy has 19-25
    ],
)
def test_frozen_layers_fall_on_the_first_stages(
    shapes: Shapes, first: int, expected: list[int]
) -> None:
    tuned = job(Finetune(frozen_layers=first, frozen=()))
    stages = split(LLAMA, shapes.pp, shapes.vpp)
    left = layers_with_backward(tuned, shapes, stages).dense_layers[0]
    assert [n for n, used in zip(left, stages.count[0], strict=True) if used] == [
        n for n, used in zip(expected, stages.count[0], strict=True) if used
    ]


def test_frozen_layers_keep_nothing() -> None:
    shapes = Shapes.of()
    stages = split(LLAMA, shapes.pp, shapes.vpp)
    saved = [saved_per_token(job(None), MEGATRON, shapes, "none")]
    whole = activation_bytes(job(None), MEGATRON, shapes, stages, saved)[0, 0, 0]
    half = job(Finetune(frozen_layers=16))
    assert activation_bytes(half, MEGATRON, shapes, stages, saved)[0, 0, 0] == whole / 2


def test_qlora_of_70b_fits_one_card_and_lora_does_not() -> None:
    """A base of 70.6e9 parameters is 39 GB in 4 bits and 141 GB in 16."""
    model = find_model("llama3-70b")
    shapes = Shapes.of(microbatches=16)
    stages = split(model, shapes.pp, shapes.vpp)
    hugging = MEGATRON.model_copy(update={"memory": load_profile("fsdp1", "h100-80gb-sxm").memory})

    def need(bits: Any) -> float:
        lora = Finetune(lora_rank=16, lora_targets=("all",), base_bits=bits)
        tuned = Job(transformer=model, seq_len=512, global_batch=16, finetune=lora)
        items = memory_items(tuned, hugging, shapes, stages, columns(0), ("full",))
        return float(items.total()[0, 0, 0, 0])

    assert 40 * BILLION < need(4) < 52 * BILLION
    assert need(16) > 141 * BILLION


def step_s(finetune: Finetune | None, zero: int = 1, **degrees: int) -> float:
    group = ClusterSpec.model_validate("2x8xH100").build().group
    search = Search(zero=(zero,), recompute=("none",), hsdp=False)
    model = Calibrated(job(finetune), group, Limits(), search, MEGATRON)
    tables = model.tables(Shapes.of(**{"dp": 16, "microbatches": 4, **degrees}))

    return model.estimates(tables, [Choice(0, (0, 0, 0))])[0].time.step_s


def test_time_of_what_is_not_trained() -> None:
    """Frozen weights save a third of the products; a reference costs a third of a step."""
    every = step_s(None)
    assert step_s(Finetune()) == pytest.approx(every, rel=1e-9)
    assert 0.60 < step_s(Finetune(lora_rank=8)) / every < 0.85
    assert 0.30 < step_s(Finetune(frozen_layers=31)) / every < 0.45
    assert 1.25 < step_s(Finetune(reference_model=True)) / every < 1.40
    quantised = step_s(Finetune(lora_rank=8, base_bits=4))
    assert step_s(Finetune(lora_rank=8)) < quantised < 1.3 * every


def test_adapters_send_little() -> None:
    """Data-parallel traffic is of trained parameters; ZeRO 3 still gathers the base."""
    group = ClusterSpec.model_validate("2x8xH100").build().group
    sent = {}
    for name, finetune in (("whole", None), ("lora", Finetune(lora_rank=8))):
        for zero in (1, 3):
            search = Search(zero=(zero,), recompute=("none",), hsdp=False)
            model = Calibrated(job(finetune), group, Limits(), search, MEGATRON)
            tables = model.tables(Shapes.of(dp=16, microbatches=4))

            time = model.estimates(tables, [Choice(0, (0, 0, 0))])[0].time
            sent[name, zero] = time.communication["dp"].total_s
    assert sent["lora", 1] < 0.02 * sent["whole", 1]
    assert 0.4 < sent["lora", 3] / sent["whole", 3] < 0.7
