"""The planner framework's decision tree and its table of typical configurations.

Source: *Distributed Training Planner*, steps 1 and 2. The two disagree with each other on every
row but 7B on 8 GPUs (the tree finds no need for tensor parallelism), so callers print both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from . import textbook
from .textbook_inputs import MachineNumbers, ShapeNumbers, TextbookInputs

TREE_TP = (2, 4, 8)
"""Degrees that the tree offers where one layer does not fit a GPU, within a node."""


@dataclass(frozen=True, slots=True)
class Step:
    """One question of the tree: the numbers that answered it, the answer, what follows."""

    question: str
    reason: str
    answer: str
    action: str


@dataclass(frozen=True, slots=True)
class DecisionPath:
    """The way through the tree; ``holds`` is false where even its answer does not fit."""

    steps: tuple[Step, ...]
    tp: int
    pp: int
    dp: int
    sharding: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Typical:
    """One row of "Typical Configurations", with the shape that the size stands for.

    Layers and hidden size are those of the published models of that size (Llama 2 7B, 13B and
    70B; Llama 3.1 405B); the table has the size alone.
    """

    name: str
    parameters: int
    layers: int
    hidden: int
    gpus: int
    tp: int
    pp: int
    dp: int
    sharding: str = "FSDP"


TYPICAL: tuple[Typical, ...] = (
    Typical("7B", 7_000_000_000, 32, 4096, gpus=8, tp=1, pp=1, dp=8),
    Typical("13B", 13_000_000_000, 40, 5120, gpus=16, tp=2, pp=1, dp=8),
    Typical("70B", 70_000_000_000, 80, 8192, gpus=64, tp=8, pp=1, dp=8),
    Typical("70B", 70_000_000_000, 80, 8192, gpus=128, tp=8, pp=2, dp=8),
    Typical("405B", 405_000_000_000, 126, 16384, gpus=16_384, tp=8, pp=16, dp=128),
)

TYPICAL_SPREAD = 0.10
"""How far a model's size may lie from a row's and still be that row: 70.55e9 is "70B"."""


def typical(parameters: int, gpus: int) -> Typical | None:
    """Return the table's row for a model of this size on this many GPUs, if it has one."""
    for row in TYPICAL:
        near = abs(parameters / row.parameters - 1.0) <= TYPICAL_SPREAD
        if near and row.gpus == gpus:
            return row
    return None


def _layer_bytes(shape: ShapeNumbers, seq_len: int, micro_batch: int, tp: int) -> float:
    """State and working activations of one layer, 16·P/L + 34·s·b·h, divided by t."""
    state = textbook.STATE_BYTES * shape.parameters / shape.layers / tp
    working = textbook.activation_bytes(seq_len, micro_batch, shape.hidden, 1, tp)
    return state + float(working)


def _tensor_step(inputs: TextbookInputs, room: float) -> tuple[Step, int, bool]:
    shape, machine = inputs.shape, inputs.machine
    seq_len, micro_batch = inputs.job.seq_len, inputs.layout.micro_batch
    need = _layer_bytes(shape, seq_len, micro_batch, 1)
    reason = (
        f"16 B × {shape.parameters:,} / {shape.layers} layers + 34·s·b·h = {need / 1e9:.1f} GB, "
        f"room {room / 1e9:.1f} GB"
    )
    question = "Does one layer fit on one GPU?"
    if need <= room:
        return Step(question, reason, "yes", "skip tensor parallelism: TP = 1"), 1, True
    legal = [t for t in TREE_TP if machine.gpus_per_node % t == 0 and shape.heads % t == 0]
    enough = [t for t in legal if _layer_bytes(shape, seq_len, micro_batch, t) <= room]
    tp = min(enough) if enough else max(legal, default=1)
    left = "" if enough else "; a layer is still too large"
    return Step(question, reason, "no", f"tensor parallelism: TP = {tp}{left}"), tp, bool(enough)


def _pipeline_step(
    shape: ShapeNumbers, machine: MachineNumbers, room: float
) -> tuple[Step, int, bool]:
    state = textbook.STATE_BYTES * shape.parameters
    node = machine.gpus_per_node * room
    reason = (
        f"16 B × {shape.parameters:,} = {state / 1e9:.1f} GB, a node has "
        f"{machine.gpus_per_node} × {room / 1e9:.1f} = {node / 1e9:.1f} GB"
    )
    question = "Does the full model, sharded, fit on the GPUs of one node?"
    if state <= node:
        return Step(question, reason, "yes", "skip pipeline parallelism: PP = 1"), 1, True
    need = math.ceil(state / node)
    pp = next((n for n in _divisors(machine.nodes) if n >= need), machine.nodes)
    groups = machine.nodes // pp
    left = "" if need <= machine.nodes else f"; {need} nodes would be needed"
    action = f"PP = nodes / groups = {machine.nodes} / {groups} = {pp}{left}"
    return Step(question, reason, "no", action), pp, need <= machine.nodes


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def _sharding_step(inputs: TextbookInputs, tp: int, pp: int, dp: int, room: float) -> Step:
    """FSDP first; ZeRO-2, then ZeRO-1, only where FSDP's traffic is too much and they fit."""
    shape, machine, job = inputs.shape, inputs.machine, inputs.job
    local = shape.parameters / (tp * pp)
    rate = textbook.group_bytes_per_s(
        tp * dp, machine.domain, machine.nvlink_bytes_per_s, machine.inter_bytes_per_s
    )
    compute = textbook.compute_seconds(
        textbook.flops(shape.parameters, inputs.tokens_per_step),
        tp * pp * dp,
        machine.peak_flops,
        job.mfu,
    )
    seconds = textbook.transfer_seconds(textbook.fsdp_traffic_bytes(local, dp), rate)
    ratio = float(seconds / compute)
    question = "What sharding level within the data-parallel group?"
    reason = f"FSDP traffic {float(seconds):.2f} s, {ratio:.0%} of {float(compute):.2f} s compute"
    limit = inputs.limits.max_comm
    if ratio <= limit:
        return Step(question, reason, "FSDP", "start with FSDP (ZeRO-3)")
    for stage in (2, 1):
        if float(textbook.state_bytes(local, stage, dp)) <= room:
            return Step(question, reason, f"ZeRO-{stage}", f"over {limit:.0%}: reduce to it")
    return Step(question, reason, "FSDP", f"over {limit:.0%}, but ZeRO-2 and ZeRO-1 do not fit")


def decide(inputs: TextbookInputs) -> DecisionPath:
    """Walk the tree for a model on the whole machine, whatever layout was asked about.

    "PP = number of nodes / groups" is read as: a group is the fewest nodes that divide the machine
    and hold the sharded model; its nodes are the stages.
    """
    machine = inputs.machine
    room = machine.capacity_bytes * (1.0 - inputs.limits.mem_headroom)
    first, tp, layer_holds = _tensor_step(inputs, room)
    second, pp, model_holds = _pipeline_step(inputs.shape, machine, room)
    dp = machine.gpus // (tp * pp)
    third = Step(
        "How many GPUs remain for data parallelism?",
        f"{machine.gpus} / (TP {tp} × PP {pp})",
        str(dp),
        f"DP = {dp}",
    )
    fourth = _sharding_step(inputs, tp, pp, dp, room)
    return DecisionPath(
        (first, second, third, fourth), tp, pp, dp, fourth.answer, layer_holds and model_holds
    )


def memory_order(inputs: TextbookInputs) -> tuple[tuple[str, float, bool], ...]:
    """Step 1's order of measures: name, bytes per GPU, and whether they fit.

    Nothing, ZeRO-1, ZeRO-2, FSDP, FSDP with activation checkpointing, and last tensor
    parallelism over one node, each over all GPUs of the machine.
    """
    shape, job, machine = inputs.shape, inputs.job, inputs.machine
    room = machine.capacity_bytes * (1.0 - inputs.limits.mem_headroom)
    rungs: list[tuple[str, int, int, bool]] = [
        ("no sharding", 0, 1, False),
        ("ZeRO-1", 1, 1, False),
        ("ZeRO-2", 2, 1, False),
        ("FSDP", 3, 1, False),
        ("FSDP + activation checkpointing", 3, 1, True),
    ]
    wide = max((t for t in TREE_TP if machine.gpus_per_node % t == 0), default=1)
    if wide > 1 and shape.heads % wide == 0:
        rungs.append((f"FSDP + activation checkpointing + TP {wide}", 3, wide, True))
    result = []
    for name, zero, tp, full in rungs:
        state = textbook.state_bytes(shape.parameters / tp, zero, machine.gpus // tp)
        kept = textbook.activation_bytes(
            job.seq_len,
            inputs.layout.micro_batch,
            shape.hidden,
            shape.layers,
            tp,
            full_recompute=full,
        )
        need = float(state + kept)
        result.append((name, need, need <= room))
    return tuple(result)
