"""What each stage of one layout may be: layers, recomputation, and what these cost in integers.

Here every stage stands for itself, so that layers and recomputed layers may differ from stage to
stage; the figures come from the same cost model as those of stage classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from .calibrated import Calibrated
from .figures import Figures
from .itemise import Slot
from .schedule import pipeline_grains
from .shapes import Shapes, Shardings
from .stage_times import StageTimes
from .stages import CLASSES, FIRST, HEAVY, LAST, Stages, dense_layers
from .ticks import BoolArray, FloatArray, IntArray, grains, mebibytes


@dataclass(frozen=True)
class StageOptions:
    """Alternatives of one stage, one array of shape (O,) a field.

    Attributes
    ----------
    layers, recomputed
        Layers, and those of them that are recomputed in full on top of the kind.
    kind
        Recomputation of the other layers, an index into the cost model's kinds.
    pace, share, tail, sent, compute
        Grains as in ``tables.Tables``, of this stage alone.
    memory
        Need in MiB.
    row
        Row of ``source`` that holds the unrounded figures.
    source, stage, column
        Figures with their stages, the stage class in them, and the sharding column.
    """

    layers: IntArray
    recomputed: IntArray
    kind: IntArray
    pace: IntArray
    share: IntArray
    tail: IntArray
    sent: IntArray
    compute: IntArray
    memory: IntArray
    row: IntArray
    source: tuple[Calibrated, Figures, Stages]
    stage: int
    column: int

    def __len__(self) -> int:
        """Return the number of alternatives."""
        return len(self.layers)

    def take(self, rows: IntArray | BoolArray) -> StageOptions:
        """Return some of the alternatives."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        kept: dict[str, Any] = {n: v[rows] for n, v in arrays.items() if isinstance(v, np.ndarray)}
        return replace(self, **kept)

    def slot(self, option: int) -> Slot:
        """Return the entry of the cost model's figures, for itemising."""
        model, figures, stages = self.source
        row, kind = int(self.row[option]), int(self.kind[option])
        return Slot(model, figures, stages, (row, self.stage), kind, self.column)


@dataclass(frozen=True)
class Position:
    """A stage of a pipeline: its index, how many there are, and the layers that it may hold."""

    index: int
    stages: int
    layers: tuple[int, ...]

    @property
    def stage(self) -> int:
        """Stage class that has the same embedding and head."""
        if self.index == 0:
            return FIRST
        return LAST if self.index == self.stages - 1 else HEAVY


def stage_options(
    model: Calibrated, shape: Shapes, columns: Shardings, positions: Sequence[Position],
    boundary_s: FloatArray | None = None,
) -> list[list[StageOptions]]:  # fmt: skip
    """Price every alternative of some stages of one layout, for each sharding.

    Parameters
    ----------
    model
        Cost model of the GPUs that hold these stages.
    shape, columns
        One layout and its shardings; arrays of one row.
    positions
        The stages.
    boundary_s
        Seconds that each position waits for its neighbours beyond what the model itself says.

    Returns
    -------
    For each sharding the alternatives of each stage.
    """
    per_stage = [_alternatives(model, shape, position) for position in positions]
    offsets = np.cumsum([0, *(len(layers) for layers, _ in per_stage)])
    extra = np.zeros(len(positions)) if boundary_s is None else boundary_s
    stages, many = _stages(model, shape, positions, per_stage)
    repeated = (getattr(columns, f.name).repeat(len(many), 0) for f in fields(columns))
    figures = model.figures(many, stages, Shardings(*repeated))
    wait = np.repeat(extra, np.diff(offsets))[:, None, None]
    if wait.any():
        figures = replace(figures, times=_waiting(figures, wait))
    rounded = _Rounded.of(model, figures, stages)
    return [
        [
            rounded.options(position.stage, int(offsets[i]), int(offsets[i + 1]), column)
            for i, position in enumerate(positions)
        ]
        for column in range(columns.zero.shape[1])
    ]


def _alternatives(
    model: Calibrated, shape: Shapes, position: Position
) -> tuple[IntArray, IntArray]:
    """Return layers and recomputed layers of every alternative; virtual stages recompute alike."""
    layers: list[int] = []
    recomputed: list[int] = []
    for count in position.layers:
        most = count if "full" in model.kinds else 0
        again = range(0, most + 1, int(shape.vpp[0]))
        layers += [count] * len(again)
        recomputed += again
    return np.array(layers, np.int64), np.array(recomputed, np.int64)


def _stages(
    model: Calibrated, shape: Shapes, positions: Sequence[Position],
    per_stage: Sequence[tuple[IntArray, IntArray]],
) -> tuple[Stages, Shapes]:  # fmt: skip
    """Lay every alternative out as a row in which its own stage class is the only one."""
    counts = [len(layers) for layers, _ in per_stage]
    stage = np.repeat([p.stage for p in positions], counts)
    one = np.arange(CLASSES)[None, :] == stage[:, None]
    layers = one * np.concatenate([layers for layers, _ in per_stage])[:, None]
    recomputed = one * np.concatenate([again for _, again in per_stage])[:, None]
    index = one * np.repeat([p.index for p in positions], counts)[:, None]
    alone = positions[0].stages == 1
    dense = dense_layers(model.job.transformer, layers)
    embedding, head = one & (stage == FIRST)[:, None], one & (stage == LAST)[:, None]
    stages = Stages(
        dense, layers - dense, one.astype(np.int64), index,
        embedding, embedding if alone else head, recomputed,
    )  # fmt: skip
    return stages, shape.take(np.zeros(len(stage), np.int64))


def _waiting(figures: Figures, wait: FloatArray) -> StageTimes:
    """Add to the pipeline's traffic what a slower neighbour costs."""
    times = figures.times
    exposed = {**times.exposed, "pp": times.exposed["pp"] + wait}
    total = {**times.total, "pp": times.total["pp"] + wait}
    return replace(times, exposed=exposed, total=total)


@dataclass(frozen=True)
class _Rounded:
    """Figures of all rows in the search's integers, (N, 4, K, Z)."""

    source: tuple[Calibrated, Figures, Stages]
    numbers: dict[str, IntArray]

    @staticmethod
    def of(model: Calibrated, figures: Figures, stages: Stages) -> _Rounded:
        shapes, microbatch = figures.shapes, figures.microbatch
        full = np.broadcast_shapes(microbatch.shape, figures.tail.shape)
        entry = (slice(None), None, None, None)
        pace, share = pipeline_grains(
            np.broadcast_to(microbatch, full), np.ones(full, np.int64),
            model.fill(shapes)[entry], shapes.microbatches[entry], figures.spared,
        )  # fmt: skip
        whole = (slice(None), slice(None))
        sent = figures.sent(model.limits.comm_metric, whole)
        need = figures.items.need(model.host_share(shapes))
        once = shapes.microbatches[:, None] * (figures.times.forward + figures.times.backward)
        numbers = {
            "pace": pace,
            "share": share,
            "tail": grains(np.broadcast_to(figures.tail, full)),
            "sent": grains(np.broadcast_to(sent, full)),
            "compute": np.broadcast_to(grains(once)[..., None, None], full),
            "memory": mebibytes(np.broadcast_to(need, full)),
        }
        return _Rounded((model, figures, stages), numbers)

    def options(self, stage: int, start: int, end: int, column: int) -> StageOptions:
        """Return the alternatives of one stage: its rows by every kind, repeats left out."""
        model, _, stages = self.source
        rows = np.arange(start, end)
        row, kind = (a.ravel() for a in np.meshgrid(rows, range(len(model.kinds)), indexing="ij"))
        layers, again = stages.layers[row, stage], stages.recomputed[row, stage]
        full = model.kinds.index("full") if "full" in model.kinds else -1
        kept = (kind != full) | (again == 0)
        row, kind, layers, again = row[kept], kind[kept], layers[kept], again[kept]
        numbers = {n: values[row, stage, kind, column] for n, values in self.numbers.items()}
        return StageOptions(
            layers=layers, recomputed=again, kind=kind, row=row, source=self.source, stage=stage,
            column=column, **numbers,
        )  # fmt: skip
