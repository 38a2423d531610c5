"""A collection as points on a plane: by principal components, or by neighbors.

    components   vectors ──► Euclidean form of the metric ──► mean, scale of each feature group ──► two directions
    neighbors    vectors ──► nearest others of every item ──► neighbors drawn together, others pushed apart

Both give the same points every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, eigsh

from nearsay.collection.live import LiveCollection
from nearsay.collection.state.feature_groups import FeatureGroups
from nearsay.core.cancellation import go_on
from nearsay.core.parallel import one_blas_thread
from nearsay.distances.named import as_distance
from nearsay.errors import InputError, unknown_name
from nearsay.neighbors import neighbor_search

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
        The two directions of largest variance in the Euclidean form of the metric, every feature group counting
        alike; or a plane on which items lie next to their neighbors, for up to 50,000 items.
    """
    if layout not in LAYOUTS:
        raise unknown_name("layout", layout, LAYOUTS)
    by_neighbors = layout == "neighbors" and len(collection) > 2
    if by_neighbors:
        check_not_too_many(len(collection))
    state = collection.state() if by_neighbors else None
    alive = collection.labels_by_row()[3] if state is None else state.alive
    rows = np.flatnonzero(alive)
    groups = FeatureGroups.of_settings(collection.store.settings)
    columns = None if groups is None else list(groups.columns.values())
    blocks = _living(collection.store.blocks(), alive)
    points = components(blocks, collection.n_columns, columns, euclidean_form(collection.store.settings))
    if state is not None and len(rows) > 2:
        table = neighbor_search.leave_one_out(state.everything, min(NEIGHBORS, len(rows) - 1), rows)
        points = neighbor_layout(np.searchsorted(rows, table.indices), points)
    placed = np.full((len(alive), 2), np.nan, np.float32)
    placed[rows] = points
    return placed


def check_not_too_many(n_items: int) -> None:
    """Refuse a map by neighbors where it would take too long."""
    if n_items > MOST_BY_NEIGHBORS:
        raise InputError(
            f"A map by neighbors is limited to {MOST_BY_NEIGHBORS:,} items; there are {n_items:,}."
            " Use the map by components."
        )


def euclidean_form(settings: Mapping[str, Any]) -> Callable[[np.ndarray], np.ndarray]:
    """A function to rows whose Euclidean distances are in the order of the collection's metric.

    Where a metric has none (``metrics_without_form``), rows stay as they are.

    >>> euclidean_form({"metric": "cosine"})(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """
    groups = FeatureGroups.of_settings(settings)
    if groups is None:
        return _form(settings.get("metric", "euclidean"))
    parts = [(slice(*groups.columns[name]), _form(groups.metrics[name])) for name in groups.columns]

    def transform(rows: np.ndarray) -> np.ndarray:
        out = rows.copy()
        for columns, form in parts:
            out[:, columns] = form(np.ascontiguousarray(rows[:, columns]))
        return out

    return transform


def _form(metric: str) -> Callable[[np.ndarray], np.ndarray]:
    distance = as_distance(metric)
    return distance.euclidean_form if distance.has_euclidean_form else lambda rows: rows


def metrics_without_form(settings: Mapping[str, Any]) -> list[str]:
    """The metrics of a collection that components do not follow.

    >>> metrics_without_form({"metric": "manhattan"}), metrics_without_form({"metric": "cosine"})
    (['manhattan'], [])
    """
    groups = FeatureGroups.of_settings(settings)
    metrics = [settings.get("metric", "euclidean")] if groups is None else groups.metrics.values()
    return sorted({metric for metric in metrics if not as_distance(metric).has_euclidean_form})


def components(
    blocks: Sequence[np.ndarray],
    n_columns: int,
    groups: Sequence[tuple[int, int]] | None = None,
    transform: Callable[[np.ndarray], np.ndarray] = np.asarray,
    *,
    most_columns: int = MOST_COLUMNS,
    rows_at_once: int = ROWS_AT_ONCE,
) -> np.ndarray:
    """(n_rows, 2) float32: all rows along the two directions of largest variance.

    The largest entry of each direction is positive. Columns in ``groups`` (start, stop) are scaled together so that
    every group varies as much as any other. ``transform`` is applied to rows first. The result does not depend on how
    rows are cut into blocks. The covariances of up to ``most_columns`` are held as a matrix.

    >>> components([np.array([[0.0, 7.0], [1.0, 7.0], [5.0, 7.0]])], 2)[:, 0]
    array([-2., -1.,  3.], dtype=float32)
    """
    n = sum(len(block) for block in blocks)
    placed = np.zeros((n, 2), np.float32)
    if n == 0:
        return placed

    def parts() -> Iterator[np.ndarray]:
        return map(transform, _parts(blocks, n_columns, rows_at_once))

    mean = sum((part.sum(axis=0) for part in parts()), np.zeros(n_columns)) / n
    scale = np.ones(n_columns)
    if groups is not None:
        spread = sum((((part - mean) ** 2).sum(axis=0) for part in parts()), np.zeros(n_columns)) / n
        for start, stop in groups:
            scale[start:stop] = 1 / np.sqrt(spread[start:stop].sum() or 1.0)
    with one_blas_thread():  # several may add in another order
        directions = _widest(parts, mean, scale, most_columns)
        at = 0
        for part in parts():
            placed[at : at + len(part), : directions.shape[1]] = ((part - mean) * scale) @ directions
            at += len(part)
    return placed


def neighbor_layout(neighbors: np.ndarray, start: np.ndarray, rounds: int = ROUNDS) -> np.ndarray:
    """(n, 2) float32: a force-directed layout, attracted to neighbors and repelled from others, from initial positions.

    The forces are those of t-SNE with equal weights for all neighbors; what others push is taken from a sample.

    Parameters
    ----------
    neighbors : (n, k) row numbers of the nearest others.
    start : (n, 2)
    """
    from nearsay.web.content.map_layout_kernels import draw_together, push_apart

    n, k = neighbors.shape
    pairs = csr_array((np.ones(n * k), (np.repeat(np.arange(n), k), neighbors.ravel())), shape=(n, n))
    graph = csr_array(pairs + pairs.T)
    shares = graph.data / (2 * k)
    spread = start.std(axis=0).max() or 1.0
    rng = np.random.default_rng(0)
    # A little noise parts those that begin in the same place.
    Y = np.asarray(10 * (start - start.mean(axis=0)) / spread + rng.normal(scale=1e-3, size=(n, 2)))
    drawn, pushed = np.empty_like(Y), np.empty_like(Y)
    strangers = max(FEWEST_STRANGERS, min(PAIRS_A_ROUND // n, n))
    for step in range(rounds):
        go_on()
        # Neighbors find each other first; then all are spread out.
        draw_together(graph.indptr, graph.indices, shares, Y, 4.0 if step < rounds // 4 else 1.0, drawn)
        pushed[:], closeness = 0.0, 0.0
        for _ in range(strangers):
            closeness += push_apart(rng.permutation(n), Y, pushed)
        Y += np.clip(LARGEST_STEP * (1 - step / rounds) * (drawn + pushed * (n / closeness)), -4, 4)
    return np.asarray(Y - Y.mean(axis=0), np.float32)


def _widest(
    parts: Callable[[], Iterator[np.ndarray]], mean: np.ndarray, scale: np.ndarray, most_columns: int
) -> np.ndarray:
    """(n_columns, up to 2): the directions, the widest first."""
    n_columns = len(mean)
    if n_columns <= most_columns:
        total = np.zeros((n_columns, n_columns))
        for part in parts():
            centered = (part - mean) * scale
            total += centered.T @ centered
        directions = np.linalg.eigh(total)[1][:, ::-1][:, :2]
    else:

        def times(v: np.ndarray) -> np.ndarray:
            total = np.zeros(n_columns)
            for part in parts():
                centered = (part - mean) * scale
                total += centered.T @ (centered @ v.ravel())
            return total

        covariance = LinearOperator((n_columns, n_columns), matvec=times, dtype=np.float64)
        start = np.random.default_rng(0).normal(size=n_columns)
        directions = eigsh(covariance, k=2, v0=start)[1][:, ::-1]
    largest = directions[np.abs(directions).argmax(axis=0), np.arange(directions.shape[1])]
    return np.asarray(directions * np.where(largest < 0, -1.0, 1.0))


def _parts(blocks: Sequence[np.ndarray], n_columns: int, at_once: int) -> Iterator[np.ndarray]:
    """The rows of all blocks, so many at a time across blocks; the buffer is reused."""
    held, n = np.empty((at_once, n_columns)), 0
    for block in blocks:
        start = 0
        while start < len(block):
            go_on()
            some = block[start : start + at_once - n]
            held[n : n + len(some)] = some
            start, n = start + len(some), n + len(some)
            if n == at_once:
                yield held
                n = 0
    if n:
        yield held[:n]


def _living(blocks: Sequence[np.ndarray], alive: np.ndarray) -> list[np.ndarray]:
    """The rows that were not forgotten, copied only where some were."""
    living, at = [], 0
    for block in blocks:
        here = alive[at : at + len(block)]
        living.append(block[: len(here)] if here.all() else block[: len(here)][here])
        at += len(here)
    return living
