"""Fine-tuning: counts of trained parameters, FLOPs, and the problem file's section."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from solver.job.finetune import FROZEN_PARTS, Finetune, trainable_parameters
from solver.job.job import Job
from solver.job.presets import find_model, models
from solver.job.read import parse_problem
from solver.job.step_flops import training_flops
from solver.report.resolved import problem_data

LLAMA = find_model("llama3-8b")
BASE: dict[str, Any] = {
    "model": "llama3-8b",
    "cluster": "1x8xH100",
    "training": {"seq_len": 4096, "global_batch": "64seq"},
}


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        # r (in + out) for each linear layer, by hand.
        ("llama3-8b", {"lora_rank": 16}, 32 * 16 * (8192 + 2 * 5120)),
        ("llama3-8b", {"lora_rank": 16, "lora_targets": ("attention",)},
         32 * 16 * (2 * 8192 + 2 * 5120)),
        # QLoRA's table: rank 64 on every layer of Llama-2-7B.
        ("llama2-7b", {"lora_rank": 64, "lora_targets": ("all",)}, 159_907_840),
        ("llama3-8b", {"frozen_layers": 32, "frozen": ("norms",)}, 128_256 * 4096),
        ("llama3-8b", {"frozen": ("embedding", "attention", "mlp", "norms")}, 128_256 * 4096),
    ],
)  # fmt: skip
def test_trained_parameters(name: str, fields: dict[str, Any], expected: int) -> None:
    assert trainable_parameters(find_model(name), Finetune(**fields)) == expected


@pytest.mark.parametrize("model", models().values(), ids=lambda m: m.name)
def test_nothing_frozen_is_everything(model: Any) -> None:
    total = model.parameters().total
    assert trainable_parameters(model) == total
    # Three norms of a prediction module are not among its blocks.
    assert trainable_parameters(model, Finetune()) == pytest.approx(total, rel=1e-4)
    every = training_flops(model, 4096, None)
    assert training_flops(model, 4096, Finetune()) == pytest.approx(every, rel=2e-3)


def test_flops_of_adapters_and_of_a_reference() -> None:
    """Frozen weights save a third of the matrices' work; a reference model adds a forward."""
    every = training_flops(LLAMA, 4096, None)
    adapted = training_flops(LLAMA, 4096, Finetune(lora_rank=8))
    assert 2 / 3 < adapted / every < 0.72
    with_copy = training_flops(LLAMA, 4096, Finetune(reference_model=True))
    assert with_copy / every == pytest.approx(4 / 3, rel=2e-3)
    half = training_flops(LLAMA, 4096, Finetune(frozen_layers=16))
    assert 1 / 3 < half / every < 2 / 3 + 0.05


def test_a_tied_table_is_frozen_as_either() -> None:
    tied = find_model("gpt2-xl")
    table = tied.vocab * tied.hidden
    for part in ("embedding", "head"):
        frozen = trainable_parameters(tied, Finetune(frozen=(part,)))
        assert trainable_parameters(tied) - frozen >= table


def test_everything_frozen_is_refused() -> None:
    with pytest.raises(ValidationError, match="nothing is left to train"):
        Job(transformer=LLAMA, seq_len=8, global_batch=1, finetune=Finetune(frozen=FROZEN_PARTS))


@pytest.mark.parametrize(
    "section",
    [
        {},
        {"lora_rank": 8, "lora_targets": ["mlp", "qkv"], "base_bits": 4},
        {"frozen": ["head", "embedding"], "frozen_layers": 4, "reference_model": True},
        {"frozen": "router"},
    ],
    ids=json.dumps,
)
def test_the_section_comes_back(section: dict[str, Any]) -> None:
    problem = parse_problem(json.dumps({**BASE, "finetune": section}))
    chosen = problem.job.finetune
    assert chosen is not None
    for field, value in section.items():
        had = getattr(chosen, field)
        assert (set(had) if isinstance(had, tuple) else had) == (
            set([value] if isinstance(value, str) else value) if isinstance(had, tuple) else value
        )
    again = parse_problem(json.dumps(problem_data(problem)))
    assert again.job == problem.job
