"""What each member of the pool brings: ``python -m benchmarks.pool_members [--tiny]``.

Log loss of pools of some views and models on held-out rows, over that of the first two views with Gaussians alone: the
geometric mean of the data sets, and the worst. All views and models are fitted once a split; each pool then weighs some
of them. Training rows are cut to several numbers. Sets of scikit-learn, made-up ones, and those of ``NEARSAY_DATA``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from sklearn import datasets
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import nearsay as ns
from benchmarks.measuring import Rows, main
from nearsay.errors import DatasetNotFound
from nearsay.metrics.probability import mean_log_posterior
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.methods.pool import pool_members
from nearsay.posterior.methods.pooled import Pooled
from reproduce.data_sets import DATA_SETS, read

SPLITS, MOST_QUERIES = 3, 1000
SIZES = (1500, 200, 100)
GAUSSIANS = ("Gaussian", "Gaussian ranks")
# Pools by name: how many views (None for all), and which models.
POOLS: dict[str, tuple[int | None, tuple[str, ...]]] = {
    "two views, Gaussians": (2, GAUSSIANS),
    "and a line": (2, (*GAUSSIANS, "line")),
    "and a forest": (2, (*GAUSSIANS, "forest")),
    "and both": (2, (*GAUSSIANS, "line", "forest")),
    "all views, Gaussians": (None, GAUSSIANS),
    "all views, and both": (None, (*GAUSSIANS, "line", "forest")),
}


def data_sets(tiny: bool) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """(name, rows, labels)"""
    yield ("wine", *datasets.load_wine(return_X_y=True))
    if tiny:
        return
    yield ("breast cancer", *datasets.load_breast_cancer(return_X_y=True))
    yield ("digits", *datasets.load_digits(return_X_y=True))
    yield ("sphere", *datasets.make_hastie_10_2(2000, random_state=0))
    yield ("rules", *rules())
    for name in DATA_SETS:
        if name not in ("wine", "breast cancer", "digits", "mnist", "leaves"):
            try:
                rows = read(name)
            except DatasetNotFound:
                continue
            yield name, np.asarray(rows.X, np.float64), np.asarray(rows.y)


def rules() -> tuple[np.ndarray, np.ndarray]:
    """Classes by thresholds on a few of twelve columns, half of them skewed; one label in twenty drawn by lot."""
    random = np.random.default_rng(0)
    X = random.normal(size=(2000, 12))
    X[:, 6:] = np.exp(X[:, 6:])
    y = np.where(X[:, 7] > 2, 4, 2 * (X[:, 0] > 0) + (X[:, 1] * X[:, 2] > 0))
    return X, np.where(random.random(2000) < 0.05, random.integers(0, 5, 2000), y)


def members(tiny: bool) -> Rows:
    pool_members.MISSED = -np.inf  # every member stays
    sizes, n_splits = ((60,), 1) if tiny else (SIZES, SPLITS)
    ratios: dict[tuple[str, int], list[float]] = {}
    for _, X, y in data_sets(tiny):
        for size in sizes:
            with threadpool_limits(1), ns.threads(1):
                losses = np.mean([split_losses(X, y, size, seed) for seed in range(n_splits)], axis=0)
            for pool, loss in zip(POOLS, losses, strict=True):
                ratios.setdefault((pool, size), []).append(loss / losses[0])
    return [
        {"pool": pool}
        | {f"{size} rows": float(np.exp(np.mean(np.log(ratios[pool, size])))) for size in sizes}
        | {f"worst of {size}": max(ratios[pool, size]) for size in sizes}
        for pool in POOLS
    ]


def split_losses(X: np.ndarray, y: np.ndarray, size: int, seed: int) -> list[float]:
    """The log loss of each pool on rows held out."""
    X, Q, y, truth = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    some = np.random.default_rng(seed).permutation(len(X))[:size]
    clf = ns.NeighborClassifier(metric="auto", posterior="pooled").fit(X[some], y[some])
    known = np.flatnonzero(np.isin(truth, clf.classes_))[:MOST_QUERIES]
    model, queries = clf.model_, clf.neighbors(Q[known])
    past, rows = model.past.judged(model.n_neighbors, model.members)
    names = [each.name for each in model.views.models]
    losses = []
    for n_views, of_models in POOLS.values():
        columns = [names.index(name) for name in of_models if name in names]
        pool = Pooled().fit(some_of(past, n_views, columns), model.labels, len(model.classes), rows)
        p = pool.proba(some_of(queries, n_views, columns))
        losses.append(-mean_log_posterior(p, np.searchsorted(clf.classes_, truth[known])))
    return losses


def some_of(table: NeighborTable, n_views: int | None, models: list[int]) -> NeighborTable:
    """A table with the first views and some models."""
    log_p = None if table.model_log_p is None or not models else table.model_log_p[:, :, models]
    further = table.further if n_views is None else table.further[: n_views - 1]
    return replace(table, further=further, model_log_p=log_p)


if __name__ == "__main__":
    main("Log loss over that of two views with Gaussians", members)
