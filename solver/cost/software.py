"""Switches of a software stack that change its times."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Schedule = Literal["1f1b", "zb-h1", "zb-1p", "zb-2p"]
CudaGraphs = Literal["none", "partial", "full"]
CpComm = Literal["ring", "all_to_all"]
Scaling = Literal["tensor", "row", "block"]


class Software(BaseModel):
    """Switches of a software stack that the constants depend on; what a run states, or the default.

    The defaults are what a current release does when nothing else is asked of it.

    Attributes
    ----------
    released
        Year of the release, with its fraction; None for a current one.
    sequence_parallel
        Norms and residuals are split over the tensor ranks too.
    tp_overlap, dp_overlap
        Tensor-parallel collectives run under the matrix products (None takes the stack's default),
        data-parallel ones under the passes.
    ep_overlap
        Dispatch and combine of one micro-batch run under the compute of another.
    deduplicated
        Dispatch sends a token once to a rank or NVLink domain (DeepEP, HybridEP), not once for
        each of its experts; None takes the stack's.
    static_routing
        Tokens beyond a capacity are dropped, so that no shape waits for the router.
    cuda_graphs
        Captured kernels: none, those of some modules, or the full iteration.
    fp8_scaling
        What shares one scale in ``fp8``.
    recompute_modules
        What selective recomputation repeats: ``core_attn mla_up_proj moe_act layernorm mlp moe``,
        or ``operators``: every other product and all elementwise kernels (operator-level
        checkpointing as torchtitan does it).
    cp_comm
        Context parallelism passes keys and values round a ring, or exchanges heads for sequence.
    schedule
        Order of a pipeline's passes: 1F1B (interleaved with virtual stages), ZB-H1, or what a
        zero-bubble stack finds with the memory of 1F1B or twice that.
    offloaded_optimizer
        Optimizer states live on the host and are updated there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    released: float | None = None
    sequence_parallel: bool = True
    tp_overlap: bool | None = None
    dp_overlap: bool = True
    ep_overlap: bool = False
    deduplicated: bool | None = None
    static_routing: bool = False
    cuda_graphs: CudaGraphs = "none"
    fp8_scaling: Scaling = "tensor"
    recompute_modules: tuple[str, ...] = ("core_attn",)
    cp_comm: CpComm = "ring"
    schedule: Schedule = "1f1b"
    offloaded_optimizer: bool = False
