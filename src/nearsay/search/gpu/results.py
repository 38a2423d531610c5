"""Results of a card in arrays of the host: those of one batch are copied beside the arithmetic of the next.

card   batch 0 │ batch 1 │ batch 2 …        what was found is copied by itself into pinned memory,
host           └ 0 copied └ 1 copied …      and from there to its place, while the card goes on
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.core.parallel import in_parallel
from nearsay.errors import require

# Bytes of a large result that are on their way at once, and those that a thread puts in their place at a time.
PART, SHARE = 32 << 20, 1 << 20
# Bytes of a result that may stay in pinned memory.
PINNED = 256 << 20


class Results:
    """Tensors on their way to arrays. The last ones have arrived after ``finish``."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.torch, self.device = torch, device
        self._copying = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._on_the_way: tuple[Any, list[Any], Sequence[np.ndarray]] | None = None

    def bring(self, tensors: Sequence[Any], arrays: Sequence[np.ndarray]) -> None:
        """Copy each tensor into the array of its shape; it may be written to its place with the next call only."""
        torch = self.torch
        if self._copying is None:
            for tensor, array in zip(tensors, arrays, strict=True):
                torch.from_numpy(array).copy_(tensor)
            return
        self._copying.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._copying):
            staged = [torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True) for tensor in tensors]
            for tensor, there in zip(tensors, staged, strict=True):
                there.copy_(tensor, non_blocking=True)
                tensor.record_stream(self._copying)  # its memory is not given to others before it is copied
            arrived = torch.cuda.Event()
            arrived.record(self._copying)
        self.finish()
        self._on_the_way = arrived, staged, arrays

    def finish(self) -> None:
        """Wait for what is on its way, and put it in its place."""
        if self._on_the_way is None:
            return
        arrived, staged, arrays = self._on_the_way
        self._on_the_way = None
        arrived.synchronize()
        for there, array in zip(staged, arrays, strict=True):
            _copy(there.numpy(), array)


def brought(tensor: Any) -> np.ndarray:
    """A tensor as an array of the host.

    One that is not too large stays in the pinned memory that it was copied to, which is used again when nobody holds
    the array any more; others are copied on, some lines at a time.
    """
    torch = require("torch", "torch")
    if tensor.device.type != "cuda":
        return np.array(tensor.numpy())
    if tensor.nbytes <= PINNED:
        there = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        there.copy_(tensor, non_blocking=True)
        torch.cuda.current_stream(tensor.device).synchronize()
        return np.asarray(there.numpy())
    array = np.empty(tensor.shape, torch.empty(0, dtype=tensor.dtype).numpy().dtype)
    results = Results(torch, tensor.device)
    for part in row_blocks(len(array), size=max(1, PART // max(1, array[:1].nbytes))):
        results.bring([tensor[part]], [array[part]])
    results.finish()
    return array


def _copy(given: np.ndarray, array: np.ndarray) -> None:
    """Memory that nobody has touched yet is slow to write to: several threads do so at a time."""

    def copy(part: slice) -> None:
        array[part] = given[part]

    in_parallel(copy, row_blocks(len(array), size=max(1, SHARE // max(1, array[:1].nbytes))))
