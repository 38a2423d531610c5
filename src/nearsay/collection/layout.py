"""A collection as points on a plane: by principal components at once, or by who is whose neighbor.

    components   vectors ──► mean, scale of each feature group ──► covariance ──► the two widest directions
    neighbors    vectors ──► nearest others of every item ──► neighbors drawn together, others pushed apart

Both give the same points every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, eigsh

from nearsay.arrays import row_blocks
from nearsay.collection.feature_groups import FeatureGroups
from nearsay.collection.live import LiveCollection
from nearsay.errors import InputError, unknown_name
from nearsay.neighbors import find
from nearsay.search.exact import ExactSearch

LAYOUTS = ("components", "neighbors")
MOST_BY_NEIGHBORS = 50_000
NEIGHBORS, ROUNDS, LARGEST_STEP = 12, 300, 3.0
# How many pairs of strangers are pushed apart in a round: all of few items, a sample of many.
FEWEST_STRANGERS, PAIRS_A_ROUND = 5, 60_000
# Up to so many columns their covariances are held as a matrix.
MOST_COLUMNS = 2048
ROWS_AT_ONCE = 4096


def map_of(collection: LiveCollection, layout: str = "components") -> np.ndarray:
    """Where each item lies on a plane: (n_rows, 2) float32, NaN for rows that were forgotten.

    Parameters
    ----------
    layout : "components" or "neighbors"
        The two widest directions of the vectors, every feature group counting alike; or a plane on which items lie
        beside their nearest others, for up to 50,000 items.
    """
    if layout not in LAYOUTS:
        raise unknown_name("layout", layout, LAYOUTS)
    alive = collection.labels_by_row()[3]
    rows = np.flatnonzero(alive)
    if layout == "neighbors":
        check_not_too_many(len(rows))
    groups = FeatureGroups.of_settings(collection.store.settings)
    columns = None if groups is None else list(groups.columns.values())
    blocks = _living(collection.store.blocks(), alive)
    points = components(blocks, collection.n_columns, columns)
    if layout == "neighbors" and len(rows) > 2:
        view = collection.now().views.first
        search = ExactSearch().fit_checked(view.search.rows_.between(0, len(alive)), view.search.distance_)
        if not alive.all():
            search.remove(np.flatnonzero(~alive))
        table = find.leave_one_out(search, min(NEIGHBORS, len(rows) - 1), rows)
        points = beside_neighbors(np.searchsorted(rows, table.indices), points)
    placed = np.full((len(alive), 2), np.nan, np.float32)
    placed[rows] = points
    return placed


def check_not_too_many(n_items: int) -> None:
    """Refuse a map by neighbors where it would take too long."""
    if n_items > MOST_BY_NEIGHBORS:
        raise InputError(
            f"A map by neighbors is made of up to {MOST_BY_NEIGHBORS:,} items; there are {n_items:,} here."
            " Use the map by components."
        )


def components(
    blocks: Sequence[np.ndarray], n_columns: int, groups: Sequence[tuple[int, int]] | None = None
) -> np.ndarray:
    """(n_rows, 2) float32: all rows seen along the two directions in which they differ most.

    The largest entry of each direction is positive. Columns in ``groups`` (start, stop) are scaled together so that
    every group varies as much as any other.

    >>> components([np.array([[0.0, 7.0], [1.0, 7.0], [5.0, 7.0]])], 2)[:, 0]
    array([-2., -1.,  3.], dtype=float32)
    """
    n = sum(len(block) for block in blocks)
    placed = np.zeros((n, 2), np.float32)
    if n == 0:
        return placed
    mean = sum((part.sum(axis=0) for part in _parts(blocks)), np.zeros(n_columns)) / n
    scale = np.ones(n_columns)
    if groups is not None:
        spread = sum((((part - mean) ** 2).sum(axis=0) for part in _parts(blocks)), np.zeros(n_columns)) / n
        for start, stop in groups:
            scale[start:stop] = 1 / np.sqrt(spread[start:stop].sum() or 1.0)
    directions = _widest(blocks, mean, scale)
    at = 0
    for part in _parts(blocks):
        placed[at : at + len(part), : directions.shape[1]] = ((part - mean) * scale) @ directions
        at += len(part)
    return placed


def beside_neighbors(neighbors: np.ndarray, start: np.ndarray) -> np.ndarray:
    """(n, 2) float32: points drawn to their neighbors and pushed away from others, beginning where they are.

    The forces are those of t-SNE with equal weights for all neighbors; what others push is taken from a sample.

    Parameters
    ----------
    neighbors : (n, k) row numbers of the nearest others.
    start : (n, 2)
    """
    n, k = neighbors.shape
    pairs = csr_array((np.ones(n * k), (np.repeat(np.arange(n), k), neighbors.ravel())), shape=(n, n))
    graph = csr_array(pairs + pairs.T)
    ends, share = np.repeat(np.arange(n), np.diff(graph.indptr)), graph.data / (2 * k)
    spread = start.std(axis=0).max() or 1.0
    rng = np.random.default_rng(0)
    # A little noise parts those that begin in the same place.
    Y = np.asarray(10 * (start - start.mean(axis=0)) / spread + rng.normal(scale=1e-3, size=(n, 2)))
    strangers = max(FEWEST_STRANGERS, min(PAIRS_A_ROUND // n, n))
    for step in range(ROUNDS):
        graph.data = share / (1 + ((Y[graph.indices] - Y[ends]) ** 2).sum(axis=1))
        drawn = graph @ Y - graph.sum(axis=1)[:, None] * Y
        pushed, closeness = np.zeros_like(Y), 0.0
        for _ in range(strangers):
            away = Y - Y[rng.permutation(n)]
            close = 1 / (1 + (away**2).sum(axis=1, keepdims=True))
            pushed += away * close**2
            closeness += float(close.sum())
        # Neighbors find each other first; then all are spread out.
        pull = 4.0 if step < ROUNDS // 4 else 1.0
        Y += np.clip(LARGEST_STEP * (1 - step / ROUNDS) * (pull * drawn + pushed * (n / closeness)), -4, 4)
    return np.asarray(Y - Y.mean(axis=0), np.float32)


def _widest(blocks: Sequence[np.ndarray], mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """(n_columns, up to 2): the directions, the widest first."""
    n_columns = len(mean)
    if n_columns <= MOST_COLUMNS:
        total = np.zeros((n_columns, n_columns))
        for part in _parts(blocks):
            centered = (part - mean) * scale
            total += centered.T @ centered
        found = np.linalg.eigh(total)[1][:, ::-1][:, :2]
    else:

        def times(v: np.ndarray) -> np.ndarray:
            total = np.zeros(n_columns)
            for part in _parts(blocks):
                centered = (part - mean) * scale
                total += centered.T @ (centered @ v.ravel())
            return total

        covariance = LinearOperator((n_columns, n_columns), matvec=times, dtype=np.float64)
        start = np.random.default_rng(0).normal(size=n_columns)
        found = eigsh(covariance, k=2, v0=start)[1][:, ::-1]
    largest = found[np.abs(found).argmax(axis=0), np.arange(found.shape[1])]
    return np.asarray(found * np.where(largest < 0, -1.0, 1.0))


def _parts(blocks: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
    for block in blocks:
        for part in row_blocks(len(block), size=ROWS_AT_ONCE):
            yield block[part].astype(np.float64)


def _living(blocks: Sequence[np.ndarray], alive: np.ndarray) -> list[np.ndarray]:
    """The rows that were not forgotten, copied only where some were."""
    found, at = [], 0
    for block in blocks:
        here = alive[at : at + len(block)]
        found.append(block[: len(here)] if here.all() else block[: len(here)][here])
        at += len(here)
    return found
