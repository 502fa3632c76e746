"""How often a run fails, and what a failure and a checkpoint cost it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

FAILURES = 3.79
"""Failures per 1,000 node-days: 419 unexpected interruptions of 2,048 nodes in 54 days (Llama 3,
arXiv 2407.21783, table 5). Meta's research clusters saw 2.34 and 6.50 (arXiv 2410.21680)."""

NODE_BYTES_PER_S = 1.2e9
"""Checkpoint bandwidth of a node: BLOOM-176B wrote 2.3 TB from 48 nodes in 40 s
(stas00/ml-engineering, training/fault-tolerance)."""

RESTART_S = 600.0
"""Time to notice a failure and be back: the repair time of the worked example of
changlan.org/posts/optimal-checkpointing."""

MAX_FAILURES = 1e6
"""A thousand failures a node and day: more is a slip."""

MAX_S = 1e7
MAX_BYTES = 1e18
"""Bytes, and bytes a second."""


class Reliability(BaseModel):
    """Failures, checkpoints and restarts of a run.

    Attributes
    ----------
    failures
        Failures per 1,000 node-days.
    interruptions
        Spot or maintenance interruptions per 1,000 node-days, besides the failures.
    restart_s
        Seconds from a failure until training goes on from the last checkpoint.
    checkpoint_bytes
        Size of a checkpoint; None takes weights, master copy and moments of what is trained.
    bytes_per_s
        Bandwidth of the whole file system; None leaves it to the nodes.
    node_bytes_per_s
        Bandwidth of one node.
    interval_s
        Seconds of training between checkpoints; None takes Young's optimum.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    failures: float = Field(default=FAILURES, ge=0, le=MAX_FAILURES)
    interruptions: float = Field(default=0.0, ge=0, le=MAX_FAILURES)
    restart_s: float = Field(default=RESTART_S, ge=0, le=MAX_S)
    checkpoint_bytes: float | None = Field(default=None, gt=0, le=MAX_BYTES)
    bytes_per_s: float | None = Field(default=None, gt=0, le=MAX_BYTES)
    node_bytes_per_s: float = Field(default=NODE_BYTES_PER_S, gt=0, le=MAX_BYTES)
    interval_s: float | None = Field(default=None, gt=0, le=MAX_S)
