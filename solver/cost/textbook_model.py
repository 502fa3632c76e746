"""The textbook account as a cost model: what ``textbook`` computes, as coefficients.

Its axes are TP, PP, DP, HSDP, ZeRO, micro-batch and full recomputation; stages are alike, traffic
of data parallelism hides behind compute, and the communication ratio counts all traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from topology.cluster import NodeGroup

from ..axes.data import FULL_SHARDING
from ..estimate import AxisTime, Estimate, Stage, StageMemory, StepTime
from ..job.job import Account, Job, Limits
from ..job.search import Recompute, Search
from . import textbook
from .bubble import bubble_fraction
from .schedule import pipeline_grains, step_ticks
from .shapes import Shapes, Shardings
from .shard_columns import shardings
from .stages import CLASSES, RECOMPUTE_CLASS, Stages, split
from .tables import Choice, Seconds, Tables, evaluate, round_up
from .ticks import GRAIN_S, MIB, TICK_S, FloatArray, IntArray, capacity_mebibytes, grains, mebibytes
from .verdict import CLASS_NAMES, verdict

GRADIENT_BYTES = textbook.STATE_BYTES - textbook.OPTIMIZER_BYTES - textbook.PARAMETER_BYTES
"""Bytes of the 16-bit gradient a parameter."""

TEXTBOOK_KINDS: tuple[Recompute, ...] = ("none", "full")
"""Selective recomputation equals none here: 34·s·b·h takes flash attention for granted."""


def textbook_search(search: Search) -> Search:
    """Narrow a search to the account's axes; None of the others may be asked for."""
    return search.model_copy(
        update={
            "cp": (1,),
            "ep": (1,),
            "etp": (1,),
            "vpp": (1,),
            "recompute": tuple(k for k in search.recompute if k in TEXTBOOK_KINDS) or ("none",),
        }
    )


class Textbook:
    """Textbook cost model of a job on a node group; see ``tables.CostModel``."""

    def __init__(
        self, job: Job, group: NodeGroup, limits: Limits, search: Search, account: Account
    ) -> None:
        self.job, self.group, self.limits, self.search = job, group, limits, search
        self.account = account
        self.kinds = tuple(k for k in TEXTBOOK_KINDS if k in search.recompute)
        self.usable_bytes = float(group.gpu.memory_bytes)
        self.capacity_mib = capacity_mebibytes(self.usable_bytes * (1 - limits.mem_headroom))
        counts = job.transformer.parameters()
        stated = job.transformer.stated_parameters
        self.parameters = float(stated or counts.total)
        self.active_parameters = float(stated or counts.active)
        peaks = group.gpu.peak_flops
        self.peak_flops = peaks.get("bf16") or peaks["fp16"]

    @property
    def metric(self) -> Literal["exposed", "total"]:
        """The account counts all traffic, whatever the limit's metric."""
        return "total"

    @property
    def places(self) -> bool:
        """The account takes the usual order of axes."""
        return False

    def on(self, group: NodeGroup) -> Textbook:
        """Return the same account on another node group."""
        return Textbook(self.job, group, self.limits, self.search, self.account)

    # -- parts, seconds and bytes a step ---------------------------------------------------------

    def _compute(self, shapes: Shapes) -> FloatArray:
        """Compute of one micro-batch on a stage, shape (N,)."""
        tokens = shapes.micro_batch * float(self.job.seq_len)
        work = textbook.flops(self.active_parameters, tokens)
        rate = self.account.mfu
        return np.asarray(
            textbook.compute_seconds(work, shapes.tp * shapes.pp, self.peak_flops, rate)
        )

    def _bandwidth(self, span: IntArray) -> FloatArray:
        group = self.group
        inside = group.nvlink_bytes_per_s or group.gpu.pcie_bytes_per_s
        domain = max(group.nvlink_domain, group.gpus_per_node)
        return np.asarray(textbook.group_bytes_per_s(span, domain, inside, group.inter_bytes_per_s))

    def _tensor(self, shapes: Shapes, stages: Stages) -> FloatArray:
        """Exposed tensor-parallel traffic of a step, shape (N, 4)."""
        tokens = (self.job.step_tokens / shapes.dp)[:, None]
        volume = textbook.tp_traffic_bytes(
            tokens, self.job.transformer.hidden, stages.layers, shapes.tp[:, None]
        )
        return np.asarray(volume / self._bandwidth(shapes.tp)[:, None])

    def _pipeline(self, shapes: Shapes) -> FloatArray:
        """Exposed traffic between stages of a step, shape (N,)."""
        volume = textbook.pp_traffic_bytes(
            self.job.seq_len, shapes.micro_batch, self.job.transformer.hidden,
            shapes.microbatches, shapes.pp, shapes.tp,
        )  # fmt: skip
        return np.asarray(volume / self._bandwidth(2 * (shapes.gpus // shapes.pp)))

    def _data(self, shapes: Shapes, columns: Shardings) -> FloatArray:
        """Hidden data-parallel traffic of a step, shape (N, Z)."""
        local = (self.parameters / (shapes.tp * shapes.pp))[:, None]
        shard = np.maximum(shapes.dp[:, None] // columns.replicas, 1)
        tp = shapes.tp[:, None]
        gathers = textbook.fsdp_traffic_bytes(local, shard)
        copies = textbook.replica_traffic_bytes(local, shard, columns.replicas)
        plain = textbook.gradient_traffic_bytes(local, shapes.dp[:, None])
        inside, outside = self._bandwidth(tp * shard), self._bandwidth(tp * shapes.dp[:, None])
        full = columns.zero == FULL_SHARDING
        return np.where(full, gathers / inside + copies / outside, plain / outside)

    def _charge(self) -> FloatArray:
        """Factor of recomputation on compute, shape (K,)."""
        full = np.array([kind == "full" for kind in self.kinds])
        return np.asarray(textbook.recompute_factor(full, self.account.charge_recompute))

    def _states(self, shapes: Shapes, columns: Shardings) -> FloatArray:
        local = (self.parameters / (shapes.tp * shapes.pp))[:, None]
        shard = np.maximum(shapes.dp[:, None] // columns.replicas, 1)
        return np.asarray(textbook.state_bytes(local, columns.zero, shard))

    def _activations(self, shapes: Shapes, stages: Stages) -> FloatArray:
        """Return saved activations, shape (N, 4, K)."""
        parts = [
            textbook.activation_bytes(
                self.job.seq_len, shapes.micro_batch[:, None], self.job.transformer.hidden,
                stages.layers, shapes.tp[:, None], True, kind == "full",
                shapes.pp[:, None] - stages.index,
            )
            for kind in self.kinds
        ]  # fmt: skip
        return np.stack(parts, axis=-1)

    # -- the faces of a cost model ----------------------------------------------------------------

    def floor(self, shapes: Shapes) -> IntArray:
        """Bound the step by nothing: the full bound is as cheap."""
        return np.zeros(len(shapes), np.int64)

    def bounds(self, shapes: Shapes, capacity_mib: int | None = None) -> tuple[IntArray, IntArray]:
        """Bound step and memory from below: no recomputation charged, everything sharded.

        Recomputation is left out whether it is needed for ``capacity_mib`` or not.
        """
        stages = split(self.job.transformer, shapes.pp, shapes.vpp)
        column = (slice(None), None)
        pace, share = pipeline_grains(
            self._compute(shapes)[column], stages.count, shapes.vpp[column],
            shapes.microbatches[column],
        )  # fmt: skip
        tail = self._tensor(shapes, stages) + self._pipeline(shapes)[:, None]
        step = step_ticks(pace, share, grains(np.where(stages.count > 0, tail, 0.0)))
        one = np.ones((len(shapes), 1), np.int64)
        states = self._states(shapes, Shardings(3 * one, one, one.astype(bool)))
        need = states + self._activations(shapes, stages).min(axis=-1)
        return step, mebibytes(np.where(stages.count > 0, need, 0).max(axis=-1))

    def tables(self, shapes: Shapes, columns: Shardings | None = None) -> Tables:
        """Coefficients of every recomputation and sharding of every shape."""
        stages = split(self.job.transformer, shapes.pp, shapes.vpp)
        columns = columns or shardings(shapes, self.group, self.search)
        compute = self._compute(shapes)
        pace = compute[:, None, None, None] * self._charge()[:, None]
        exposed = self._tensor(shapes, stages) + self._pipeline(shapes)[:, None]
        need = (
            self._activations(shapes, stages)[..., None]
            + (self._states(shapes, columns)[:, None, None, :])
        )
        row = np.arange(len(shapes))
        busiest = np.where(stages.count > 0, exposed, -1.0).argmax(axis=-1)
        sent = exposed[row, busiest][:, None] + self._data(shapes, columns)
        seconds = Seconds(
            pace, exposed[..., None, None], need, sent[:, None, :],
            shapes.microbatches * compute, busiest,
        )  # fmt: skip
        return round_up(shapes, columns, stages, len(self.kinds), seconds)

    def estimates(self, tables: Tables, choices: Sequence[Choice]) -> list[Estimate]:
        """Itemise one complete choice of each shape."""
        rows = (tables.take(np.array([row])) for row in range(len(choices)))
        return [self._estimate(one, choice) for one, choice in zip(rows, choices, strict=True)]

    def _estimate(self, one: Tables, choice: Choice) -> Estimate:
        used = [c for c in range(CLASSES) if one.stages.count[0, c] > 0]
        stages = tuple(self._stage(one, choice, c) for c in used)
        worst = max(range(len(stages)), key=lambda i: stages[i].memory.total_bytes)
        shapes = one.shapes
        return Estimate(
            stages=stages,
            time=self._step_time(one, choice),
            peak_bytes=stages[worst].memory.total_bytes,
            worst_stage=stages[worst].index,
            verdict=stages[worst].memory.verdict,
            bubble_fraction=float(bubble_fraction(shapes.pp, shapes.vpp, shapes.microbatches)[0]),
            communication_ratio=evaluate(one, 0, choice)[2] / int(one.compute[0]),
            communication_metric="total",
        )

    def _stage(self, one: Tables, choice: Choice, stage: int) -> Stage:
        kind = choice.recompute[RECOMPUTE_CLASS[stage]]
        shapes, columns, stages = one.shapes, one.shardings, one.stages
        local = self.parameters / int(shapes.tp[0] * shapes.pp[0])
        zero = int(columns.zero[0, choice.sharding])
        shard = max(int(shapes.dp[0]) // int(columns.replicas[0, choice.sharding]), 1)
        held = [local / shard if zero >= level else local for level in (3, 2, 1)]
        kept = float(self._activations(shapes, stages)[0, stage, kind])
        limit = float(self.capacity_mib * MIB)
        parts = {
            "weights_bytes": textbook.PARAMETER_BYTES * held[0],
            "gradients_bytes": GRADIENT_BYTES * held[1],
            "optimizer_bytes": textbook.OPTIMIZER_BYTES * held[2],
            "activations_bytes": kept,
            "logits_bytes": 0.0,
            "buffers_bytes": 0.0,
            "reserve_bytes": 0.0,
        }
        total = sum(parts.values())
        return Stage(
            name=CLASS_NAMES[stage],
            index=int(stages.index[0, stage]),
            count=int(stages.count[0, stage]),
            layers=int(stages.layers[0, stage]),
            dense_layers=int(stages.dense_layers[0, stage]),
            moe_layers=int(stages.moe_layers[0, stage]),
            has_embedding=bool(stages.has_embedding[0, stage]),
            has_head=bool(stages.has_head[0, stage]),
            recompute=self.kinds[kind],
            gpu=self.group.gpu.id,
            microbatch_s=float(self._compute(shapes)[0] * self._charge()[kind]),
            drain_s=float(one.tail[0, stage, kind, choice.sharding]) * GRAIN_S,
            memory=StageMemory(
                **parts,
                total_bytes=total,
                limit_bytes=limit,
                usable_bytes=self.usable_bytes,
                verdict=verdict(int(mebibytes(np.array(total))) * MIB, limit, self.usable_bytes),
            ),
        )

    def _step_time(self, one: Tables, choice: Choice) -> StepTime:
        shapes, job = one.shapes, self.job
        step = evaluate(one, 0, choice)[0] * TICK_S
        pace = max(
            (c for c in range(CLASSES) if one.stages.count[0, c] > 0),
            key=lambda c: int(one.tail[0, c, 0, choice.sharding]),
        )
        kind = choice.recompute[RECOMPUTE_CLASS[pace]]
        compute = float(shapes.microbatches[0] * self._compute(shapes)[0])
        recompute = compute * float(self._charge()[kind] - 1)
        tensor = float(self._tensor(shapes, one.stages)[0, pace])
        between = float(self._pipeline(shapes)[0])
        data = float(self._data(shapes, one.shardings)[0, choice.sharding])
        rate = textbook.flops(self.active_parameters, job.step_tokens) / step / int(shapes.gpus[0])
        mfu = float(rate / self.peak_flops)
        full = float(textbook.recompute_factor(self.kinds[kind] == "full", True))
        return StepTime(
            step_s=step,
            compute_s=compute,
            recompute_s=recompute,
            bubble_s=step - compute - recompute - tensor - between,
            communication={
                "tp": AxisTime(exposed_s=tensor, total_s=tensor),
                "pp": AxisTime(exposed_s=between, total_s=between),
                "dp": AxisTime(exposed_s=0.0, total_s=data),
            },
            optimizer_s=0.0,
            overhead_s=0.0,
            tokens_per_s_per_gpu=job.step_tokens / step / int(shapes.gpus[0]),
            model_flops_per_gpu_per_s=float(rate),
            mfu=mfu,
            hfu=mfu * full,
        )
