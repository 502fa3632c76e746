"""What one parameter costs in memory during training."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

Precision = Literal["bf16", "fp16", "fp8", "mxfp8", "nvfp4"]
PRECISIONS: tuple[Precision, ...] = ("bf16", "fp16", "fp8", "mxfp8", "nvfp4")
Optimizer = Literal["adamw", "adamw16", "adamw8bit", "lion", "sgd", "muon", "adafactor"]


class OptimizerStates(NamedTuple):
    """Bytes a parameter: master copy, moments, and moments of embedding and head; moments kept."""

    master: float
    moments: float
    table_moments: float
    kept: int


STATES: dict[Optimizer, OptimizerStates] = {
    "adamw": OptimizerStates(4, 8, 8, 2),
    # Precision-aware: moments in 16 bit (Megatron-LM, --use-precision-aware-optimizer).
    "adamw16": OptimizerStates(4, 4, 4, 2),
    # Blocks of 256 values share an fp32 scale (Dettmers et al. 2022, arXiv 2110.02861; the blocks
    # are bitsandbytes').
    "adamw8bit": OptimizerStates(4, 2 * (1 + 4 / 256), 2 * (1 + 4 / 256), 2),
    # One moment (Chen et al. 2023, arXiv 2302.06675); momentum of plain gradient descent.
    "lion": OptimizerStates(4, 4, 4, 1),
    "sgd": OptimizerStates(4, 4, 4, 1),
    # One moment for matrices; tables are left to Adam (Jordan et al. 2024, kellerjordan.github.io
    # /posts/muon). Norms go with the matrices here: below 0.1 %.
    "muon": OptimizerStates(4, 4, 8, 1),
    # A row and a column of second moments for each matrix, no first one (Shazeer and Stern 2018,
    # arXiv 1804.04235): below 0.01 bytes.
    "adafactor": OptimizerStates(4, 0, 0, 1),
}
OPTIMIZERS: tuple[Optimizer, ...] = tuple(STATES)


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
    table_moment_bytes
        Moments of embedding and head; None for the same as elsewhere.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    precision: Precision = "bf16"
    optimizer: Optimizer = "adamw"
    weight_bytes: float = Field(default=2, ge=0, le=16)
    grad_bytes: float = Field(default=4, ge=0, le=16)
    master_bytes: float = Field(default=4, ge=0, le=16)
    moment_bytes: float = Field(default=8, ge=0, le=16)
    table_moment_bytes: float | None = Field(default=None, ge=0, le=16)

    @staticmethod
    def of(optimizer: Optimizer, precision: Precision = "bf16", grad_bytes: float = 4) -> Recipe:
        """Return the recipe of an optimizer."""
        states = STATES[optimizer]
        return Recipe(
            precision=precision,
            optimizer=optimizer,
            grad_bytes=grad_bytes,
            master_bytes=states.master,
            moment_bytes=states.moments,
            table_moment_bytes=None
            if states.table_moments == states.moments
            else states.table_moments,
        )

    @property
    def moments(self) -> int:
        """Moments that the optimizer keeps."""
        return STATES[self.optimizer].kept

    def state_bytes(self) -> float:
        """Bytes that one parameter needs before sharding: weights, gradients and optimizer."""
        return self.weight_bytes + self.grad_bytes + self.optimizer_bytes()

    def optimizer_bytes(self) -> float:
        """Bytes of master copy and moments a parameter."""
        return self.master_bytes + self.moment_bytes
