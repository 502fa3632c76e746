"""What is written for each target, and what a target cannot say."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from solver.job.read import parse_problem
from solver.launch.chunks import layout_text, parse_layout, torchtitan_ends, torchtitan_split
from solver.launch.description import Launch
from solver.launch.errors import LaunchError
from solver.launch.export import TARGETS, export
from solver.launch.tables import table
from solver.launch.targets.base import Wanted
from solver.layout_check import LayoutRequest, check
from topology import InputError

from ..topology.shared import ROOT
from .plans import plans, problem_of


def text(to: str, model: str = "llama3-70b", framework: str = "megatron", **layout: Any) -> str:
    problem = problem_of(model, 8, framework)
    return export(problem, check(problem, LayoutRequest(**layout)), to).text


def options(text_: str) -> dict[str, str]:
    return dict(([*line.split(" ", 1), ""])[:2] for line in text_.splitlines())


def test_megatron_arguments_of_an_interleaved_plan() -> None:
    found = options(text("megatron", tp=8, pp=4, vpp=5, dp=2, zero=1))
    assert found["--tensor-model-parallel-size"] == "8"
    assert found["--num-virtual-stages-per-pipeline-rank"] == "5"
    assert found["--global-batch-size"] == "256"
    assert found["--train-iters"] == "9537"  # 10e9 tokens / (256 x 4096)
    assert {"--sequence-parallel", "--use-distributed-optimizer", "--bf16"} <= found.keys()
    assert "--num-layers-per-virtual-pipeline-stage" not in found


@pytest.mark.parametrize(
    ("stages", "written"),
    [
        ((20, 20, 20, 20), {}),
        ((20, 21, 20, 19), {"--pipeline-model-parallel-layout": "'Et*20|t*21|t*20|t*19L'"}),
        ((18, 22, 22, 18), {"--decoder-first-pipeline-num-layers": "18",
                            "--decoder-last-pipeline-num-layers": "18"}),
        ((17, 21, 21, 21), {"--decoder-first-pipeline-num-layers": "17"}),
        ((21, 21, 21, 17), {"--decoder-last-pipeline-num-layers": "17"}),
    ],
)  # fmt: skip
def test_uneven_stages(stages: tuple[int, ...], written: dict[str, str]) -> None:
    found = options(text("megatron", tp=8, pp=4, dp=2, stage_layers=stages))
    assert {k: v for k, v in found.items() if "decoder" in k or "layout" in k} == written


def test_embedding_and_head_count_as_layers_where_both_ends_have_one_less() -> None:
    """126 layers on 16 stages: 7, 14 x 8, 7."""
    found = options(text("megatron", "llama3.1-405b", tp=4, pp=16, dp=1))
    assert {name for name in found if "account" in name} == {
        "--account-for-embedding-in-pipeline-split",
        "--account-for-loss-in-pipeline-split",
    }


def test_experts_name_both_of_their_degrees() -> None:
    """Left out, the tensor parallelism of experts would follow TP."""
    found = options(text("megatron", "qwen3-30b-a3b", tp=2, dp=32, ep=8, zero=1))
    assert found["--expert-model-parallel-size"] == "8"
    assert found["--expert-tensor-parallel-size"] == "1"


def test_bridge_overrides() -> None:
    found = text("megatron-bridge", tp=8, pp=4, vpp=5, dp=2, zero=1, recompute="full").split()
    assert {
        "model.virtual_pipeline_model_parallel_size=5", "model.recompute_method=uniform",
        "ddp.use_distributed_optimizer=true", "mixed_precision=bf16_mixed",
        "dist.use_tp_pp_dp_mapping=false",
    } <= set(found)  # fmt: skip


def test_the_names_of_torchtitan_follow_its_release() -> None:
    problem = problem_of("llama3-70b", 8, "fsdp")
    plan = check(problem, LayoutRequest(tp=2, pp=4, dp=8, zero=2, vpp=2))
    old, new = (options(export(problem, plan, "torchtitan", Wanted(version=v)).text)
                for v in ("0.3.0", "main"))  # fmt: skip
    assert old["--training.local_batch_size"] == "32"  # a pipeline takes its 32 micro-batches
    assert old["--parallelism.pipeline_parallel_microbatch_size"] == "1"
    assert old["--parallelism.pipeline_parallel_layers_per_stage"] == "10"
    assert new["--training.num_tokens_per_microbatch_per_dp_rank"] == str(32 * 4096)
    assert new["--training.num_tokens_per_train_step"] == str(256 * 4096)
    assert new["--parallelism.num_pp_microbatches"] == "32"
    with pytest.raises(InputError, match=r"SP112.*Use 0.3.0 or main"):
        export(problem, plan, "torchtitan", Wanted(version="0.2"))


def test_accelerate_replicates_outside_of_shards() -> None:
    data = yaml.safe_load(text("accelerate", "llama3-8b", "fsdp", dp=64, dp_replicate=8, zero=3))
    assert data["distributed_type"] == "FSDP"
    assert data["num_processes"] == 64
    assert data["fsdp_config"]["fsdp_reshard_after_forward"] is True
    assert data["parallelism_config"]["parallelism_config_dp_replicate_size"] == 8
    assert data["parallelism_config"]["parallelism_config_dp_shard_size"] == 8


def test_accelerate_leaves_zero_1_to_deepspeed_and_zero_0_to_ddp() -> None:
    one, none = (yaml.safe_load(text("accelerate", "llama3-8b", dp=64, zero=z)) for z in (1, 0))
    assert one["deepspeed_config"]["zero_stage"] == 1
    assert one["deepspeed_config"]["gradient_accumulation_steps"] == 4
    assert none["distributed_type"] == "MULTI_GPU"


def test_the_batch_of_deepspeed_multiplies() -> None:
    data = json.loads(text("deepspeed", "llama3-8b", dp=64, zero=3, recompute="full"))
    assert data["train_batch_size"] == 256 == 64 * 4
    assert data["gradient_accumulation_steps"] == 4
    assert data["zero_optimization"]["stage"] == 3
    assert data["activation_checkpointing"] == {"number_checkpoints": 32}


@pytest.mark.parametrize(
    ("to", "layout", "reason"),
    [
        ("torchtitan", {"tp": 8, "dp": 8, "zero": 1}, r"no ZeRO 1"),
        ("torchtitan", {"pp": 4, "dp": 16, "zero": 2, "stage_layers": (20, 21, 19, 20)},
         r"20/21/19/20 layers"),
        ("torchtitan", {"dp": 64, "zero": 3, "recompute": "selective"}, r"works by operators"),
        ("deepspeed", {"pp": 2, "dp": 32}, r"pp: the number of stages"),
        ("deepspeed", {"tp": 2, "dp": 32}, r"counts on sequence parallelism"),
        ("deepspeed", {"cp": 2, "dp": 32}, r"there is no ring"),
        ("deepspeed", {"dp": 64, "zero": 3, "dp_replicate": 8}, r"there is no HSDP"),
        ("accelerate", {"pp": 2, "dp": 32}, r"no pipeline"),
        ("accelerate", {"dp": 64, "zero": 1, "recompute": "full"}, r"has no key beside ZeRO 1"),
        ("megatron", {"tp": 8, "pp": 4, "dp": 2, "recompute": "full/none/none"},
         r"differs from stage to stage"),
        ("megatron", {"tp": 8, "pp": 4, "dp": 2, "recomputed_layers": (9, 5, 5, 5)},
         r"takes one number for all stages"),
        ("slurm", {"tp": 8, "pp": 4, "dp": 2, "recompute": "selective",
                   "recomputed_layers": (5, 5, 5, 5)}, r"no kind besides"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_refused(to: str, layout: dict[str, Any], reason: str) -> None:
    with pytest.raises(LaunchError, match=reason) as refused:
        text(to, **layout)
    assert all(problem.hint for problem in refused.value.problems)


def test_every_reason_is_told_at_once() -> None:
    with pytest.raises(LaunchError) as refused:
        text("deepspeed", tp=8, pp=4, dp=2, recompute="selective")
    assert {p.field for p in refused.value.problems} == {"pp", "sp", "recompute"}


@pytest.mark.parametrize(
    ("field", "value", "to"),
    [
        ("optimizer", "muon", "megatron"), ("optimizer", "adamw8bit", "torchtitan"),
        ("offload", "optimizer+activations", "megatron"), ("precision", "fp8", "torchtitan"),
        ("precision", "nvfp4", "deepspeed"), ("grad_dtype", "bf16", "accelerate"),
        ("offload", "optimizer", "torchtitan"), ("order", "tp-cp-ep-pp-dp", "deepspeed"),
        ("recompute_modules", ("operators",), "megatron"), ("fp8_scaling", "row", "megatron"),
        ("zero", 0, "megatron"),
    ],
)  # fmt: skip
def test_a_recipe_that_a_target_lacks_is_refused(field: str, value: Any, to: str) -> None:
    [drawn] = plans("deepspeed", 25, seed=1)[:1]
    base: dict[str, Any] = {
        "layers": (80,), "global_batch": 256, "seq_len": 4096, "dp": 8, "zero": 3,
    }  # fmt: skip
    with_it = {"recompute_modules": {"recompute": "selective"}, "fp8_scaling": {"precision": "fp8"},
               "zero": {"optimizer": "adamw16"}}.get(field, {})  # fmt: skip
    TARGETS[to].write(Launch(**base), drawn.run, Wanted())
    with pytest.raises(LaunchError):
        TARGETS[to].write(Launch(**{**base, **with_it, field: value}), drawn.run, Wanted())


def test_mixed_clusters_and_adapters_are_refused() -> None:
    problem = parse_problem(
        "model: llama3-8b\ncluster: 1x8xH100\ntraining: {seq_len: 4096, global_batch: 64seq}\n"
        "finetune: {lora_rank: 16}\n"
    )
    plan = check(problem, LayoutRequest(dp=8))
    with pytest.raises(LaunchError, match="finetune: adapters"):
        export(problem, plan, "accelerate")
    other = problem_of("llama3-8b", 1, "fsdp")
    groups = (other.cluster.groups[0], problem.cluster.groups[0])
    mixed = replace(other, cluster=replace(other.cluster, groups=groups))
    with pytest.raises(LaunchError, match="cluster: stages on different nodes"):
        export(mixed, check(other, LayoutRequest(dp=8)), "megatron")


def test_the_script_of_every_random_plan_has_known_options_only() -> None:
    known = table("megatron")["options"]
    for drawn in plans("megatron", 25, seed=1):
        written = TARGETS["megatron"].write(drawn.launch, drawn.run, Wanted()).words
        names = [word for word in written if word.startswith("--")]
        assert set(names) <= known.keys()
        assert len(names) == len(set(names))
        for name, value in itertools.pairwise(written):
            if isinstance(known.get(name), dict):
                assert value in map(str, known[name]["choices"])


def test_the_option_table_is_the_captured_one() -> None:
    path = ROOT / "megatron_options.txt"
    if not path.is_file():
        pytest.skip("no captured options")
    captured: dict[str, str] = {}
    for line in path.read_text().splitlines():
        names, _, choices, *_ = (part.strip() for part in line.split(" | "))
        captured |= dict.fromkeys(names.split(", "), choices.removeprefix("choices="))
    ours = table("megatron")["options"]
    later = {"--ckpt-format", "--optimizer", "--save-interval"}  # another source, see the file
    assert set(ours) - later <= captured.keys()
    for name, entry in ours.items():
        if isinstance(entry, dict):
            assert str(entry["choices"]) == captured[name]


@pytest.mark.parametrize(
    "chunks", [(20, 20), (3, 3, *(4,) * 13, 3), (0, 1, 1, 0), (7,), (18, 21, 21, 20)]
)
def test_layout_text_is_read_back(chunks: tuple[int, ...]) -> None:
    for mtp in (0, 1):
        assert parse_layout(layout_text(chunks, mtp)) == (chunks, mtp)


def test_layout_text_of_the_documentation() -> None:
    """``Et*3|(tt|)*29,m|L``: 3, 29 stages of 2, then the predictor, then the loss."""
    assert parse_layout("Et*3|(tt|)*29,m|L") == ((3, *(2,) * 29, 0, 0), 1)
    for wrong in ("", "Et", "tL", "Etx|tL", "E|mt|L", "Et*99999999L"):
        assert parse_layout(wrong) is None


def test_torchtitan_spreads_as_its_own_example_does() -> None:
    """3 layers, embedding and head as 2 each, on 2 stages: 7 = 4 + 3, so 2 and 1 layers."""
    assert torchtitan_split(3, 2, 2, 2) == (2, 1)
    assert torchtitan_split(80, 4, 0, 0) == (20, 20, 20, 20)
    assert torchtitan_split(126, 16, 1, 1) == (7, *(8,) * 14, 7)
    assert torchtitan_split(126, 16, *(torchtitan_ends((7, *(8,) * 14, 7)) or ())) == (
        7, *(8,) * 14, 7,
    )  # fmt: skip
    assert torchtitan_ends((20, 21, 19, 20)) is None


def test_data_files_are_in_the_wheel() -> None:
    folder = Path(__file__).parents[2] / "solver" / "launch" / "data"
    assert {path.stem for path in folder.iterdir()} == {
        "accelerate", "deepspeed", "megatron", "torchtitan",
    }  # fmt: skip
