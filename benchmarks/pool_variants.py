"""What is left out of a pool, and feature groups beside all columns: ``python -m benchmarks.pool_variants [--tiny]``.

Two tables. Log loss on held-out rows where members that past cases do not miss are dropped, over that where all stay,
with processor seconds; and log loss of ``FusedClassifier`` in the pool, by the product, and of all columns at once,
with the standard error of the pool less the better of the others. ``--only`` names data sets.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import nearsay as ns
from benchmarks.measuring import Rows, print_table
from nearsay.core.compiling import start_compiling
from nearsay.errors import DatasetNotFound
from nearsay.posterior.methods.pool import pool_members
from reproduce.data_sets import read

# The data set by name, and how many columns each of its groups has.
GROUPS = {
    "wine": (4, 4, 5),
    "breast-cancer": (10, 10, 10),
    "crossed": (4, 4),
    "vehicle": (6, 6, 6),
    "glass": (3, 3, 3),
    "leaves": (64, 64, 64),
}
DROPPED = ("wine", "breast-cancer", "digits", "yeast", "glass", "vehicle")
SIZES = (200, 1000)
METRICS = {"default": "euclidean", "auto": "auto"}
HELD_OUT = 0.3
# Members are dropped as they are by default, or never.
DROPPING = {"all stay": -np.inf, "dropped": pool_members.MISSED}


def crossed() -> tuple[np.ndarray, np.ndarray]:
    """Eight classes, of which each of two groups of columns tells only half of what it takes."""
    random = np.random.default_rng(0)
    one, two, both = random.integers(0, 2, 600), random.integers(0, 2, 600), random.integers(0, 2, 600)
    X = random.normal(size=(600, 8))
    X[:, 0] += 2.5 * one
    X[:, 4] += 2.5 * two
    X[:, 1] += 2.0 * both
    X[:, 5] += 2.0 * both
    return X, 4 * one + 2 * two + both


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and class numbers of a data set."""
    if name == "crossed":
        return crossed()
    if name in ("wine", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return X, y
    rows = read(name)
    return np.asarray(rows.X, np.float64), np.unique(np.asarray(rows.y), return_inverse=True)[1]


def splits(name: str, n_splits: int, size: int | None = None) -> Iterator[tuple[np.ndarray, ...]]:
    """Training rows and labels, queries and their labels, of classes that the training rows have."""
    X, y = rows_of(name)
    for seed in range(n_splits):
        train, test = train_test_split(np.arange(len(X)), test_size=HELD_OUT, stratify=y, random_state=seed)
        train = np.random.default_rng(seed).permutation(train)[:size]
        test = test[np.isin(y[test], y[train])]
        yield X[train], y[train], X[test], y[test]


def measured(
    clf: Any, X: np.ndarray, y: np.ndarray, Q: np.ndarray, truth: np.ndarray
) -> tuple[np.ndarray, list[float]]:
    """−log p of the truth of every query, and processor seconds of fit and of the answers."""
    started = time.process_time()
    clf.fit(X, y)
    fitted = time.process_time()
    p = clf.predict_proba(Q)
    seconds = [fitted - started, time.process_time() - fitted]
    return -np.log(p[np.arange(len(Q)), np.searchsorted(clf.classes_, truth)]), seconds


def dropped(sets: Sequence[str], sizes: Sequence[int], n_splits: int) -> Rows:
    rows: Rows = []
    for name in sets:
        for size in sizes:
            for learned, metric in METRICS.items():
                loss, seconds, left_out = {}, {}, []
                for way, missed in DROPPING.items():
                    pool_members.MISSED = missed
                    losses, of_splits = [], []
                    for split in splits(name, n_splits, size):
                        clf = ns.NeighborClassifier(metric=metric)
                        of_queries, taken = measured(clf, *split)
                        losses.append(of_queries.mean())
                        of_splits.append(taken)
                        if way == "dropped":
                            left_out.append(sum(not member.used for member in clf.summary_.members))
                    loss[way], seconds[way] = np.mean(losses), np.sum(of_splits, axis=0)
                pool_members.MISSED = DROPPING["dropped"]
                fit, answer = zip(seconds["all stay"], seconds["dropped"], strict=True)
                rows.append(
                    {
                        "data": f"{name}, {learned}",
                        "rows at most": size,
                        "log loss": f"× {loss['dropped'] / loss['all stay']:.3f}",
                        "left out": ", ".join(map(str, left_out)),
                        "fit, s": f"{fit[0]:.2f} → {fit[1]:.2f}",
                        "predict, s": f"{answer[0]:.2f} → {answer[1]:.2f}",
                    }
                )
    return rows


def fusions(sets: Sequence[str], n_splits: int) -> Rows:
    rows: Rows = []
    for name in sets:
        stops = np.cumsum(GROUPS[name]).tolist()
        groups = {str(stop): slice(start, stop) for start, stop in zip([0, *stops[:-1]], stops, strict=True)}
        every = ns.NeighborClassifier(metric="auto")
        classifiers = {
            "pool": ns.FusedClassifier(groups, every),
            "product": ns.FusedClassifier(groups, every, fusion="product"),
            "all columns": every,
        }
        losses: dict[str, list[np.ndarray]] = {way: [] for way in classifiers}
        right: list[np.ndarray] = []
        for split in splits(name, n_splits):
            for way, clf in classifiers.items():
                losses[way].append(measured(clf, *split)[0])
            right.append(classifiers["pool"].predict(split[2]) == split[3])
        of = {way: np.concatenate(parts) for way, parts in losses.items()}
        better = min(("product", "all columns"), key=lambda way: float(of[way].mean()))
        less = of["pool"] - of[better]
        error = less.std() / np.sqrt(len(less))
        rows.append(
            {"data": f"{name}, {' + '.join(map(str, GROUPS[name]))}"}
            | {way: f"{values.mean():.4f}" for way, values in of.items()}
            | {
                "pool less the better": f"{less.mean():.4f} ± {error:.4f}",
                "pool right": f"{np.concatenate(right).mean():.4f}",
            }
        )
    return rows


def known(sets: Sequence[str]) -> list[str]:
    """Those that can be read here."""
    readable = []
    for name in sets:
        try:
            rows_of(name)
        except DatasetNotFound:
            continue
        readable.append(name)
    return readable


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that it works")
    parser.add_argument("--only", help="data sets, separated by commas")
    parser.add_argument("--splits", type=int, default=2, help="random splits of each data set")
    given = parser.parse_args()
    only = given.only.split(",") if given.only else None
    start_compiling()
    some = known(
        ["wine"]
        if given.tiny
        else [name for name in {**GROUPS, **dict.fromkeys(DROPPED)} if only is None or name in only]
    )
    with threadpool_limits(1), ns.threads(1):
        for metric in () if given.tiny else METRICS.values():  # what is compiled later would be counted
            measured(ns.NeighborClassifier(metric=metric), *next(splits("wine", 1, 40)))
        sizes, n_splits = ((40,), 1) if given.tiny else (SIZES, given.splits)
        print_table(
            "Members that past cases do not miss", dropped([name for name in some if name in DROPPED], sizes, n_splits)
        )
        print_table("Feature groups and all columns", fusions([name for name in some if name in GROUPS], n_splits))


if __name__ == "__main__":
    main()
