"""Impostors: for every row the rows of other classes within its reach.

             reach: farthest target + margin
          ├─────────────────────┤
    row i ●────────○────────────┊───────┊      ×   not listed: it cannot have come within reach
                 target         ┊ room  ┊
          └──── listed: all of other classes ────┘

Lists are made with some room, by matrix products over blocks of rows. While a map L changes, rows move; as long as none
can have come in from beyond the room, by the triangle inequality, the lists hold every impostor, and a loss summed over
them is the loss over all. (Molecular dynamics calls these Verlet lists.)

A GPU makes the lists if there is one and the lists are long enough.

A row has none or thousands of impostors, so this is a search within a radius. A search for the k nearest, with k large
enough for the most crowded row, would take ten times as long.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from nearsay.errors import require
from nearsay.search.gpu.gpu_search import fits_gpu

# Share of the reach that is added as room. More makes longer lists, less makes new ones more often.
ROOM = 0.1
# Products computed at once by a thread: 16 MB of float32.
PRODUCTS_AT_ONCE = 1 << 22
# Products, over all blocks, from which on the GPU is faster; and its name in torch.
GPU_FROM, GPU = 1 << 28, "cuda"


class Listed(NamedTuple):
    """The lists of some rows, one after the other in ``rows``: list a ends at ``ends[a]``, where the next begins."""

    ends: np.ndarray
    rows: np.ndarray


class ImpostorLists:
    """The rows of other classes that may be within reach of some rows, for a map that changes in small steps.

    Call ``follow`` for a new map, then ``of_block`` for each of the ``blocks``.

    Parameters
    ----------
    X : (n_rows, n_features), in the order of their classes, centered
    starts, stops : (n_rows,) where the class of each row starts and stops
    rows : (n_listed,) the rows that get a list
    groups : (n_rows,) rows of one group are not listed for each other; None where each is a group of its own

    Attributes
    ----------
    blocks : slices of ``rows``, small enough to be searched at once
    n_times_made : how often the lists were made
    """

    most_kept = 1 << 26  # listed rows that are cached, as int32: 256 MB; lists beyond are made again every time

    def __init__(
        self,
        X: np.ndarray,
        starts: np.ndarray,
        stops: np.ndarray,
        rows: np.ndarray,
        groups: np.ndarray | None = None,
    ) -> None:
        self._X, self._groups = X, groups
        self._rows, self._starts, self._stops = rows, starts[rows], stops[rows]
        size = max(16, min(512, PRODUCTS_AT_ONCE // len(X)))
        self.blocks = [slice(first, min(first + size, len(rows))) for first in range(0, len(rows), size)]
        self.n_times_made = 0
        self._kept: dict[int, Listed] = {}
        self._n_kept = 0
        self._keeping = Lock()
        self._made_for: np.ndarray | None = None
        self._device = GPU if len(rows) * len(X) >= GPU_FROM and fits_gpu(X) else None
        self._on_gpu: GpuImpostors | None = None

    def follow(self, L: np.ndarray, Z: np.ndarray, reach: np.ndarray) -> None:
        """Update for the rows ``Z`` = X Lᵀ, and the distance (not squared) that each row with a list reaches."""
        self._fresh = self._made_for is None or not self._still_hold(L, reach)
        if self._fresh:
            self._made_for, self._listed_within = L.copy(), (1 + ROOM) * reach
            self._kept.clear()
            self._n_kept = 0
            self.n_times_made += 1
        if len(self._kept) < len(self.blocks):
            self._prepare(Z, self._listed_within if self._fresh else reach)

    def of_block(self, number: int) -> Listed:
        """The lists of the rows in ``blocks[number]``."""
        if number in self._kept:
            return self._kept[number]
        listed = self._of_other_groups(self.blocks[number], self._make(self.blocks[number]))
        with self._keeping:
            if self._fresh and self._n_kept + len(listed.rows) <= self.most_kept:
                self._kept[number] = listed
                self._n_kept += len(listed.rows)
        return listed

    def _of_other_groups(self, block: slice, listed: Listed) -> Listed:
        """The lists without rows of the own group."""
        if self._groups is None:
            return listed
        line = np.repeat(np.arange(len(listed.ends)), np.diff(listed.ends, prepend=0))
        other = self._groups[listed.rows] != self._groups[self._rows[block]][line]
        ends = np.cumsum(np.bincount(line[other], minlength=len(listed.ends)))
        return Listed(ends.astype(listed.ends.dtype), listed.rows[other])

    def _still_hold(self, L: np.ndarray, reach: np.ndarray) -> bool:
        """Whether no unlisted row can be within reach.

        With L = s·L₀ + E, a distance |Lv| is at least s·|L₀v| − |Ev|: a change of scale alone changes no order.
        """
        before = self._made_for
        assert before is not None
        scale = max(0.0, float(np.vdot(L, before) / (np.vdot(before, before) or 1.0)))
        moved = np.sqrt(squares(self._X @ (L - scale * before).T))
        return bool((scale * self._listed_within - moved[self._rows] - moved.max() > reach).all())

    def _prepare(self, Z: np.ndarray, within: np.ndarray) -> None:
        lengths = squares(Z)
        of_rows = lengths[self._rows]
        # Products in float32 are off by less than this part of the squared sum of both lengths, twice over.
        off = (Z.shape[1] + 8) * 2.0**-23 * (np.sqrt(of_rows) + np.sqrt(lengths.max())) ** 2
        with np.errstate(over="ignore"):  # what overflows is listed, and measured in float64 then
            self._Z = Z.astype(np.float32)
            self._half_squares = (lengths / 2).astype(np.float32)
            self._bars = ((of_rows - within**2 - off) / 2).astype(np.float32)
        if self._device is not None:
            rows = np.ascontiguousarray(self._Z), self._half_squares, self._bars
            self._on_gpu = GpuImpostors(require("torch", "torch"), self._device, *rows)

    def _make(self, block: slice) -> Listed:
        if self._on_gpu is not None:
            given = self._rows[block], self._starts[block], self._stops[block]
            return Listed(*self._on_gpu.listed(block, *given))
        from nearsay.learn.lmnn.lmnn_kernels import list_within

        with np.errstate(over="ignore", invalid="ignore"):
            products = self._Z[self._rows[block]] @ self._Z.T
        ends = np.empty(len(products), np.int64)
        room = np.empty(products.size + 1, np.int32)
        list_within(
            products, self._half_squares, self._bars[block], self._starts[block], self._stops[block], ends, room
        )
        return Listed(ends, room[: ends[-1]].copy())


def squares(rows: np.ndarray) -> np.ndarray:
    """The squared length of every row."""
    return np.einsum("ij,ij->i", rows, rows)


class GpuImpostors:
    """Rows on a GPU, and the threshold at which others are listed.

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
