"""Count the bytes of live storages while operations run: fake tensors have sizes, and no data."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.weak import WeakIdKeyDictionary


class AllocationMode(TorchDispatchMode):
    """Adds up storages from their first sight to their end.

    Attributes
    ----------
    live, peak
        Bytes now, and the most so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._seen = WeakIdKeyDictionary(ref_type=weakref.ref)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and look at what it returns."""
        out = func(*args, **(kwargs or {}))
        tree_map_only(torch.Tensor, self._see, out)
        return out

    def _see(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage not in self._seen:
            size = storage.nbytes()
            self._seen[storage] = size
            weakref.finalize(storage, self._gone, size)
            self.live += size
            self.peak = max(self.peak, self.live)
        return tensor

    def _gone(self, size: int) -> None:
        self.live -= size
