"""Shapes: the degrees of many candidate layouts as parallel arrays.

A shape fixes everything but the sharding (ZeRO stage and group) and the recomputation, which are
the choices made inside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from .ticks import BoolArray, IntArray


@dataclass(frozen=True)
class Shapes:
    """Degrees of N layouts, one array of shape (N,) a field.

    Attributes
    ----------
    gpus, held
        GPUs used, and GPUs paid for (whole nodes).
    tp, pp, vpp, cp, ep, etp, dp
        Degrees; ``tp * cp * dp * pp == gpus``. Experts are spread over ``ep * etp`` of the
        ``tp * cp * dp`` ranks of a stage.
    micro_batch
        Sequences in one micro-batch.
    microbatches
        Micro-batches a pipeline runs in one step (gradient accumulation).
    order
        Index into ``topology.placement.ORDERS``: 0 has the stages of a pipeline outermost, 1 the
        data-parallel replicas.
    """

    gpus: IntArray
    held: IntArray
    tp: IntArray
    pp: IntArray
    vpp: IntArray
    cp: IntArray
    ep: IntArray
    etp: IntArray
    dp: IntArray
    micro_batch: IntArray
    microbatches: IntArray
    order: IntArray

    def __len__(self) -> int:
        """Return the number of shapes."""
        return len(self.gpus)

    def take(self, rows: IntArray | BoolArray | slice) -> Shapes:
        """Return the chosen rows, in the order given."""
        return Shapes(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def row(self, index: int) -> dict[str, int]:
        """Return one shape as plain integers."""
        return {f.name: int(getattr(self, f.name)[index]) for f in fields(self)}

    def __iter__(self) -> Iterator[dict[str, int]]:
        """Yield each shape as plain integers."""
        return (self.row(i) for i in range(len(self)))

    @staticmethod
    def of(**degrees: int) -> Shapes:
        """Build one shape from plain integers; degrees left out are 1, the order the usual one.

        ``gpus`` and ``held`` follow from the degrees unless given.
        """
        names = [f.name for f in fields(Shapes)]
        values = {name: degrees.get(name, 1) for name in names} | {"order": degrees.get("order", 0)}
        world = values["tp"] * values["pp"] * values["cp"] * values["dp"]
        values["gpus"] = degrees.get("gpus", world)
        values["held"] = degrees.get("held", values["gpus"])
        return Shapes(**{name: np.array([values[name]], dtype=np.int64) for name in names})

    @property
    def replica_stride(self) -> IntArray:
        """Distance in ranks between data-parallel neighbours of dense layers."""
        return np.asarray(self.tp * self.cp * np.where(self.order > 0, self.pp, 1))

    @property
    def stage_stride(self) -> IntArray:
        """Distance in ranks between neighbouring stages."""
        return np.asarray(self.tp * self.cp * np.where(self.order > 0, 1, self.dp))

    @staticmethod
    def concatenate(parts: list[Shapes]) -> Shapes:
        """Join several sets of shapes."""
        return Shapes(
            **{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Shapes)}
        )


@dataclass(frozen=True)
class Shardings:
    """How states may be sharded, one array of shape (N, Z) a field.

    Attributes
    ----------
    zero
        ZeRO stage, 0–3.
    replicas
        Replica groups: 1 shards over all data-parallel ranks; above 1 is HSDP, with shard groups of
        ``dp / replicas`` ranks (times CP).
    valid
        False where the column does not exist for the shape.
    """

    zero: IntArray
    replicas: IntArray
    valid: BoolArray

    def take(self, rows: IntArray | BoolArray | slice) -> Shardings:
        """Return the chosen rows, in the order given."""
        return Shardings(self.zero[rows], self.replicas[rows], self.valid[rows])
