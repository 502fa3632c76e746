"""Existing configurations: what they mean, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from solver.launch.importing import READERS, Imported, import_launch
from solver.layout_check import check
from solver.plan import Plan
from topology import InputError

from .plans import problem_of
from .wrong import ACCELERATE, ALL, DEEPSPEED, DENSE, MEGATRON, MOE, TORCHTITAN, Wrong

SCRIPT = """#!/bin/bash
# Llama 70B
TP=8
PP=${PP:-4}
DISTRIBUTED="--nnodes 8 --nproc_per_node 8"
ARGS=(
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP}
    --sequence-parallel --num-layers 80 --hidden-size 8192 --lr 1.5e-4
    --use-distributed-optimizer --bf16 --seq-length 4096   # inline remark
    --micro-batch-size=1 --global-batch-size 1024
    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1)
torchrun $DISTRIBUTED pretrain_gpt.py \\
    ${ARGS[@]} --log-throughput 2>&1 | tee run.log
"""


def read(source: str, text: str, model: str = DENSE, framework: str = "megatron") -> Imported:
    return import_launch(problem_of(model, 8, framework), source, text)


def judge(source: str, text: str, model: str) -> Plan:
    found = read(source, text, model)
    return check(found.problem, found.request)


@pytest.mark.parametrize("wrong", ALL, ids=lambda w: f"{w.source}: {w.says[:40]}")
def test_a_wrong_configuration_is_refused(wrong: Wrong) -> None:
    with pytest.raises(InputError, match=wrong.says):
        judge(wrong.source, wrong.text, wrong.model)


def test_there_are_forty_of_them_from_every_framework() -> None:
    assert len(ALL) >= 40
    assert {wrong.source for wrong in ALL} == set(READERS)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("megatron", MEGATRON),
        ("torchtitan", TORCHTITAN),
        ("deepspeed", json.dumps(DEEPSPEED)),
        ("accelerate", json.dumps(ACCELERATE)),
    ],
)
def test_what_the_faults_were_put_in_is_right(source: str, text: str) -> None:
    found = read(source, text)
    assert check(found.problem, found.request).gpus == 64


def test_a_script_is_read(tmp_path: Path) -> None:
    file = tmp_path / "train.sh"
    file.write_text(SCRIPT)
    found = read("megatron", str(file))
    launch = found.launch
    assert (launch.tp, launch.pp, launch.dp, launch.sp) == (8, 4, 2, True)
    assert (launch.zero, launch.recompute, launch.global_batch) == (1, "full", 1024)
    assert found.problem.job.global_batch == 1024
    assert found.notes == ("not looked at: --log-throughput",)


@pytest.mark.parametrize(
    ("options", "layers", "vpp"),
    [
        ("--num-layers-per-virtual-pipeline-stage 5", (20, 20, 20, 20), 4),
        ("--decoder-first-pipeline-num-layers 17", (17, 21, 21, 21), 1),
        ("--decoder-first-pipeline-num-layers 18 --decoder-last-pipeline-num-layers 20",
         (18, 21, 21, 20), 1),
        ("--pipeline-model-parallel-layout 'Et*18,|(t*21|)*2,t*20,L'", (18, 21, 21, 20), 1),
        ("--pipeline-model-parallel-layout 'E(t*10|)*7t*10L'", (20, 20, 20, 20), 2),
    ],
)  # fmt: skip
def test_layers_fall_on_stages_as_megatron_puts_them(
    options: str, layers: tuple[int, ...], vpp: int
) -> None:
    text = MEGATRON.replace("--num-virtual-stages-per-pipeline-rank 5", options)
    launch = read("megatron", text).launch
    assert (launch.layers, launch.vpp) == (layers, vpp)


def test_megatron_defaults_hold() -> None:
    """Experts follow TP, and selective recomputation is of the attention core."""
    text = ("--tensor-model-parallel-size 2 --sequence-parallel --micro-batch-size 1 "
            "--expert-model-parallel-size 8 --recompute-activations")  # fmt: skip
    launch = read("megatron", text, MOE).launch
    assert (launch.etp, launch.ep, launch.zero) == (2, 8, 0)
    assert (launch.recompute, launch.recompute_modules) == ("selective", ("core_attn",))


def test_block_recomputation_repeats_so_many_layers_of_each_virtual_stage() -> None:
    block = "--recompute-granularity full --recompute-method block --recompute-num-layers"
    assert read("megatron", f"{MEGATRON}{block} 1").launch.recomputed_layers == (5, 5, 5, 5)
    all_of_them = read("megatron", f"{MEGATRON}{block} 9").launch
    assert (all_of_them.recompute, all_of_them.recomputed_layers) == ("full", None)


def test_torchtitan_shards_as_it_resolves_its_default() -> None:
    """Weights are freed after forward unless a pipeline would gather them again and again."""
    assert read("torchtitan", TORCHTITAN).launch.zero == 2
    alone = "--parallelism.data_parallel_shard_degree 64 --training.local_batch_size 1"
    assert read("torchtitan", alone).launch.zero == 3
    replicas = ("--parallelism.data-parallel-replicate-degree=64 "
                "--parallelism.data-parallel-shard-degree=1")  # fmt: skip
    launch = read("torchtitan", replicas).launch
    assert (launch.zero, launch.dp, launch.dp_replicate) == (0, 64, 1)


def test_what_a_deepspeed_file_leaves_open_follows() -> None:
    text = json.dumps({**DEEPSPEED, "train_batch_size": "auto"})
    launch = read("deepspeed", text).launch
    assert (launch.dp, launch.micro_batch, launch.global_batch) == (64, 1, 256)
    assert launch.overlap_data


def test_a_file_that_is_not_there_and_one_that_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="SP100"):
        read("deepspeed", str(tmp_path / "none.json"))
    with pytest.raises(InputError, match="needs a mapping"):
        read("accelerate", "- 1\n- 2\n")
    with pytest.raises(InputError, match="no closing quotation"):
        read("megatron", "--bf16 'open\n")
    with pytest.raises(InputError, match="needs a whole number from 1, got '\\$TP'"):
        read("megatron", "--tensor-model-parallel-size $TP --micro-batch-size 1")
    layout = "--micro-batch-size 1 --pipeline-model-parallel-layout 'E(((t*9999)*9999)*9999L'"
    with pytest.raises(InputError, match="is no layout"):
        read("megatron", layout)


@pytest.mark.parametrize(
    ("source", "text", "framework"),
    [
        ("megatron", MEGATRON, "megatron"),
        ("torchtitan", TORCHTITAN, "fsdp"),
        ("deepspeed", json.dumps(DEEPSPEED), "fsdp"),
        ("accelerate", json.dumps(ACCELERATE), "fsdp"),
    ],
)
def test_times_are_those_of_the_framework(source: str, text: str, framework: str) -> None:
    for asked in ("megatron", "fsdp"):
        assert read(source, text, framework=asked).problem.framework == framework
