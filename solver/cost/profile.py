"""Profiles: the fitted constants of a GPU and a software stack, read from data files.

Fields carry the same names as the files; what each one means stands beside it there.
"""

from __future__ import annotations

import math
from functools import cache
from importlib import resources
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from topology.errors import InputError, Problem

from ..job.recipe import Precision
from .memory.options import MemoryOptions, memory_options
from .software import Software

BEFORE_HOPPER = ("a100",)
"""Families on which attention kernels written for A100 lose nothing."""

RELEASE_YEAR = 2024.5
"""Release from which slowdowns of older software are counted (the first one that was fitted)."""


class GpuRates(BaseModel):
    """Sustained rates of a GPU family, shares of its spec; fields as in profiles/gpus.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    family: str
    matmul_16bit_efficiency: float
    matmul_8bit_efficiency: float
    matmul_mx8_efficiency: float
    matmul_4bit_efficiency: float
    matmul_half_inner: float
    matmul_half_rows: float
    matmul_half_columns: float
    attention_efficiency: float
    attention_half_seq: float
    attention_backward: float
    attention_narrow: float
    matmul_droop: float
    host: float
    collective_bytes_per_s: float
    collective_half_bytes: float
    all_reduce_bytes_per_s: float


class StackConstants(BaseModel):
    """What a software stack adds; fields as in profiles/stacks.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stack: str
    hbm_efficiency: float
    fabric_efficiency: float
    link_efficiency: float
    elementwise: float
    attention: float
    attention_hopper: float
    clock: float
    small_batch_tokens: float
    tp_exposed: float
    tp_overlap: bool
    tp_bandwidth: float
    tp_latency_s: float
    cp_exposed: float
    p2p_exposed: float
    p2p_latency_s: float
    dp_overlap: float
    fsdp_fabric: float
    fsdp_link: float
    fsdp_overlap: float
    fsdp_contention: float
    fsdp_latency_s: float
    hop_latency_s: float
    ep_exposed: float
    ep_dedup: bool
    host_layer_s: float
    host_moe_layer_s: float
    layer_overhead_s: float
    expert_overhead_s: float
    expert_power: float
    microbatch_overhead_s: float
    step_overhead_s: float
    optimizer_bytes: float
    parameter_update_bytes: float
    scale_loss: float
    accumulate_bytes: float
    alignment_loss: float
    unfused_rate: float
    score_bytes: float
    head_alignment_loss: float
    odd_head_loss: float
    latent_attention: float
    cast_fp8_bytes: float
    cast_fp8_row_bytes: float
    cast_fp8_block_bytes: float
    cast_mxfp8_bytes: float
    cast_nvfp4_bytes: float
    fp8_row_rate: float
    fp8_block_rate: float
    logit_bytes: float
    embedding_bytes: float
    routed_bytes: float
    expert_activation_bytes: float
    expert_bias_bytes: float
    grouped_efficiency: float
    grouped_half_rows: float
    expert_16bit_share: float
    ep_exposed_alltoall: float
    ep_exposed_overlapped: float
    etp_exposed: float
    host_tp: float
    host_latent: float
    host_graph_partial: float
    host_graph_full: float
    host_static: float
    release_loss: float
    release_decay_years: float
    p2p_plain_exposed: float
    tensor_hop_s: float
    offloaded_parameter_s: float
    gradient_bytes: int
    expected_error: float


class Profile(BaseModel):
    """The constants that one estimate uses."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    gpu: GpuRates
    stack: StackConstants
    measured: bool
    """False where no training run of this GPU was ever fitted."""
    memory: MemoryOptions
    software: Software = Software()

    # What the software's switches make of the constants.

    @property
    def release(self) -> float:
        """Slowdown of an older release: it decays towards the newest fitted ones."""
        year = self.software.released
        if year is None:
            return 1.0
        age = max(year, RELEASE_YEAR) - RELEASE_YEAR
        return 1 + self.stack.release_loss * math.exp(-age / self.stack.release_decay_years)

    @property
    def attention(self) -> float:
        """Attention rate relative to the GPU's curve."""
        hopper = 1.0 if self.gpu.family in BEFORE_HOPPER else self.stack.attention_hopper
        return self.stack.attention * hopper

    @property
    def tp_exposed(self) -> float:
        """Share of tensor-parallel traffic on the critical path."""
        stated = self.software.tp_overlap
        overlaps = self.stack.tp_overlap if stated is None else stated
        overlaps = overlaps and self.software.sequence_parallel
        return self.stack.tp_exposed if overlaps else 1.0

    @property
    def dp_overlap(self) -> float:
        """Share of data-parallel traffic that may hide under the passes."""
        return self.stack.dp_overlap if self.software.dp_overlap else 0.0

    @property
    def deduplicated(self) -> bool:
        """Whether dispatch sends a token once to a rank or domain."""
        stated = self.software.deduplicated
        return self.stack.ep_dedup if stated is None else stated

    @property
    def ep_exposed(self) -> float:
        """Share of dispatch and combine on the critical path."""
        if self.software.ep_overlap:
            return self.stack.ep_exposed_overlapped
        return self.stack.ep_exposed if self.deduplicated else self.stack.ep_exposed_alltoall

    @property
    def _graphs(self) -> float:
        """Launch time left by captured graphs."""
        return {
            "none": 1.0,
            "partial": self.stack.host_graph_partial,
            "full": self.stack.host_graph_full,
        }[self.software.cuda_graphs]

    @property
    def host_layer_s(self) -> float:
        """Launch time of a dense layer's forward."""
        return self.stack.host_layer_s * self._graphs

    @property
    def host_moe_layer_s(self) -> float:
        """Launch time of a mixture layer's forward; partial graphs cover about half of it."""
        graphs = self._graphs
        if self.software.cuda_graphs == "partial":
            graphs = (1 + graphs) / 2
        static = self.stack.host_static if self.software.static_routing else 1.0
        return self.stack.host_moe_layer_s * graphs * static

    def expert_overhead_s(self, precision: Precision) -> float:
        """Time for the local experts that nothing hides: casts are launched one by one."""
        plain = self.stack.expert_16bit_share if precision in ("bf16", "fp16") else 1.0
        full = self.software.cuda_graphs == "full"
        return self.stack.expert_overhead_s * plain * (self.stack.host_graph_full if full else 1.0)

    def cast_bytes(self, precision: Precision) -> float:
        """Traffic of casting one element to a precision, both layouts."""
        stack = self.stack
        scaled = {
            "tensor": stack.cast_fp8_bytes,
            "row": stack.cast_fp8_row_bytes,
            "block": stack.cast_fp8_block_bytes,
        }
        return {
            "bf16": 0.0,
            "fp16": 0.0,
            "fp8": scaled[self.software.fp8_scaling],
            "mxfp8": stack.cast_mxfp8_bytes,
            "nvfp4": stack.cast_nvfp4_bytes,
        }[precision]

    @property
    def scaling_rate(self) -> float:
        """Rate of 8-bit products relative to one scale a tensor."""
        return {
            "tensor": 1.0,
            "row": self.stack.fp8_row_rate,
            "block": self.stack.fp8_block_rate,
        }[self.software.fp8_scaling]


FRAMEWORK_STACK = {"megatron": "megatron-core", "fsdp": "torchtitan"}
"""The stack whose profile a framework takes by default."""


@cache
def _read(name: str) -> dict[str, Any]:
    text = resources.files(__package__).joinpath("profiles", name).read_text("utf-8")
    data: dict[str, Any] = yaml.safe_load(text)
    return data


def stacks() -> tuple[str, ...]:
    """Names of the stacks that have a profile."""
    return tuple(_read("stacks.yaml")["stacks"])


@cache
def load_profile(stack: str, gpu_id: str) -> Profile:
    """Return the profile of a stack on a GPU.

    Raises
    ------
    InputError
        Where no such stack is known.
    """
    data = _read("stacks.yaml")
    if stack not in data["stacks"]:
        raise InputError(
            Problem(
                "--profile", 0, 0, "profile", "SP120", f"no profile {stack!r}.",
                f"Known profiles: {', '.join(stacks())}.",
            )
        )  # fmt: skip
    families = _read("gpus.yaml")["families"]
    family = next((f for f, v in families.items() if gpu_id in v["gpus"]), "unmeasured")
    rates = {k: v for k, v in families[family].items() if k != "gpus"}
    return Profile(
        name=f"{stack}/{family}",
        gpu=GpuRates(family=family, **rates),
        stack=StackConstants(stack=stack, **{**data["shared"], **data["stacks"][stack]}),
        measured=family != "unmeasured",
        memory=memory_options(stack),
    )
