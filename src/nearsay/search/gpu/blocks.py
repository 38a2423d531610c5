"""Rows that do not fit into GPU memory: they stay in pinned main memory and are copied block by block.

main memory   block 0   block 1   block 2   …
                 └─────────┐
GPU           block 0 searched │ block 1 being copied      copies overlap with the arithmetic
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nearsay.search.gpu.rows import TILE, GpuRows, gpu_bytes

# The share of free memory that rows may take: lists and lowest scores need the rest.
SHARE_FOR_ROWS = 0.7
# Blocks on the GPU at a time: one being searched, one being copied, one being freed.
BLOCKS_HELD = 3


def free_bytes(torch: Any, device: Any) -> int:
    """Free memory of the GPU; unlimited on the CPU, where the rows are anyway."""
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else sys.maxsize


def rows_at_once(torch: Any, device: Any, X: np.ndarray, free: int | None = None) -> int:
    """How many of these rows are copied together: all if they fit, otherwise whole tiles."""
    available = SHARE_FOR_ROWS * (free_bytes(torch, device) if free is None else free)
    needed = gpu_bytes(X)
    if needed <= available or len(X) <= TILE:
        return len(X)
    most = int(available / BLOCKS_HELD / needed * len(X)) // TILE * TILE
    size = max(TILE, most)
    warnings.warn(
        f"The rows take {needed / (1 << 30):.1f} GiB on the GPU, of which {available / (1 << 30):.1f} are free."
        f" They stay in main memory and are copied to the GPU in {-(-len(X) // size)} blocks with every search, which"
        " takes longer. Ask many queries at a time, or free memory of the GPU.",
        stacklevel=2,
    )
    return size


def kept_on_host(rows: GpuRows) -> GpuRows:
    """The same rows in main memory, pinned where a GPU will copy them."""

    def moved(tensor: Any) -> Any:
        if tensor is None or tensor.device.type == "cpu":
            return tensor
        return tensor.cpu().pin_memory()

    return _with_tensors(rows, moved)


def on_gpu_in_turn(torch: Any, device: Any, parts: Sequence[GpuRows]) -> Iterator[GpuRows]:
    """All parts on the GPU, one after the other; the next is copied while one is searched."""
    if all(part.halves.device.type == device.type for part in parts):
        yield from parts
        return
    copying = torch.cuda.Stream(device)
    copied = _start_copy(torch, parts[0], device, copying)
    searched = None
    for number in range(len(parts)):
        part, arrived = copied
        torch.cuda.current_stream(device).wait_event(arrived)
        if searched is not None:
            searched.synchronize()  # frees the memory of the part before
        if number + 1 < len(parts):
            copied = _start_copy(torch, parts[number + 1], device, copying)
        yield part
        searched = torch.cuda.Event()
        searched.record(torch.cuda.current_stream(device))


def _start_copy(torch: Any, part: GpuRows, device: Any, copying: Any) -> tuple[GpuRows, Any]:
    using, arrived = torch.cuda.current_stream(device), torch.cuda.Event()

    def moved(tensor: Any) -> Any:
        if tensor is None:
            return None
        copy = tensor.to(device, non_blocking=True)
        copy.record_stream(using)
        return copy

    with torch.cuda.stream(copying):
        on_gpu = _with_tensors(part, moved)
        arrived.record(copying)
    return on_gpu, arrived


def _with_tensors(rows: GpuRows, moved: Any) -> GpuRows:
    names = ("halves", "half_norms", "errors", "lengths", "exact")
    return replace(rows, **{name: moved(getattr(rows, name)) for name in names})
