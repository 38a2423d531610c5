"""Lists of impostors on a GPU: the products and comparisons of ``impostors.py``, a block at a time.

A GPU may sum products in float32 in another order. The bound of ``impostors.py`` covers any order, and rows listed
in addition add nothing to the loss, so the learned metric is the same to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class GpuImpostors:
    """Rows on a GPU, and the threshold at which others are listed.

    Parameters
    ----------
    Z, half_squares : (n_rows, n_components) and (n_rows,) float32
    bars : for each row that gets a list, the least product, less half a square, of a row that is listed
    """

    def __init__(self, torch: Any, device: str, Z: np.ndarray, half_squares: np.ndarray, bars: np.ndarray) -> None:
        self._torch = torch
        self._Z, self._half_squares, self._bars = (
            torch.from_numpy(numbers).to(device) for numbers in (Z, half_squares, bars)
        )
        self._columns = torch.arange(len(Z), device=device)

    def listed(
        self, block: slice, rows: np.ndarray, starts: np.ndarray, stops: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where the list of each of the ``rows`` ends, and the rows listed, one list after the other."""
        torch, device = self._torch, self._Z.device
        rows_on_gpu, starts_on_gpu, stops_on_gpu = (
            torch.from_numpy(numbers).to(device)[:, None] for numbers in (rows, starts, stops)
        )
        products = _in_float32(torch, self._Z[rows_on_gpu[:, 0]], self._Z)
        near = ~(products - self._half_squares < self._bars[block, None])  # what overflowed is listed
        near &= (self._columns < starts_on_gpu) | (self._columns >= stops_on_gpu)
        ends = near.sum(dim=1).cumsum(0).cpu().numpy()
        return ends, near.nonzero()[:, 1].to(torch.int32).cpu().numpy()


def _in_float32(torch: Any, A: Any, B: Any) -> Any:
    """A Bᵀ in full float32 precision, whatever the global setting of torch."""
    if A.device.type != "cuda":
        return A @ B.T
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        return A @ B.T
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
