"""Neighbors of few queries among few rows in numpy, without compiling: all distances are measured.

    distances (queries × rows) ──► removed rows and the query itself at +inf ──► the smallest, ties by row number

Rows and distances are those of compiled search, to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks, row_width
from nearsay.core.compiling import done_without, worth_compiling
from nearsay.search.protocol import NeighborSearch

# Taking the smallest of a line of distances, in nanoseconds for each of them.
SELECTING = 40
ROWS_AT_ONCE = 1024

NOBODY = np.empty(0, np.int64)

Rows = tuple[np.ndarray, np.ndarray]  # row numbers and distances, to be filled in


def serves(search: NeighborSearch, n_queries: int) -> bool:
    """Whether measuring every row in numpy is faster than compiling anything."""
    if worth_compiling(0) or not search.exact:
        return False
    pair = SELECTING + search.distance_.uncompiled_ns(row_width(search.rows_.items))
    return not worth_compiling(n_queries * len(search.rows_) * pair)


def fill_nearest(search: NeighborSearch, Q: Any, left_out: np.ndarray, nearest: Rows) -> None:
    """Fill in the nearest rows of each query, without the row it is itself (``left_out``, or empty); −1 fills up."""
    for part in row_blocks(len(Q), row_bytes=8 * len(search.rows_)):
        _smallest(all_distances(search, Q[part], left_out[part]), _lines(nearest, part))


def fill_classes(
    search: NeighborSearch, labels: np.ndarray, Q: Any, left_out: np.ndarray, nearest: Rows, members: Rows
) -> None:
    """The same, and the nearest ``members`` of each class: (queries, classes, members)."""
    rows_of = [np.flatnonzero(labels == c) for c in range(members[0].shape[1])]
    for part in row_blocks(len(Q), row_bytes=8 * len(search.rows_)):
        distances = all_distances(search, Q[part], left_out[part])
        _smallest(distances, _lines(nearest, part))
        numbers, far = _lines(members, part)
        for c, rows in enumerate(rows_of):
            _smallest(distances[:, rows], (numbers[:, c], far[:, c]))
            numbers[:, c] = np.where(numbers[:, c] >= 0, rows[numbers[:, c]], -1) if len(rows) else -1


def _lines(nearest: Rows, part: slice) -> Rows:
    return nearest[0][part], nearest[1][part]


def all_distances(search: NeighborSearch, Q: Any, left_out: np.ndarray = NOBODY) -> np.ndarray:
    """All distances; +inf where a row is removed, or is the query itself."""
    rows = search.rows_
    distances = np.empty((len(Q), len(rows)))
    for first, block in rows.blocks(rows.block_size(ROWS_AT_ONCE)):
        distances[:, first : first + len(block)] = search.distance_.block(Q, block, first)
    if rows.removed is not None:
        distances[:, rows.removed] = np.inf
    if len(left_out):
        distances[np.arange(len(Q)), left_out] = np.inf
    done_without(SELECTING * distances.size)
    return distances


def _smallest(distances: np.ndarray, nearest: Rows) -> None:
    """Fill in the columns and values of the smallest of each line, in order, ties by column; −1 and +inf fill up."""
    numbers, far = nearest
    numbers[:], far[:] = -1, np.inf
    k = min(numbers.shape[1], distances.shape[1])
    if not k or not len(distances):
        return
    near = distances <= np.partition(distances, k - 1, axis=1)[:, k - 1 : k]
    crowded = np.count_nonzero(near, axis=1) > k  # equal distances at the end of the list
    columns = np.empty((len(distances), k), np.int64)
    columns[~crowded] = np.nonzero(near[~crowded])[1].reshape(-1, k)
    columns[crowded] = np.argsort(distances[crowded], axis=1, kind="stable")[:, :k]
    values = np.take_along_axis(distances, columns, axis=1)
    order = np.argsort(values, axis=1, kind="stable")
    far[:, :k] = np.take_along_axis(values, order, axis=1)
    numbers[:, :k] = np.where(far[:, :k] < np.inf, np.take_along_axis(columns, order, axis=1), -1)
