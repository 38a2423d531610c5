"""Cells: rows listed under the nearest of some centers (k-means), for inverted lists.

Only exact search assigns, so cells do not depend on threads or batches.
"""

from __future__ import annotations

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.search.exact import ExactSearch

ROUNDS = 6
ROWS_A_CELL = 48  # more do not move the centers enough to be worth the time
QUERIES_AT_ONCE = 4096


def cell_count(n_rows: int) -> int:
    """How many cells for so many rows: about as many as there are rows in three of them.

    >>> cell_count(10_000)
    300
    """
    return max(1, int(3 * n_rows**0.5))


def cell_centers(X: np.ndarray, n_cells: int, rng: np.random.Generator) -> np.ndarray:
    """Centers that cut the rows into cells: a few rounds of k-means from rows drawn at random.

    A center that lost all its rows stays where it is.

    >>> X = np.array([[0.0], [2.0], [10.0], [12.0]])
    >>> np.sort(cell_centers(X, 2, np.random.default_rng(0)), axis=0).ravel().tolist()
    [1.0, 11.0]
    """
    from scipy.sparse import csr_array

    centers = X[np.sort(rng.choice(len(X), n_cells, replace=False))]
    for _ in range(ROUNDS):
        cells = nearest_cells(ExactSearch("euclidean").fit(centers), X, 1)[0][:, 0]
        members = csr_array((np.ones(len(X)), (cells, np.arange(len(X)))), shape=(n_cells, len(X)))
        counts = np.bincount(cells, minlength=n_cells)[:, None]
        centers = np.where(counts > 0, (members @ X) / np.maximum(counts, 1), centers).astype(X.dtype)
    return centers


def nearest_cells(centers: ExactSearch, Q: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of, and distances to, the ``n`` nearest centers of every row of ``Q``, nearest first."""
    cells, distances = np.empty((len(Q), n), np.int64), np.empty((len(Q), n))
    for part in row_blocks(len(Q), size=QUERIES_AT_ONCE):
        candidates = centers.candidates(Q[part], n)
        measured = np.full(candidates.shape, np.inf)
        centers.distance_.measure(Q[part], centers.rows_.items, candidates, 0, measured)
        # Candidates come in order of number, and a stable sort keeps that among equals.
        nearest_first = np.argsort(measured, axis=1, kind="stable")[:, :n]
        cells[part] = np.take_along_axis(candidates, nearest_first, axis=1)
        distances[part] = np.take_along_axis(measured, nearest_first, axis=1)
    return cells, distances
