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
        return np.asarray(np.minimum(measured, inner * self.profile.stack.link_efficiency))

    def bytes_per_s(
        self, ranks: IntArray, stride: IntArray, *, fabric: float, link: float = 1.0
    ) -> FloatArray:
        """Ring bandwidth per member of groups of ``ranks`` GPUs at ``stride``, shape (N,).

        A ring leaves a domain once for all of its members there, so that their NICs work together:
        the NIC rate times the members per domain, held to the link inside. ``fabric`` and ``link``
        are the shares of NIC and link rate that the traffic reaches.
        """
        rates = np.array([level.bytes_per_s for level in levels(self.group)])
        inside = np.full(len(ranks), self.link_bytes_per_s * link)
        spanned = spanned_level(self.group, ranks, stride)
        together = members_per_domain(ranks, stride, self.domain)
        outside = rates[spanned] * fabric * together
        return np.where(spanned == 0, inside, np.minimum(inside, outside))

    def leaves_domain(self, ranks: IntArray, stride: IntArray) -> IntArray:
        """Return 1 where a group spans more than one NVLink domain, else 0."""
        return (spanned_level(self.group, ranks, stride) > 0).astype(np.int64)
