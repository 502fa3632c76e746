"""What one parameter costs in memory during training."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Precision = Literal["bf16", "fp16", "fp8", "mxfp8", "nvfp4"]
PRECISIONS: tuple[Precision, ...] = ("bf16", "fp16", "fp8", "mxfp8", "nvfp4")
OPTIMIZERS = ("adamw",)


class Recipe(BaseModel):
    """Mixed-precision training recipe, in bytes a parameter.

    The defaults are Megatron-Core's bf16 mixed precision: 16-bit weights, fp32 main gradients, an
    fp32 master copy and two fp32 Adam moments, 18 bytes in all before sharding
    (NVIDIA/Megatron-LM, megatron/core/optimizer, distributed optimizer table in its docs).
    With fp8, mxfp8 and nvfp4 the GEMMs run in low precision and the stored weights stay 16-bit.

    Attributes
    ----------
    precision
        Number format of the GEMMs.
    optimizer
        Optimizer that the moments belong to.
    weight_bytes, grad_bytes, master_bytes, moment_bytes
        Bytes a parameter.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    precision: Precision = "bf16"
    optimizer: Literal["adamw"] = "adamw"
    weight_bytes: float = Field(default=2, ge=0, le=16)
    grad_bytes: float = Field(default=4, ge=0, le=16)
    master_bytes: float = Field(default=4, ge=0, le=16)
    moment_bytes: float = Field(default=8, ge=0, le=16)

    def state_bytes(self) -> float:
        """Bytes that one parameter needs before sharding: weights, gradients and optimizer."""
        return self.weight_bytes + self.grad_bytes + self.optimizer_bytes()

    def optimizer_bytes(self) -> float:
        """Bytes of master copy and moments a parameter."""
        return self.master_bytes + self.moment_bytes
