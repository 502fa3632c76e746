"""The ``reliability`` section of a problem file, into the model and back."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from topology.faults import checked
from topology.units import parse_bandwidth, parse_bytes, parse_duration

from .reliability import (
    FAILURES,
    MAX_BYTES,
    MAX_FAILURES,
    MAX_S,
    NODE_BYTES_PER_S,
    RESTART_S,
    Reliability,
)

_WRITTEN = WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "null"}]})
Seconds = Annotated[float, BeforeValidator(checked(parse_duration)), _WRITTEN]
Bytes = Annotated[float, BeforeValidator(checked(parse_bytes)), _WRITTEN]
Rate = Annotated[float, BeforeValidator(checked(parse_bandwidth)), _WRITTEN]


class ReliabilitySpec(BaseModel):
    """The ``reliability`` section; see :class:`solver.job.reliability.Reliability`.

    Attributes
    ----------
    failures, interruptions
        Per 1,000 node-days.
    restart
        From a failure until training goes on.
    checkpoint
        Size of a checkpoint.
    bandwidth, node_bandwidth
        Of the file system, and of a node.
    interval
        Training between checkpoints.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    failures: float = Field(default=FAILURES, ge=0, le=MAX_FAILURES, examples=[FAILURES])
    interruptions: float = Field(default=0.0, ge=0, le=MAX_FAILURES, examples=[0])
    restart: Seconds = Field(default=RESTART_S, ge=0, le=MAX_S, examples=["10min"])
    checkpoint: Bytes | None = Field(default=None, gt=0, le=MAX_BYTES, examples=["2.3TB"])
    bandwidth: Rate | None = Field(default=None, gt=0, le=MAX_BYTES, examples=["57.5GB/s"])
    node_bandwidth: Rate = Field(default=NODE_BYTES_PER_S, gt=0, le=MAX_BYTES, examples=["1.2GB/s"])
    interval: Seconds | None = Field(default=None, gt=0, le=MAX_S, examples=["1h"])


def switched(value: Any) -> Any:
    """Take ``true`` for every default and ``false`` for no failures."""
    if isinstance(value, bool):
        return {} if value else None
    return value


def or_switched(schema: dict[str, Any]) -> None:
    """Say in the JSON Schema of the field that a file may hold ``true`` or ``false`` too."""
    schema["anyOf"].append({"type": "boolean"})


def reliability_of(spec: ReliabilitySpec | None) -> Reliability | None:
    """Return what a section says."""
    if spec is None:
        return None
    return Reliability(
        failures=spec.failures,
        interruptions=spec.interruptions,
        restart_s=spec.restart,
        checkpoint_bytes=spec.checkpoint,
        bytes_per_s=spec.bandwidth,
        node_bytes_per_s=spec.node_bandwidth,
        interval_s=spec.interval,
    )


def reliability_data(given: Reliability) -> dict[str, Any]:
    """Return the section that gives this reliability."""
    data = {
        "failures": given.failures,
        "interruptions": given.interruptions,
        "restart": f"{given.restart_s!r}s",
        "checkpoint": given.checkpoint_bytes,
        "bandwidth": given.bytes_per_s,
        "node_bandwidth": given.node_bytes_per_s,
        "interval": None if given.interval_s is None else f"{given.interval_s!r}s",
    }
    return {key: value for key, value in data.items() if value is not None}
