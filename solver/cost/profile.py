"""Profiles: the fitted constants of a GPU and a software stack, read from data files.

Fields carry the same names as the files; what each one means stands beside it there.
"""

from __future__ import annotations

import math
from functools import cache
from importlib import resources
from typing import Any

from pydantic import BaseModel, ConfigDict

from topology.errors import InputError, Problem
from topology.packaged import packaged

from ..job.recipe import Precision
from ..job.schedules import PipelineSchedule
from .constants import GpuRates, StackConstants
from .memory.options import MemoryOptions, memory_options
from .software import Software

BEFORE_HOPPER = ("a100",)
"""Families on which attention kernels written for A100 lose nothing."""

UNMEASURED_ERROR = 0.15
RELEASE_YEAR = 2024.5
"""Release from which slowdowns of older software are counted (the first one that was fitted)."""


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

    def expected_error(self, mixture: bool) -> float:
        """Mean absolute error of a step, of a model with experts or a dense one.

        Of families of runs that the fit has not seen; a GPU without runs is taken for twice as
        uncertain, at least 15 % (families that alone had a GPU and precision, left out: 8–16 %).
        """
        error = self.stack.expected_error_moe if mixture else self.stack.expected_error
        return error if self.measured else max(2 * error, UNMEASURED_ERROR)

    def expected_difference(self, mixture: bool) -> float:
        """Mean absolute error of the ratio of two plans of one model on one cluster."""
        stack = self.stack
        return stack.expected_difference_moe if mixture else stack.expected_difference

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


def scheduled(profile: Profile, schedule: PipelineSchedule) -> Profile:
    """Return the profile of a pipeline that runs in this order."""
    software = profile.software.model_copy(update={"schedule": schedule})
    return profile.model_copy(update={"software": software})


FRAMEWORK_STACK = {"megatron": "megatron-core", "fsdp": "torchtitan"}
"""The stack whose profile a framework takes by default."""


@cache
def read_figures(name: str) -> dict[str, Any]:
    """Return a file of figures that stands in profiles/."""
    text = resources.files(__package__).joinpath("profiles", name).read_text("utf-8")
    data: dict[str, Any] = packaged(text)
    return data


def stacks() -> tuple[str, ...]:
    """Names of the stacks that have a profile."""
    return tuple(read_figures("stacks.yaml")["stacks"])


@cache
def load_profile(stack: str, gpu_id: str) -> Profile:
    """Return the profile of a stack on a GPU.

    Raises
    ------
    InputError
        Where no such stack is known.
    """
    data = read_figures("stacks.yaml")
    if stack not in data["stacks"]:
        raise InputError(
            Problem(
                "--profile", 0, 0, "profile", "SP120", f"no profile {stack!r}.",
                f"Known profiles: {', '.join(stacks())}.",
            )
        )  # fmt: skip
    families = read_figures("gpus.yaml")["families"]
    family = next((f for f, v in families.items() if gpu_id in v["gpus"]), "unmeasured")
    rates = {k: v for k, v in families[family].items() if k != "gpus"}
    return Profile(
        name=f"{stack}/{family}",
        gpu=GpuRates(family=family, **rates),
        stack=StackConstants(stack=stack, **{**data["shared"], **data["stacks"][stack]}),
        measured=family != "unmeasured",
        memory=memory_options(stack),
    )
