"""More rows than a card holds: they wait in main memory, and blocks of them pass over the card.

main memory   block 0   block 1   block 2   …      pinned, so that the copy engine takes them by itself
                 └─────────┐
card          block 0 searched │ block 1 on its way      the next is copied beside the arithmetic
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nearsay.search.gpu.rows import TILE, DeviceRows, bytes_on_card

# Of the free memory, what rows may take: lists and lowest scores need the rest.
SHARE_FOR_ROWS = 0.7
# Blocks there may be on the card at a time: one that is searched, one on its way, one that is being let go.
BLOCKS_THERE = 3


def free_bytes(torch: Any, device: Any) -> int:
    """Memory that is free on a device; no end of it on the CPU, where rows lie anyway."""
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else sys.maxsize


def rows_at_once(torch: Any, device: Any, X: np.ndarray) -> int:
    """How many of these rows are brought to the device together: all where they fit, and whole tiles where not."""
    there_is = SHARE_FOR_ROWS * free_bytes(torch, device)
    needed = bytes_on_card(X)
    if needed <= there_is or len(X) <= TILE:
        return len(X)
    most = int(there_is / BLOCKS_THERE / needed * len(X)) // TILE * TILE
    size = max(TILE, most)
    warnings.warn(
        f"The rows take {needed / (1 << 30):.1f} GiB on the graphics card, of which {there_is / (1 << 30):.1f} are free"
        f" for them. They stay in main memory and pass over the card in {-(-len(X) // size)} blocks with every search,"
        " which takes longer. Ask many queries at a time, or free memory of the card.",
        stacklevel=2,
    )
    return size


def kept_on_host(torch: Any, rows: DeviceRows) -> DeviceRows:
    """The same rows in main memory, pinned where a card will fetch them."""

    def moved(tensor: Any) -> Any:
        if tensor is None or tensor.device.type == "cpu":
            return tensor
        return tensor.cpu().pin_memory()

    return _with_tensors(rows, moved)


def passing(torch: Any, device: Any, parts: Sequence[DeviceRows]) -> Iterator[DeviceRows]:
    """All parts, one after the other, on the device; the next one is on its way while one is looked at."""
    if all(part.halves.device.type == device.type for part in parts):
        yield from parts
        return
    copying = torch.cuda.Stream(device)
    on_its_way = _brought(torch, parts[0], device, copying)
    let_go = None
    for number in range(len(parts)):
        part, arrived = on_its_way
        torch.cuda.current_stream(device).wait_event(arrived)
        if let_go is not None:
            let_go.synchronize()  # the memory of the part before
        if number + 1 < len(parts):
            on_its_way = _brought(torch, parts[number + 1], device, copying)
        yield part
        let_go = torch.cuda.Event()
        let_go.record(torch.cuda.current_stream(device))


def _brought(torch: Any, part: DeviceRows, device: Any, copying: Any) -> tuple[DeviceRows, Any]:
    using, arrived = torch.cuda.current_stream(device), torch.cuda.Event()

    def moved(tensor: Any) -> Any:
        if tensor is None:
            return None
        there = tensor.to(device, non_blocking=True)
        there.record_stream(using)
        return there

    with torch.cuda.stream(copying):
        there = _with_tensors(part, moved)
        arrived.record(copying)
    return there, arrived


def _with_tensors(rows: DeviceRows, moved: Any) -> DeviceRows:
    names = ("halves", "half_norms", "errors", "lengths", "exact")
    return replace(rows, **{name: moved(getattr(rows, name)) for name in names})
