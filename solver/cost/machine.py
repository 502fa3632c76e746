"""The machine as the cost model sees it: sustained rates, and the link that a group runs over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topology.cluster import NodeGroup
from topology.levels import levels, members_per_domain, spanned_level

from ..job.recipe import Precision
from .profile import Profile
from .ticks import FloatArray, IntArray


@dataclass(frozen=True)
class Reach:
    """How far groups spread.

    Attributes
    ----------
    level
        Index of the innermost level that holds a group.
    together
        Members in one domain.
    """

    level: IntArray
    together: IntArray


@dataclass(frozen=True)
class Machine:
    """A node group with a profile.

    Attributes
    ----------
    group
        Node type, counts and links.
    profile
        Fitted constants for its GPU and the software stack.
    """

    group: NodeGroup
    profile: Profile

    @property
    def hbm_bytes_per_s(self) -> float:
        """Memory bandwidth that elementwise kernels reach."""
        return self.group.gpu.hbm_bytes_per_s * self.profile.stack.hbm_efficiency

    @property
    def peak_flops(self) -> float:
        """Dense 16-bit peak, FLOP/s."""
        peaks = self.group.gpu.peak_flops
        return peaks.get("bf16") or peaks["fp16"]

    def matmul_flops(self, precision: Precision) -> float:
        """Sustained rate of large matrix products, FLOP/s; 0 where the GPU cannot."""
        rates, peaks = self.profile.gpu, self.group.gpu.peak_flops
        share, peak = {
            "bf16": (rates.matmul_16bit_efficiency, self.peak_flops),
            "fp16": (rates.matmul_16bit_efficiency, self.peak_flops),
            "fp8": (
                rates.matmul_8bit_efficiency * self.profile.scaling_rate, peaks.get("fp8", 0.0)
            ),
            "mxfp8": (rates.matmul_mx8_efficiency, peaks.get("fp8", 0.0)),
            "nvfp4": (rates.matmul_4bit_efficiency, peaks.get("fp4", 0.0)),
        }[precision]  # fmt: skip
        return share * peak * self.profile.stack.clock

    @property
    def domain(self) -> int:
        """GPUs that share an NVLink (or PCIe) domain."""
        return int(levels(self.group)[0].gpus)

    @property
    def link_bytes_per_s(self) -> FloatArray:
        """Ring bandwidth of a collective inside a domain, per GPU and direction.

        The measured curve's large-message value, scaled when the cluster's links differ from the
        GPU's reference; where nothing was measured, a share of the link.
        """
        inner, rates = levels(self.group)[0].bytes_per_s, self.profile.gpu
        reference = self.group.gpu.nvlink_bytes_per_s
        measured = (
            rates.collective_bytes_per_s * inner / reference if reference > 0 else float("inf")
        )
        rate: FloatArray = np.minimum(measured, inner * self.profile.stack.link_efficiency)
        return rate

    def reach(
        self, ranks: IntArray, stride: IntArray, used: IntArray,
        inner: tuple[IntArray, IntArray] | None = None,
    ) -> Reach:  # fmt: skip
        """Return how far groups of ``ranks`` of the ``used`` GPUs spread; arrays broadcast.

        With ``inner``, each of the ``ranks`` stands for a block of so many ranks at such a stride
        that belong to the group too.
        """
        level = spanned_level(self.group, ranks, stride, used)
        together = members_per_domain(ranks, stride, self.domain, used)
        if inner is not None:
            level = np.maximum(level, spanned_level(self.group, *inner, used))
            close = members_per_domain(*inner, self.domain, used)
            together = np.where(close == inner[0], close * together, close)
        return Reach(level, together)

    def bytes_per_s(self, reach: Reach, *, fabric: float, link: float = 1.0) -> FloatArray:
        """Ring bandwidth per member of groups that spread so far.

        A ring leaves a domain once for all of its members there, so that their NICs work together:
        the NIC rate times the members per domain, held to the link inside. ``fabric`` and ``link``
        are the shares of NIC and link rate that the traffic reaches.
        """
        rates = np.array([level.bytes_per_s for level in levels(self.group)])
        inside = self.link_bytes_per_s * link
        outside = rates[reach.level] * fabric * reach.together
        return np.asarray(np.minimum(inside, np.where(reach.level == 0, np.inf, outside)))

    def level_in_use(self, gpus: IntArray) -> IntArray:
        """Return the index of the innermost level that holds so many GPUs."""
        sizes = [level.gpus for level in levels(self.group)[:-1]]
        return np.asarray(np.searchsorted(sizes, gpus), np.int64)
