"""Copy results from the GPU to numpy arrays; copies of one batch overlap with the arithmetic of the next.

GPU    batch 0 │ batch 1 │ batch 2 …        results are copied asynchronously into pinned memory,
host           └ 0 copied └ 1 copied …      and from there to their arrays
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.core.parallel import in_parallel
from nearsay.errors import require

# Bytes of a large result that are copied to pinned memory at once, and those that a thread copies from there.
PART, SHARE = 32 << 20, 1 << 20
# Results of up to so many bytes stay in pinned memory.
PINNED = 256 << 20


class Results:
    """Asynchronous copies of tensors to arrays; ``finish`` waits for the last."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.torch, self.device = torch, device
        self._copying = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._pending: tuple[Any, list[Any], Sequence[np.ndarray]] | None = None

    def bring(self, tensors: Sequence[Any], arrays: Sequence[np.ndarray]) -> None:
        """Copy each tensor into the array of its shape; this may end only with the next call, or ``finish``."""
        torch = self.torch
        if self._copying is None:
            for tensor, array in zip(tensors, arrays, strict=True):
                torch.from_numpy(array).copy_(tensor)
            return
        self._copying.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._copying):
            staged = [torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True) for tensor in tensors]
            for tensor, pinned in zip(tensors, staged, strict=True):
                pinned.copy_(tensor, non_blocking=True)
                tensor.record_stream(self._copying)  # its memory is not reused before it is copied
            arrived = torch.cuda.Event()
            arrived.record(self._copying)
        self.finish()
        self._pending = arrived, staged, arrays

    def finish(self) -> None:
        """Wait for pending copies."""
        if self._pending is None:
            return
        arrived, staged, arrays = self._pending
        self._pending = None
        arrived.synchronize()
        for pinned, array in zip(staged, arrays, strict=True):
            _copy(pinned.numpy(), array)


def brought(tensor: Any) -> np.ndarray:
    """A tensor as a numpy array.

    If it is not too large, the array is the pinned memory it was copied to, which is reused once the array is freed;
    larger ones are copied on, some lines at a time.
    """
    torch = require("torch", "torch")
    if tensor.device.type != "cuda":
        return np.array(tensor.numpy())
    if tensor.nbytes <= PINNED:
        pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        pinned.copy_(tensor, non_blocking=True)
        torch.cuda.current_stream(tensor.device).synchronize()
        return np.asarray(pinned.numpy())
    array = np.empty(tensor.shape, torch.empty(0, dtype=tensor.dtype).numpy().dtype)
    results = Results(torch, tensor.device)
    for part in row_blocks(len(array), size=max(1, PART // max(1, array[:1].nbytes))):
        results.bring([tensor[part]], [array[part]])
    results.finish()
    return array


def _copy(given: np.ndarray, array: np.ndarray) -> None:
    """Copy in several threads: the first write to new memory is slow."""

    def copy(part: slice) -> None:
        array[part] = given[part]

    in_parallel(copy, row_blocks(len(array), size=max(1, SHARE // max(1, array[:1].nbytes))))
