"""Steps of one run under many values of the constants at once, for fitting.

The cost model works on arrays of N shapes. Here the N shapes are copies of one layout, and each
constant is an array with a value for every copy, so that a whole derivative takes one evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..cost.calibrated import Calibrated
from ..cost.layer import LayerTimes, layer_times
from ..cost.shapes import Shapes, Shardings
from ..cost.shard_columns import shardings
from ..cost.step import step_seconds
from ..cost.ticks import FloatArray, IntArray
from ..job.job import Limits
from .runs import Run, column_of


class PerShape(np.ndarray[Any, np.dtype[np.float64]]):
    """Values of a constant, one a shape: they lie along the first axis of whatever they meet."""

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
    ) -> npt.NDArray[Any] | PerShape:
        """Apply ``ufunc`` with the constants turned along the first axis."""
        axes = max(np.ndim(i) for i in inputs)
        plain = all(isinstance(i, PerShape) or np.ndim(i) == 0 for i in inputs)
        turned = [
            np.asarray(i).reshape(-1, *(1,) * (axes - 1)) if isinstance(i, PerShape) else i
            for i in inputs
        ]
        result: npt.NDArray[Any] = getattr(ufunc, method)(*turned, **options)
        return result.view(PerShape) if plain else result


class _Batched(Calibrated):
    """The cost model on copies of one shape, which its constants tell apart."""

    def layers(self, shapes: Shapes) -> tuple[LayerTimes, IntArray]:
        return layer_times(self.job, self.machine, shapes), np.arange(len(shapes))


def steps(run: Run, gpu: Mapping[str, FloatArray], stack: Mapping[str, FloatArray]) -> FloatArray:
    """Predict the step, seconds, for each of N values of the constants named, shape (N,)."""
    size = len(next(iter([*gpu.values(), *stack.values()])))
    copies = np.zeros(size, np.int64)
    turned = [{k: v.view(PerShape) for k, v in part.items()} for part in (gpu, stack)]
    profile = run.profile.model_copy(
        update={
            "gpu": run.profile.gpu.model_copy(update=turned[0]),
            "stack": run.profile.stack.model_copy(update=turned[1]),
        }
    )
    model = _Batched(run.job, run.group, Limits(), run.search, profile)
    columns = shardings(run.shapes, run.group, run.search)
    one = [column_of(run, columns)]
    columns = Shardings(
        *(getattr(columns, f)[:, one][copies] for f in Shardings.__dataclass_fields__)
    )
    stages = run.stages.take(copies)
    return step_seconds(model, run.shapes.take(copies), stages, columns)
